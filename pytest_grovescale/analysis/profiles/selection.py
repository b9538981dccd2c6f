"""The CPU profiles of a finished run that a reader chose, with whole function tables, and pairs of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ...errors import RecordingError, UsageError
from ..phase_result import ProfileResult
from ..result import Result
from .functions import function_table
from .phase_profiles import read_stacks

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
