"""Metrics endpoints of a run as tables: series, families, and scrape success."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.result import FamilySummary, FamilyVerdict, TargetSummary
from .document import Block, Column, Heading, Item, Line, Table, cell
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
    shown = targets[:_TARGETS_SHOWN]
    yield from endpoints(shown)
    if len(targets) > len(shown):
        yield Line(f"and {len(targets) - len(shown)} more in result.json", "quiet")
    operator = next((target for target in shown if target.target == OPERATOR), None)
    if operator is not None and (operator.own or operator.verdicts):
        yield Heading("The operator's own metrics")
        yield from families(operator, _OWN_SHOWN)


def endpoints(targets: Sequence[TargetSummary]) -> Iterator[Block]:
    """Yield a row for each endpoint, and the caveats of its figures."""
    yield Heading("Metrics endpoints")
    columns = [Column("target"), *(Column(name, figures=True) for name in _HEADINGS)]
    rows = [[target.target, *_cells(target)] for target in targets]
    yield Table(columns, rows, tones=["doubt" if target.failure or target.retyped else "" for target in targets])
    for target in targets:
        for text in _marks(target):
            yield Item(f"{target.target} {text}", "doubt")


_HEADINGS = ("up", "scrapes", "families", "series first", "last", "most", "took", "p99")


def _cells(target: TargetSummary) -> list[str]:
    return [
        cell(target.up_share, percent),
        cell(target.scrapes, count),
        cell(target.families if target.scrapes else None, count),
        cell(target.series_first, count),
        cell(target.series_last, count),
        cell(target.series_peak, count),
        cell(target.took_p50_ms, milliseconds),
        cell(target.took_p99_ms, milliseconds),
    ]


def _marks(target: TargetSummary) -> Iterator[str]:
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


def families(target: TargetSummary, most: int | None = None) -> Iterator[Block]:
    """Yield an endpoint's own families, at most so many, and how they relate to others."""
    columns = [Column("family"), Column("type"), *(Column(name, figures=True) for name in _OWN_HEADINGS)]
    rows = [[one.family, one.type, *_own_cells(one)] for one in target.own]
    if target.verdicts:
        kinds = {verdict.family: verdict.kind for verdict in target.verdicts}
        columns.append(Column("by value"))
        rows = [[*row, kinds.get(row[0], NONE)] for row in rows]
    yield Table(columns, rows[:most])
    if len(rows) > len(rows[:most]):
        yield Line(f"and {len(rows) - len(rows[:most])} more on the page and in result.json", "quiet")
    for verdict in _telling(target)[:most]:
        yield Item(_in_words(verdict), "doubt" if verdict.refused else "")


_OWN_HEADINGS = ("series first", "last", "most", "value first", "last", "max")


def _in_words(verdict: FamilyVerdict) -> str:
    """Return a family's relation to another one, with the evidence."""
    own = ", the operator's own too" if verdict.of_own else ""
    instead = f"; ask for {verdict.query}" if verdict.query else ""
    return f"{verdict.family}: {verdict.kind} of {verdict.other}{own}: {verdict.why}{instead}"


def _telling(target: TargetSummary) -> list[FamilyVerdict]:
    """Return the verdicts that name another family, faults first."""
    return sorted((verdict for verdict in target.verdicts if verdict.other), key=lambda one: not one.refused)


def _own_cells(family: FamilySummary) -> list[str]:
    series = (family.series_first, family.series_last, family.series_peak)
    values = (family.value_first, family.value_last, family.value_max)
    return [*(cell(number, count) for number in series), *(cell(value, figure) for value in values)]
