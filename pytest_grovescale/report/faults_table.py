"""Faults between the operator and the API server, and what the operator did about them, as a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..analysis.phase_result import FaultsResult, PhaseResult
from .document import Block, Column, Heading, Item, Table
from .format import NONE, count, seconds

HEADING = "API faults"

COLUMNS = ("phase", "fault", "number", "met by")
REACTIONS = ("phase", "made again", "delay", "longest", "Retry-After kept", "watches reopened", "recovered after")

_KINDS_SHOWN = 4


def faults(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield the faults of each phase and what followed; nothing where none were in force."""
    met = rows(phases)
    if not any(phase.faults for phase in phases):
        return
    yield Heading(HEADING)
    if met:
        columns = [Column(name, figures=index == 2, wraps=index == 3) for index, name in enumerate(COLUMNS)]
        yield Table(columns, met)
    yield Table([Column(name, figures=index > 0) for index, name in enumerate(REACTIONS)], reactions(phases))
    for line in settings(phases):
        yield Item(line, "quiet")


def line(phases: Sequence[PhaseResult]) -> str:
    """Return in one line how many faults there were, and how fast the operator recovered; empty without any."""
    parts = []
    for phase in phases:
        if phase.faults is not None and phase.faults.total:
            recovered = phase.faults.recovery_s
            after = f", recovered after {seconds(recovered)}" if recovered is not None else ""
            parts.append(f"{count(phase.faults.total)} in {phase.name}{after}")
    return f"API faults: {'; '.join(parts)}" if parts else ""


def rows(phases: Sequence[PhaseResult]) -> list[list[str]]:
    """Return a row for each kind of fault in each phase."""
    found = []
    for phase in phases:
        by_kind: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in phase.faults.rows if phase.faults is not None else ():
            by_kind[row.kind].append((row.count, f"{row.verb} {row.resource}"))
        for kind, members in by_kind.items():
            members.sort(reverse=True)
            shown = [f"{count(number)} {what}" for number, what in members[:_KINDS_SHOWN]]
            more = [f"{len(members) - len(shown)} more kinds"] if len(members) > len(shown) else []
            found.append([phase.name, kind, count(sum(number for number, _ in members)), ", ".join(shown + more)])
    return found


def reactions(phases: Sequence[PhaseResult]) -> list[list[str]]:
    """Return a row for each phase with faults: what the operator did about them."""
    return [[phase.name, *_reaction(phase.faults)] for phase in phases if phase.faults is not None]


def _reaction(one: FaultsResult) -> list[str]:
    made_again = NONE
    if one.repeated is not None and one.not_repeated is not None and one.repeated + one.not_repeated:
        made_again = f"{count(one.repeated)} of {count(one.repeated + one.not_repeated)}"
    return [
        made_again,
        NONE if one.delay_p50_s is None else seconds(one.delay_p50_s),
        NONE if one.delay_max_s is None else seconds(one.delay_max_s),
        NONE if one.waits_ignored is None else _share(one.waits_asked - one.waits_ignored, one.waits_asked),
        NONE if one.watches_reopened is None else _share(one.watches_reopened, one.watches_cut),
        NONE if one.recovery_s is None else seconds(one.recovery_s),
    ]


def _share(part: int, whole: int) -> str:
    return f"{count(part)} of {count(whole)}" if whole else NONE


def settings(phases: Sequence[PhaseResult]) -> Iterator[str]:
    """Yield what was in force in each phase."""
    for phase in phases:
        if phase.faults is not None:
            part = "" if phase.faults.seconds > 0.99 * phase.seconds else f", for {seconds(phase.faults.seconds)} of it"
            yield f"{phase.name}: {'; then '.join(phase.faults.settings)}{part}"
