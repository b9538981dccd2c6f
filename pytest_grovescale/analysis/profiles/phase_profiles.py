"""The profiles of a phase: which files there are, what they cover, and their tables and stacks."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ...atomic_write import replacing
from ...errors import RecordingError, UsageError
from ...recording.records import ProfileKind, ProfileTaken
from ..phase_result import PhaseResult, ProfileResult
from ..recording_index import Contents, PhaseSpan
from ..result import Result, TestResult, last
from . import folded, pprof
from .functions import MAX_UNREADABLE, PYSPY_HZ, TOP, function_table, independent, problem_of
from .stacks import StackCounter, Stacks, speedscope

_SOURCE = "profile:"

_SNAPSHOTS: frozenset[ProfileKind] = frozenset({"heap", "goroutines"})
"""Kinds that show one moment, not an interval."""

PROFILED = "[profiled]"
"""Suffix of a profiling pass's name, after the name of its test."""


def profiles_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[tuple[ProfileResult, ...], dict[str, str]]:
    """Return a profile per process and kind, and why one is missing or incomplete (``profile:<process>``).

    Several captures of one process (it was restarted, or its profile came in slices) are one profile.
    """
    captures: dict[tuple[str, ProfileKind], list[ProfileTaken]] = defaultdict(list)
    for taken in contents.profiles:
        if taken.phase == phase.name and _is_of(contents, phase, taken.started, taken.ended):
            captures[taken.process, taken.kind].append(taken)
    missing: dict[str, str] = {}
    for failure in contents.failures:
        of_phase = contents.phase_before(failure.at) == phase.name and _is_of(contents, phase, failure.at, failure.at)
        if of_phase and failure.source.startswith(_SOURCE):
            said = missing.get(failure.source)
            missing[failure.source] = f"{said}; {failure.message}" if said else failure.message
    profiles = (_profile(contents, phase, key, taken) for key, taken in sorted(captures.items()))
    return tuple(profiles), missing


def _is_of(contents: Contents, phase: PhaseSpan, started: int, ended: int) -> bool:
    """Return whether an interval is of this phase, not of another one of the same name: it ends before the next one."""
    later = [other.start for other in contents.phases if other.name == phase.name and other.start > phase.start]
    return ended >= phase.start and started < min(later, default=started + 1)


