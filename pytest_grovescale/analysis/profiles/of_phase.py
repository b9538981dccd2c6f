"""The profiles of a phase in the recording: their files, and the share of the phase that they cover."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...recording.records import ProfileKind, ProfileTaken
from ..contents import Contents, PhaseSpan
from ..result import ProfileResult

_SOURCE = "profile:"
_SNAPSHOTS: frozenset[ProfileKind] = frozenset({"heap", "goroutines"})
"""Kinds that show one moment, not an interval."""


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
    found = (_profile(contents, phase, key, taken) for key, taken in sorted(captures.items()))
    return tuple(found), missing


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
