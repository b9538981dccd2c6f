"""Metrics endpoints of a run as tables: series, families, and scrape success."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.result import FamilySummary, FamilyVerdict, TargetSummary
from .format import NONE, count, escape, milliseconds, percent
from .tables import Column, Sheet

OPERATOR = "operator"

_TARGETS_SHOWN = 10
_RETYPED_SHOWN = 3
_OWN_SHOWN = 12
"""In the terminal; all of them are on the page and in result.json."""


def write_metrics(sheet: Sheet, targets: Sequence[TargetSummary]) -> None:
    """Write a row for each endpoint, and the operator's own families; nothing where no endpoint was scraped."""
    if not targets:
        return
    sheet.line()
    sheet.line("Metrics endpoints", "bold")
    columns = [Column("target"), *(Column(name, figures=True) for name in _HEADINGS)]
    shown = targets[:_TARGETS_SHOWN]
    sheet.table(
        columns,
        [[target.target, *_cells(target)] for target in shown],
        styles=["yellow" if target.failure or target.retyped else "" for target in shown],
    )
    if len(targets) > len(shown):
        sheet.line(f"and {len(targets) - len(shown)} more in result.json", "dim")
    for target in shown:
        for text in marks(target):
            sheet.item(f"{target.target} {text}", "yellow")
    _write_own(sheet, shown)


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


def _write_own(sheet: Sheet, targets: Sequence[TargetSummary]) -> None:
    operator = next((target for target in targets if target.target == OPERATOR), None)
    if operator is None or not (operator.own or operator.verdicts):
        return
    sheet.line()
    sheet.line("The operator's own metrics", "bold")
    columns = [Column("family"), Column("type"), *(Column(name, figures=True) for name in _OWN_HEADINGS)]
    rows = [[one.family, one.type, *_own_cells(one)] for one in operator.own]
    if kinds := verdicts_of(operator):
        columns.append(Column("by value"))
        rows = [[*row, _kind(kinds.get(row[0]))] for row in rows]
    sheet.table(columns, rows[:_OWN_SHOWN])
    if len(rows) > _OWN_SHOWN:
        sheet.line(f"and {len(rows) - _OWN_SHOWN} more on the page and in result.json", "dim")
    for verdict in _telling(operator)[:_OWN_SHOWN]:
        sheet.item(in_words(verdict), "yellow" if verdict.refused else "")


_OWN_HEADINGS = ("series first", "last", "most")


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
    return [count(family.series_first), count(family.series_last), count(family.series_peak)]


def _count(value: int | None) -> str:
    return NONE if value is None else count(value)


def metrics_markdown(targets: Sequence[TargetSummary]) -> list[str]:
    """Return the endpoints as a Markdown table, and a line on the operator's own families; empty without any."""
    if not targets:
        return []
    rows = [f"| {escape(target.target)} | {' | '.join(_cells(target))} |" for target in targets[:_TARGETS_SHOWN]]
    lines = [f"| metrics of | {' | '.join(_HEADINGS)} |", f"|---|{'--:|' * len(_HEADINGS)}", *rows, ""]
    lines += [f"- {escape(target.target)} {escape(text)}" for target in targets for text in marks(target)]
    for target in targets:
        if target.target == OPERATOR and (target.own or target.verdicts):
            lines += _own_markdown(target)
    return lines


def _own_markdown(target: TargetSummary) -> list[str]:
    """Return a line with the operator's own families and their relations, and one for each duplicate."""
    kinds = verdicts_of(target)
    names = ", ".join(
        f"`{one.family}` ({', '.join([_from_to(one), *([kinds[one.family].kind] if one.family in kinds else [])])})"
        for one in target.own[:_OWN_SHOWN]
    )
    lines = [f"- {escape(in_words(verdict))}" for verdict in _telling(target)[:_OWN_SHOWN]]
    more = " …" if len(target.own) > _OWN_SHOWN else ""
    return [*([f"The operator's own: {names}{more}.", ""] if names else []), *lines, *([""] if lines else [])]


def _from_to(family: FamilySummary) -> str:
    if family.series_first == family.series_peak == family.series_last:
        return f"{count(family.series_last)} series"
    return f"{count(family.series_first)} to {count(family.series_last)} series, {count(family.series_peak)} at most"