def _profile(
    contents: Contents, phase: PhaseSpan, key: tuple[str, ProfileKind], captures: Sequence[ProfileTaken]
) -> ProfileResult:
    process, kind = key
    in_order = sorted(captures, key=lambda taken: taken.started)
    return ProfileResult(
        process=process,
        kind=kind,
        file=in_order[0].file,
        more_files=tuple(taken.file for taken in in_order[1:]),
        samples=_sum([taken.samples for taken in in_order]),
        errors=_sum([taken.errors for taken in in_order]),
        coverage=0.0 if kind in _SNAPSHOTS else _coverage(contents, phase, in_order),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _coverage(contents: Contents, phase: PhaseSpan, captures: Sequence[ProfileTaken]) -> float:
    """Return the share of the phase in which a capture ran. ``captures`` are in order; they may overlap."""
    start, end = phase.start, contents.end_of(phase)
    covered, reached = 0, start
    for taken in captures:
        low, high = max(taken.started, reached), min(taken.ended, end)
        covered += max(0, high - low)
        reached = max(reached, high)
    return covered / (end - start) if end > start else 0.0


def with_tables(result: Result, folder: Path) -> Result:
    """Return a run's result with the tables of its profile files; writes folded and speedscope files beside them.

    A file that is missing or damaged becomes its profile's `problem`; one that cannot be written, a warning.
    """
    warnings: list[str] = []
    tests = tuple(_with_tables(test, _measured(result, test), folder, warnings) for test in result.tests)
    return msgspec.structs.replace(result, tests=tests, warnings=(*result.warnings, *dict.fromkeys(warnings)))


def _measured(result: Result, test: TestResult) -> TestResult | None:
    """Return the pass without a profiler that a profiling pass repeats."""
    name = test.test.removesuffix(PROFILED)
    return next((other for other in last(result.tests) if other.test == name and not other.profiled), None)


def _with_tables(test: TestResult, measured: TestResult | None, folder: Path, warnings: list[str]) -> TestResult:
    if not any(phase.profiles for phase in test.phases):
        return test
    phases = []
    for index, phase in enumerate(test.phases):
        exact = _same_phase(test, index, measured)
        profiles = tuple(_filled(profile, phase, exact, folder, warnings) for profile in phase.profiles)
        phases.append(msgspec.structs.replace(phase, profiles=profiles))
    return msgspec.structs.replace(test, phases=tuple(phases))


def _same_phase(test: TestResult, index: int, measured: TestResult | None) -> PhaseResult | None:
    """Return the measured pass's phase of the same name; of several of one name, the same one in order."""
    if measured is None:
        return None
    name = test.phases[index].name
    nth = sum(phase.name == name for phase in test.phases[:index])
    same = [phase for phase in measured.phases if phase.name == name]
    return same[nth] if nth < len(same) else None


def _filled(
    profile: ProfileResult, phase: PhaseResult, exact: PhaseResult | None, folder: Path, warnings: list[str]
) -> ProfileResult:
    try:
        stacks = read_stacks(folder, profile)
    except RecordingError as error:
        return msgspec.structs.replace(profile, problem=error.message)
    cpu_s = exact_cpu_s(exact, profile.process)
    on_cpu = _on_cpu(profile, exact_cpu_s(phase, profile.process))
    try:
        files = _derived_files(folder, profile, stacks, f"{profile.process} in {phase.name}")
    except OSError as error:
        warnings.append(f"{profile.file}: its folded and speedscope files cannot be written: {error.strerror}")
        files = {}
    with_profiler = exact_cpu_s(phase, profile.process)
    return msgspec.structs.replace(
        with_table(profile, stacks, cpu_s=cpu_s, on_cpu=on_cpu, top=TOP),
        profiled_cpu_s=with_profiler,
        repeated=phase.triggers / exact.triggers if exact is not None and exact.triggers else 1.0,
        **files,
    )


def with_table(
    profile: ProfileResult, stacks: Stacks, *, cpu_s: float | None, on_cpu: float | None = None, top: int | None = None
) -> ProfileResult:
    """Return a profile with its function table, or with why it has none. Snapshots (heap, goroutines) have none.

    ``cpu_s``: the process's exact CPU seconds without a profiler; ``on_cpu``: see `functions.independent`.
    """
    if stacks.unit != "samples":
        return profile
    problem = _incomplete(profile, stacks) or problem_of(stacks, errors=profile.errors or 0)
    worth = independent(stacks.total, on_cpu)
    return msgspec.structs.replace(
        profile,
        samples=stacks.total,
        independent=worth,
        cpu_s=cpu_s,
        functions=() if problem else function_table(stacks, cpu_s=cpu_s, worth=worth, top=top),
        problem=problem or profile.problem,
    )


def _on_cpu(profile: ProfileResult, used_s: float | None) -> float | None:
    """Return how many of py-spy's samples fit into the CPU time that the process used while it was profiled."""
    return None if profile.kind != "pyspy" or used_s is None else PYSPY_HZ * used_s * profile.coverage


def exact_cpu_s(phase: PhaseResult | None, process: str) -> float | None:
    """Return a process's CPU seconds in a phase by its clock; None where it was not read, or not from end to end."""
    rows = [row for row in phase.cpu if row.source == "clock" and not row.lower_bound] if phase is not None else []
    return next((row.seconds for row in rows if row.process == process), None)


def _incomplete(profile: ProfileResult, stacks: Stacks) -> str:
    """Return a problem where the file lacks samples that py-spy reports: it was truncated at the end of a line."""
    samples = stacks.total + stacks.waiting
    if profile.kind != "pyspy" or profile.samples is None or samples >= (1 - MAX_UNREADABLE) * profile.samples:
        return ""
    return f"the file holds {samples:,} of the {profile.samples:,} samples that py-spy took: it is cut off"


def profiles_in(folder: Path) -> Callable[[ProfileResult], Stacks]:
    """Return a function that reads the profiles of the run in ``folder``, as `read_stacks` does."""
    return functools.partial(read_stacks, folder)


def read_stacks(folder: Path, profile: ProfileResult) -> Stacks:
    """Return the stacks of a profile of the run in ``folder``. Raises RecordingError: no file, or a damaged one."""
    counter = StackCounter()
    for name in (profile.file, *profile.more_files):
        try:
            if profile.kind == "pyspy":
                with (folder / name).open("rb") as file:
                    folded.feed(counter, file)
            else:
                pprof.feed(counter, (folder / name).read_bytes(), profile.kind)
        except RecordingError as error:
            raise RecordingError(f"{name}: {error.message}", next_step=error.next_step) from error
        except OSError as error:
            raise RecordingError(
                f"{name}: the profile cannot be read: {error.strerror}",
                next_step="Keep a run's folder whole: its profiles/ beside its recordings/.",
            ) from error
    return counter.stacks()


def _derived_files(folder: Path, profile: ProfileResult, stacks: Stacks, title: str) -> dict[str, str]:
    """Write the missing folded and speedscope files; return the names of both. Raises OSError."""
    names = {"folded": f"{profile.file}.folded", "speedscope": f"{profile.file}.speedscope.json"}
    if profile.kind == "pyspy" and not profile.more_files:
        names["folded"] = profile.file
    if not (folder / names["folded"]).exists():
        _write(folder / names["folded"], (line.encode("utf-8", "replace") for line in folded_lines(stacks)))
    if not (folder / names["speedscope"]).exists():
        _write(folder / names["speedscope"], [speedscope(stacks, title)])
    return names


def folded_lines(stacks: Stacks) -> Iterable[str]:
    """Yield a profile as folded stacks, a line each."""
    for functions, weight in stacks.items():
        yield f"{';'.join(function.full.replace(';', ':') for function in functions)} {weight}\n"


def _write(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file atomically; xdist's workers may analyse a run at the same time."""
    with replacing(path) as file:
        file.writelines(parts)


_PROFILE = "profile:"


class PhaseProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A CPU profile with its test and phase."""

    test: str
    phase: str
    profile: ProfileResult


def cpu_profiles(result: Result, *, phase: str = "", process: str = "") -> tuple[PhaseProfile, ...]:
    """Return a run's CPU profiles in the order of its phases; only those of ``phase`` or ``process`` where given.

    Raises UsageError when there is none; the message lists those available.
    """
    every = every_cpu_profile(result)
    chosen = tuple(one for one in every if phase in ("", one.phase) and process in ("", one.profile.process))
    if chosen:
        return chosen
    if not every:
        reasons = {
            f"{one.name}: {why}" for test in result.tests for one in test.phases for _, why in failures(one.missing)
        }
        raise UsageError(
            f"run {result.run} has no CPU profile" + "".join(f"\n  {reason}" for reason in sorted(reasons)),
            next_step="Run it with --grovescale-profile=auto.",
        )
    there = ", ".join(dict.fromkeys(f"{one.profile.process} in {one.phase}" for one in every))
    raise UsageError(f"run {result.run} has no such profile", next_step=f"It has: {there}.")


def every_cpu_profile(result: Result) -> tuple[PhaseProfile, ...]:
    """Return all CPU profiles of a run, in the order of its phases; none where it has none."""
    return tuple(
        PhaseProfile(test=test.test, phase=phase.name, profile=profile)
        for test in result.tests
        for phase in test.phases
        for profile in phase.profiles
        if profile.kind in ("pyspy", "pprof")
    )


def failures(missing: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (process, why with the remedy) for profiles that could not be taken, from a phase's `missing`."""
    for what, why in missing.items():
        if what.startswith(_PROFILE):
            yield what.removeprefix(_PROFILE), why


def with_whole_table(folder: Path, one: PhaseProfile, *, module: str = "") -> PhaseProfile:
    """Return a profile with all its functions instead of the first 40, or with all of one module."""
    profile = one.profile
    if profile.functions:
        try:
            stacks = read_stacks(folder, profile)
        except RecordingError as error:
            profile = msgspec.structs.replace(profile, functions=(), problem=error.message)
        else:
            rows = function_table(stacks, cpu_s=profile.cpu_s, worth=profile.independent, module=module)
            profile = msgspec.structs.replace(profile, functions=rows)
    return msgspec.structs.replace(one, profile=profile)


def with_first(one: PhaseProfile, top: int) -> PhaseProfile:
    """Return a profile with the first ``top`` of its functions."""
    return msgspec.structs.replace(
        one, profile=msgspec.structs.replace(one.profile, functions=one.profile.functions[:top])
    )


def matched(
    before: Sequence[PhaseProfile], after: Sequence[PhaseProfile]
) -> tuple[tuple[PhaseProfile, PhaseProfile], ...]:
    """Return the profiles of the same process in the same phase of the same test in both runs, in their order.

    When the runs have no test in common, the test is ignored. Several phases of one name are matched in order.
    """
    common = {one.test for one in before} & {one.test for one in after}
    waiting: dict[tuple[str, ...], list[PhaseProfile]] = {}
    for other in after:
        waiting.setdefault(_key(other, bool(common)), []).append(other)
    pairs = []
    for one in before:
        others = waiting.get(_key(one, bool(common)))
        if others:
            pairs.append((one, others.pop(0)))
    return tuple(pairs)


def paired(
    before: Sequence[PhaseProfile], after: Sequence[PhaseProfile]
) -> tuple[tuple[PhaseProfile, PhaseProfile], ...]:
    """Return the same as `matched`; raises UsageError when there are no pairs."""
    pairs = matched(before, after)
    if not pairs:
        left, right = ([f"{one.profile.process} in {one.phase}" for one in run] for run in (before, after))
        raise UsageError(
            "the two runs have no profile of the same process in the same phase",
            next_step=f"The first has {', '.join(left)}; the second {', '.join(right)}.",
        )
    return pairs


def _key(one: PhaseProfile, by_test: bool) -> tuple[str, ...]:
    return (one.test if by_test else "", one.phase, one.profile.process, one.profile.kind)
