"""The bottleneck table of a phase, and its summary line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...recording.records import Request
from ..contents import Contents, PhaseSpan
from ..result import BottleneckRow, CpuResult, Saturation
from .rows import AT_MOST, WORDS
from .scrapes import LIMITER, QUEUED, WORKERS
from .turns import OPERATOR
from .waits import waits_of_phase
from .who import who
from .why import why

_IN_LINE = 3
_WORTH_TELLING = 0.1


class Bottlenecks(NamedTuple):
    """A phase's table, largest row first, its summary line, and why rows are missing from it."""

    rows: tuple[BottleneckRow, ...] = ()
    line: str = ""
    missing: str = ""


def bottlenecks_of_phase(
    contents: Contents,
    phase: PhaseSpan,
    requests: Sequence[Request],
    *,
    hole: str,
    cpu: Sequence[CpuResult],
    saturation: Saturation | None,
) -> Bottlenecks:
    """Return the bottlenecks of a phase. ``requests``: the phase's; ``hole``: why the audit log does not cover it."""
    waits = waits_of_phase(contents, phase)
    if waits is None or contents.end_of(phase) <= phase.start:
        return Bottlenecks(missing="no milestone of the phase looks at objects: it waits for time to pass")
    rows = [] if hole else who(contents, phase, waits, requests)
    rows += why(contents, phase, cpu, saturation)
    rows.sort(key=lambda one: (-one.seconds, one.suspect))
    missing = [f"who was waited for is not known: {hole}"] if hole else []
    missing += _without_source(rows, contents, hole=hole)
    return Bottlenecks(tuple(rows), line_of(rows, phase.name), "; ".join(missing))


def line_of(rows: Iterable[BottleneckRow], phase: str) -> str:
    """Return the largest rows in words: ``operator CPU-bound 58 % of deploy; API server CPU-bound 41 %``.

    Upper bounds come last, whatever their size.
    """
    parts: list[str] = []
    for one in sorted(rows, key=lambda row: (row.suspect in AT_MOST, -row.seconds, row.suspect)):
        if one.share >= _WORTH_TELLING and len(parts) < _IN_LINE:
            parts.append(f"{WORDS[one.suspect]} {one.share * 100:.0f} %" + ("" if parts else f" of {phase}"))
    return "; ".join(parts)


def _without_source(rows: Sequence[BottleneckRow], contents: Contents, *, hole: str) -> list[str]:
    """Return which rows are missing, with the source that each of them lacks."""
    have = {one.suspect for one in rows}
    lacking: list[str] = []
    if OPERATOR in contents.opened.identities:
        if not hole and "operator-cpu" not in have:
            lacking.append("operator-cpu: its CPU clock does not span the phase")
        if not hole and "operator-core-wait" not in have:
            lacking.append("operator-core-wait: the recording does not have how long its threads waited for a core")
        if not hole and "operator-rate-limit" not in have:
            lacking.append(
                f"operator-rate-limit: the operator's metrics have no {LIMITER}, and no flow of its requests is flat"
            )
        if "operator-queue" not in have:
            lacking.append(f"operator-queue: the operator's metrics lack {QUEUED} or {WORKERS}")
    if "api-server" not in have:
        lacking.append("api-server: its CPU clock does not span the phase")
    return lacking
