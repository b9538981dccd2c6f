"""Metrics endpoints of a run as tables: series, families, and scrape success."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.result import FamilySummary, FamilyVerdict, TargetSummary
from .document import Block, Column, Heading, Item, Line, Table
from .format import NONE, count, figure, milliseconds, percent

OPERATOR = "operator"

_TARGETS_SHOWN = 10
_RETYPED_SHOWN = 3
_OWN_SHOWN = 12
"""In the terminal; all of them are on the page and in result.json."""


def metrics(targets: Sequence[TargetSummary]) -> Iterator[Block]:
    """Yield a row for each endpoint, and the operator's own families; nothing where no endpoint was scraped."""
    if not targets:
        return
    yield Heading("Metrics endpoints")
    columns = [Column("target"), *(Column(name, figures=True) for name in _HEADINGS)]
    shown = targets[:_TARGETS_SHOWN]
    yield Table(
        columns,
        [[target.target, *_cells(target)] for target in shown],
        tones=["doubt" if target.failure or target.retyped else "" for target in shown],
    )
    if len(targets) > len(shown):
        yield Line(f"and {len(targets) - len(shown)} more in result.json", "quiet")
    for target in shown:
        for text in marks(target):
            yield Item(f"{target.target} {text}", "doubt")
    yield from _own(shown)


_HEADINGS = ("up", "scrapes", "families", "series first", "last", "most", "took", "p99")


def _cells(target: TargetSummary) -> list[str]:
    return [
        percent(target.up_share),
        count(target.scrapes),
        _count(target.families if target.scrapes else None),
        _count(target.series_first),
        _count(target.series_last),
        _count(target.series_peak),
        NONE if target.took_p50_ms is None else milliseconds(target.took_p50_ms),
        NONE if target.took_p99_ms is None else milliseconds(target.took_p99_ms),
    ]


def marks(target: TargetSummary) -> Iterator[str]:
    """Yield caveats of an endpoint's figures."""
    if target.failure:
        yield failed(target)
    shown = target.retyped[:_RETYPED_SHOWN]
    if shown:
        more = target.type_changes - len(shown)
        changed = "; ".join(f"{one.family}, a {one.before}, is a {one.after} from {one.when} on" for one in shown)
        yield f"changed types: {changed}{f'; and {count(more)} more' if more else ''}"


def failed(target: TargetSummary) -> str:
    """Return how an endpoint failed, in words; for one that has a `failure`."""
    if not target.scrapes:
        return f"never answered: {target.failure}"
    if target.up_share == 1.0:
        return f"did not answer at last: {target.failure}"
    return f"did not answer {percent(1 - target.up_share)} of the time, last: {target.failure}"


def _own(targets: Sequence[TargetSummary]) -> Iterator[Block]:
    operator = next((target for target in targets if target.target == OPERATOR), None)
    if operator is None or not (operator.own or operator.verdicts):
        return
    yield Heading("The operator's own metrics")
    columns = [Column("family"), Column("type"), *(Column(name, figures=True) for name in _OWN_HEADINGS)]
    rows = [[one.family, one.type, *_own_cells(one)] for one in operator.own]
    if kinds := verdicts_of(operator):
        columns.append(Column("by value"))
        rows = [[*row, _kind(kinds.get(row[0]))] for row in rows]
    yield Table(columns, rows[:_OWN_SHOWN])
    if len(rows) > _OWN_SHOWN:
        yield Line(f"and {len(rows) - _OWN_SHOWN} more on the page and in result.json", "quiet")
    for verdict in _telling(operator)[:_OWN_SHOWN]:
        yield Item(in_words(verdict), "doubt" if verdict.refused else "")


_OWN_HEADINGS = ("series first", "last", "most", "value first", "last", "max")


def verdicts_of(target: TargetSummary) -> dict[str, FamilyVerdict]:
    """Return family → its relation to the others; empty where families were not analysed."""
    return {verdict.family: verdict for verdict in target.verdicts}


def in_words(verdict: FamilyVerdict) -> str:
    """Return a family's relation to another one, with the evidence."""
    own = ", the operator's own too" if verdict.of_own else ""
    instead = f"; ask for {verdict.query}" if verdict.query else ""
    return f"{verdict.family}: {verdict.kind} of {verdict.other}{own}: {verdict.why}{instead}"


def _telling(target: TargetSummary) -> list[FamilyVerdict]:
    """Return the verdicts that name another family, faults first."""
    return sorted((verdict for verdict in target.verdicts if verdict.other), key=lambda one: not one.refused)


def _kind(verdict: FamilyVerdict | None) -> str:
    return NONE if verdict is None else verdict.kind


def _own_cells(family: FamilySummary) -> list[str]:
    values = (family.value_first, family.value_last, family.value_max)
    return [
        *map(count, (family.series_first, family.series_last, family.series_peak)),
        *map(figure, values),
    ]


def _count(value: int | None) -> str:
    return NONE if value is None else count(value)
