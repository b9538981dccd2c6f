"""Functions of two runs before and after: for the terminal, and as Markdown ready for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.profiles.chosen import PhaseProfile, paired
from ..analysis.profiles.difference import Difference, DifferenceRow, difference
from .function_table import ROWS
from .tables import Column, Sheet
from .wording import NONE, count, escape, percent, three


def differences_text(
    before: Sequence[PhaseProfile],
    after: Sequence[PhaseProfile],
    *,
    module: str = "",
    top: int = ROWS,
    width: int = 100,
) -> str:
    """Return the functions of two runs before and after, phase by phase, for a terminal."""
    sheet = Sheet(width=width, color=False)
    columns = [Column("function"), *(Column(name, figures=True) for name in ("before", "after", "Δ"))]
    for title, found in _differences(before, after, module, top):
        sheet.line()
        sheet.line(title, "bold")
        if isinstance(found, str):
            sheet.item(found, "yellow")
            continue
        sheet.table([*columns, Column("", wraps=True)], [[*cells, note] for cells, note in _difference_rows(found)])
        sheet.line(_scale(found), "dim")
    return sheet.text()


def differences_markdown(
    before: Sequence[PhaseProfile], after: Sequence[PhaseProfile], *, module: str = "", top: int = ROWS
) -> str:
    """Return the functions of two runs before and after as Markdown, ready for a pull request."""
    lines: list[str] = []
    for title, found in _differences(before, after, module, top):
        lines += [f"#### {escape(title)}", ""]
        if isinstance(found, str):
            lines += [escape(found), ""]
            continue
        lines += ["| function | before | after | Δ |", "|---|--:|--:|--:|"]
        for cells, note in _difference_rows(found):
            last = f"{cells[-1]} ({note})" if note else cells[-1]
            lines.append(f"| {' | '.join(escape(text) for text in (*cells[:-1], last))} |")
        lines += ["", escape(_scale(found)), ""]
    return "\n".join(lines)


def _differences(
    before: Sequence[PhaseProfile], after: Sequence[PhaseProfile], module: str, top: int
) -> Iterator[tuple[str, Difference | str]]:
    """Yield (heading, difference), or why there is none."""
    for one, other in paired(before, after):
        title = f"CPU of {one.profile.process}: {one.phase}"
        found = difference(one.profile, other.profile, module=module, top=top)
        if found is not None:
            yield title, found
            continue
        sides = (("before", one.profile.problem), ("after", other.profile.problem))
        yield title, "; ".join(f"{side}: {why or 'no table'}" for side, why in sides if why) or "no function to compare"


def _difference_rows(found: Difference) -> Iterator[tuple[list[str], str]]:
    """Yield (function, before, after, Δ; remark), all functions together first."""
    if found.scale == "cpu_s":
        yield ["all functions", _value(found, found.before), _value(found, found.after), _change(found.change)], ""
    for row in found.rows:
        yield [row.function, _value(found, row.before), _value(found, row.after), _change_of(row)], _note(row)


def _value(found: Difference, value: float | None) -> str:
    if value is None:
        return NONE
    return f"{three(value)} s" if found.scale == "cpu_s" else percent(value)


def _change_of(row: DifferenceRow) -> str:
    if row.before is None:
        return "new"
    return "gone" if row.after is None else _change(row.change)


def _change(change: float | None) -> str:
    if change is None:
        return NONE
    sign = "−" if change < 0 else "+"
    return f"{sign}{abs(change) * 100:.0f} %"


def _note(row: DifferenceRow) -> str:
    return "" if row.beyond_error else "within sampling error"


def _scale(found: Difference) -> str:
    before, after = (count(samples) for samples in found.samples)
    if found.scale == "cpu_s":
        return f"Share of {before} and {after} samples × exact CPU seconds of the run without a profiler."
    return (
        f"Shares of {before} and {after} samples: the exact CPU seconds of both runs are not known,"
        " so a function may also grow because others shrank."
    )
