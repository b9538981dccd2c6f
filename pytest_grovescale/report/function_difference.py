"""Functions of two runs before and after: for the terminal, and as Markdown ready for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.profiles.comparison import Difference, DifferenceRow, FunctionsCompared, NotProfiled, ProfiledSide
from .function_table import ROWS
from .tables import Column, Sheet
from .wording import NONE, count, escape, percent, three

Names = tuple[str, str]
"""Headings of the two columns."""

NAMES: Names = ("before", "after")


def differences_text(found: Sequence[FunctionsCompared], *, top: int = ROWS, width: int = 100) -> str:
    """Return the functions of two runs before and after, phase by phase, for a terminal."""
    sheet = Sheet(width=width, color=False)
    write_differences(sheet, found, NAMES, top=top)
    return sheet.text()


def write_differences(sheet: Sheet, found: Sequence[FunctionsCompared], names: Names, *, top: int = ROWS) -> None:
    """Write a table for each phase, of its first ``top`` functions."""
    columns = [
        Column("function", cut=True),
        *(Column(name, figures=True) for name in (*names, "Δ")),
        Column("", wraps=True),
    ]
    for one in found:
        sheet.line()
        sheet.line(_title(one), "bold")
        if one.difference is None:
            sheet.item(_why_none(one, names), "yellow")
        else:
            sheet.table(columns, [[*cells, note] for cells, note in _rows(one.difference, top)])
            sheet.line(_scale(one.difference), "dim")
        if cost := cost_of(one, names):
            sheet.line(cost, "dim")


def differences_markdown(found: Sequence[FunctionsCompared], *, names: Names = NAMES, top: int = ROWS) -> str:
    """Return the functions of two runs before and after as Markdown, ready for a pull request."""
    lines: list[str] = []
    for one in found:
        lines += [f"#### {escape(_title(one))}", ""]
        if one.difference is None:
            lines += [escape(_why_none(one, names)), ""]
        else:
            lines += _markdown_table(one.difference, names, top)
            lines += ["", escape(_scale(one.difference)), ""]
        if cost := cost_of(one, names):
            lines += [escape(cost), ""]
    return "\n".join(lines)


def not_profiled(one: NotProfiled) -> str:
    """Return why a variant has no profile, and the next step."""
    what = f" of {one.process} in {one.phase}" if one.phase else ""
    remedy = f" → {one.next_step}" if one.next_step else ""
    # The process's last output is below the first line: its log has it, and more of it.
    why = one.why.partition("\n")[0].rstrip(":")
    return f"No profile{what} for {one.variant}: {why}{remedy}"


def cost_of(one: FunctionsCompared, names: Names) -> str:
    """Return the process's CPU time with and without the profiler, its cost; empty where neither is known."""
    sides = zip(names, (one.before, one.after), strict=True)
    known = [f"{name} {_cost(side)}" for name, side in sides if side.cpu_s is not None and side.profiled_cpu_s]
    return f"CPU with a profiler: {', '.join(known)}." if known else ""


def _cost(side: ProfiledSide) -> str:
    often = f" for {side.repeated:.3g} times the triggers" if side.repeated != 1 else ""
    return f"{three(side.profiled_cpu_s or 0.0)} s instead of {three(side.cpu_s or 0.0)} s{often}"


def _title(one: FunctionsCompared) -> str:
    return f"CPU of {one.process}: {one.phase}"


def _why_none(one: FunctionsCompared, names: Names) -> str:
    problems = zip(names, (one.before.problem, one.after.problem), strict=True)
    return "; ".join(f"{name}: {why}" for name, why in problems if why) or "no function to compare"


def _markdown_table(found: Difference, names: Names, top: int) -> Iterator[str]:
    yield f"| function | {escape(names[0])} | {escape(names[1])} | Δ |"
    yield "|---|--:|--:|--:|"
    for cells, note in _rows(found, top):
        last = f"{cells[-1]} ({note})" if note else cells[-1]
        yield f"| {' | '.join(escape(text) for text in (*cells[:-1], last))} |"


def _rows(found: Difference, top: int) -> Iterator[tuple[list[str], str]]:
    """Yield (function, before, after, Δ; remark), all functions together first."""
    if found.scale == "cpu_s":
        yield ["all functions", _value(found, found.before), _value(found, found.after), _change(found.change)], ""
    for row in found.rows[:top]:
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
