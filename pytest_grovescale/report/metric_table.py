"""What metrics endpoints served in a run, as tables: series, families, and how well each answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.result import FamilySummary, TargetSummary
from .tables import Column, Sheet
from .wording import NONE, count, escape, milliseconds, percent

OPERATOR = "operator"

_TARGETS_SHOWN = 10
_RETYPED_SHOWN = 3
_OWN_SHOWN = 12
"""In the terminal; all of them are on the page and in result.json."""


def write_metrics(sheet: Sheet, targets: Sequence[TargetSummary]) -> None:
    """Write a row for each endpoint, and the families that are the operator's own; nothing where none was scraped."""
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
    """Yield what is to be known of an endpoint before its figures are used."""
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
    own = next((target.own for target in targets if target.target == OPERATOR), ())
    if not own:
        return
    sheet.line()
    sheet.line("The operator's own metrics", "bold")
    columns = [Column("family"), Column("type"), *(Column(name, figures=True) for name in _OWN_HEADINGS)]
    sheet.table(columns, [[family.family, family.type, *_own_cells(family)] for family in own[:_OWN_SHOWN]])
    if len(own) > _OWN_SHOWN:
        sheet.line(f"and {len(own) - _OWN_SHOWN} more on the page and in result.json", "dim")


_OWN_HEADINGS = ("series first", "last", "most")


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
    own = next((target.own for target in targets if target.target == OPERATOR), ())
    if own:
        names = ", ".join(f"`{family.family}` ({_from_to(family)})" for family in own[:_OWN_SHOWN])
        lines += [f"The operator's own: {names}{' …' if len(own) > _OWN_SHOWN else ''}.", ""]
    return lines


def _from_to(family: FamilySummary) -> str:
    if family.series_first == family.series_peak == family.series_last:
        return f"{count(family.series_last)} series"
    return f"{count(family.series_first)} to {count(family.series_last)} series, {count(family.series_peak)} at most"
