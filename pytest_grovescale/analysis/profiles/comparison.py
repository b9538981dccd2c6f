"""Profiles of two variants compared function by function, phase by phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from ...recording.records import ProfileKind
from ..phase_result import FunctionRow, ProfileResult
from ..result import Result
from .functions import TOP, in_module, is_trunk, wilson
from .phase_profiles import PhaseProfile, failures, matched
from .stacks import Function

Scale = Literal["cpu_s", "share"]
"""``cpu_s``: exact CPU seconds × share, where both runs have them; ``share``: of each profile's own samples, so that
a function may grow only because others shrank."""

SCHEMA_VERSION = 1


class DifferenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One function before and after, in its table's scale."""

    function: str
    module: str
    before: float | None
    """None: not among the functions of that side."""
    after: float | None
    change: float | None
    """after / before - 1; None where one of them is missing."""
    beyond_error: bool
    """Whether the two 95 % intervals do not overlap: a smaller difference may be the samples' error alone."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Two function tables of one process in one phase."""

    scale: Scale
    before: float
    """All functions together: the process's CPU seconds, or 1."""
    after: float
    samples: tuple[int, int]
    rows: tuple[DifferenceRow, ...]
    """By the larger of before and after."""

    @property
    def change(self) -> float | None:
        """after / before - 1 of the whole; None for shares, whose whole does not change."""
        return self.after / self.before - 1 if self.scale == "cpu_s" and self.before > 0 else None


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
    return tuple(one for one in lacking if not any(_covers(other, one) for other in known))


def _lacking(variant: str, there: Sequence[PhaseProfile], used: Sequence[PhaseProfile]) -> Iterator[NotProfiled]:
    for one in there:
        if not any(one is other for other in used):
            yield NotProfiled(
                variant=variant,
                phase=one.phase,
                process=one.profile.process,
                why="this run has none, the other variant's has",
                next_step="See the run's own report for how far it came.",
            )


def _covers(known: NotProfiled, one: NotProfiled) -> bool:
    """Return whether a known reason explains a missing profile; a reason for the whole run explains all."""
    return known.variant == one.variant and (
        not known.phase or (known.phase, known.process) == (one.phase, one.process)
    )


def difference(
    before: ProfileResult, after: ProfileResult, *, module: str = "", top: int | None = None
) -> Difference | None:
    """Return the difference of two profiles' function tables, or None when one of them has no table.

    Of all functions but those that only lead to others (`is_trunk`), or of all of one module (`in_module`).
    """
    if not before.functions or not after.functions or not before.samples or not after.samples:
        return None
    exact = before.cpu_s is not None and after.cpu_s is not None
    left = _Side(before, before.cpu_s if exact and before.cpu_s is not None else 1.0)
    right = _Side(after, after.cpu_s if exact and after.cpu_s is not None else 1.0)
    functions = (Function(name, path, name) for name, path in left.rows | right.rows)
    compared = (one for one in functions if (in_module(one, module) if module else not is_trunk(one)))
    rows = [_row(one.name, one.module, left, right) for one in compared]
    rows.sort(key=lambda row: (-max(row.before or 0.0, row.after or 0.0), row.function, row.module))
    return Difference(
        scale="cpu_s" if exact else "share",
        before=left.whole,
        after=right.whole,
        samples=(before.samples, after.samples),
        rows=tuple(rows[:top]),
    )


class _Side:
    """One of the two tables, scaled."""

    def __init__(self, profile: ProfileResult, whole: float) -> None:
        self.whole = whole
        self.rows: dict[tuple[str, str], FunctionRow] = {(row.function, row.module): row for row in profile.functions}
        samples = profile.samples or 1
        worth = profile.independent or samples
        unseen = _most_unseen(profile) / samples * worth
        self._unseen = (0.0, wilson(min(unseen, worth), worth)[1])

    def value(self, key: tuple[str, str]) -> float | None:
        row = self.rows.get(key)
        return None if row is None else row.share * self.whole

    def interval(self, key: tuple[str, str]) -> tuple[float, float]:
        row = self.rows.get(key)
        low, high = self._unseen if row is None else (row.share_low, row.share_high)
        return low * self.whole, high * self.whole


def _most_unseen(profile: ProfileResult) -> int:
    """Return the maximum samples of a function that is missing in the table: a result keeps the first `TOP`."""
    return profile.functions[-1].samples if len(profile.functions) == TOP else 0


def _row(name: str, path: str, left: _Side, right: _Side) -> DifferenceRow:
    key = (name, path)
    before, after = left.value(key), right.value(key)
    (low, high), (other_low, other_high) = left.interval(key), right.interval(key)
    return DifferenceRow(
        function=name,
        module=path,
        before=before,
        after=after,
        change=after / before - 1 if before and after is not None else None,
        beyond_error=high < other_low or other_high < low,
    )
