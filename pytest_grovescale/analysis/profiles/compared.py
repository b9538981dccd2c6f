"""Comparison of two variants' profiles: functions before and after, phase by phase, and missing profiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ...recording.records import ProfileKind
from ..result import ProfileResult, Result
from .chosen import PhaseProfile, failures, matched
from .difference import Difference, difference

SCHEMA_VERSION = 1


class ProfiledSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of two profiles: the base of its shares, and the profiler's cost."""

    samples: int | None
    cpu_s: float | None
    """Exact CPU seconds of the pass without a profiler."""
    profiled_cpu_s: float | None
    """The same of the profiling pass, which made `repeated` times the triggers."""
    repeated: float = 1.0
    problem: str = ""
    """Why it has no table, with what to do about it."""


class FunctionsCompared(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU of one process in one phase, function by function, before and after."""

    phase: str
    process: str
    kind: ProfileKind
    before: ProfiledSide
    after: ProfiledSide
    difference: Difference | None
    """None where one of them has no table."""


class NotProfiled(msgspec.Struct, frozen=True, kw_only=True):
    """A missing profile of a comparison."""

    variant: str
    why: str
    next_step: str = ""
    """What to do about it, where `why` does not say so."""
    phase: str = ""
    """Empty: the whole run has none."""
    process: str = ""


class ProfilesCompared(msgspec.Struct, frozen=True, kw_only=True):
    """All profiles of a comparison. Both empty: no profile was requested."""

    functions: tuple[FunctionsCompared, ...] = ()
    missing: tuple[NotProfiled, ...] = ()


class ProfilesFile(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``grovescale profile --json``."""

    schema_version: int = SCHEMA_VERSION
    profiles: tuple[PhaseProfile, ...] = ()
    """Of one run."""
    compared: tuple[FunctionsCompared, ...] = ()
    """Of two runs."""


def functions_compared(
    pairs: Iterable[tuple[PhaseProfile, PhaseProfile]], *, module: str = "", top: int | None = None
) -> tuple[FunctionsCompared, ...]:
    """Return the function tables of pairs of profiles side by side; ``module`` and ``top`` as in `difference`."""
    return tuple(
        FunctionsCompared(
            phase=one.phase,
            process=one.profile.process,
            kind=one.profile.kind,
            before=_side(one.profile),
            after=_side(other.profile),
            difference=difference(one.profile, other.profile, module=module, top=top),
        )
        for one, other in pairs
    )


def _side(profile: ProfileResult) -> ProfiledSide:
    return ProfiledSide(
        samples=profile.samples,
        cpu_s=profile.cpu_s,
        profiled_cpu_s=profile.profiled_cpu_s,
        repeated=profile.repeated,
        problem=profile.problem,
    )


def failed(variant: str, result: Result) -> tuple[NotProfiled, ...]:
    """Return the profiles of a run that could not be taken, with the reasons in its recordings."""
    return tuple(
        NotProfiled(variant=variant, phase=phase.name, process=process, why=why)
        for test in result.tests
        for phase in test.phases
        for process, why in failures(phase.missing)
    )


def alone(
    names: tuple[str, str],
    before: Sequence[PhaseProfile],
    after: Sequence[PhaseProfile],
    known: Sequence[NotProfiled],
) -> tuple[NotProfiled, ...]:
    """Return the profiles that only one of two runs has, except for those ``known`` to have failed."""
    pairs = matched(before, after)
    lacking = (
        *_lacking(names[1], before, [one for one, _ in pairs]),
        *_lacking(names[0], after, [other for _, other in pairs]),
    )
    return tuple(one for one in lacking if not any(_tells(other, one) for other in known))


def _lacking(variant: str, there: Sequence[PhaseProfile], found: Sequence[PhaseProfile]) -> Iterator[NotProfiled]:
    for one in there:
        if not any(one is other for other in found):
            yield NotProfiled(
                variant=variant,
                phase=one.phase,
                process=one.profile.process,
                why="this run has none, the other variant's has",
                next_step="See the run's own report for how far it came.",
            )


def _tells(known: NotProfiled, one: NotProfiled) -> bool:
    """Return whether a known reason explains a missing profile; a reason for the whole run explains all."""
    return known.variant == one.variant and (
        not known.phase or (known.phase, known.process) == (one.phase, one.process)
    )
