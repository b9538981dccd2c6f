"""A comparison as tables: in the terminal, and as Markdown for a pull request. The first line is the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.comparison import Comparison, overall
from ..analysis.profiles.compared import ProfilesCompared
from .comparison_rows import SECTIONS, Row, answer, legend, rows
from .function_difference import differences_markdown, not_profiled, write_differences
from .tables import Column, Sheet
from .wording import bytes_, escape

_HEADING = "bold"
_ANSWER = {
    "regression": "bold red",
    "broken": "bold red",
    "inconclusive": "yellow",
    "ok": "green",
    "improvement": "green",
}
_ROW = {"regression": "bold red", "improvement": "green", "inconclusive": "yellow", "not-measured": "yellow", "ok": ""}
_FUNCTIONS = "CPU of each function"
_NO_PROFILES = ProfilesCompared()


def render(
    comparisons: Sequence[Comparison],
    profiles: ProfilesCompared = _NO_PROFILES,
    *,
    width: int = 100,
    color: bool = False,
) -> str:
    """Return the tables of one comparison, or of its parts (no-op, deploy and delete) together."""
    sheet = Sheet(width=width, color=color)
    sheet.line(answer(comparisons), _ANSWER[overall(comparisons)])
    for fact in _facts(comparisons):
        sheet.line(fact, "dim")
    for heading, kinds in SECTIONS:
        found = rows(comparisons, kinds)
        if found:
            sheet.line()
            sheet.line(heading, _HEADING)
            sheet.table(_columns(comparisons), [row[:6] for row in found], styles=[_style(row) for row in found])
    write_differences(sheet, profiles.functions, _names(comparisons))
    if remarks := list(_remarks(comparisons, profiles)):
        sheet.line()
        for remark in remarks:
            sheet.item(remark, "yellow")
    sheet.line()
    sheet.line(legend(comparisons[0].plan), "dim")
    return sheet.text()


def render_markdown(comparisons: Sequence[Comparison], profiles: ProfilesCompared = _NO_PROFILES) -> str:
    """Return the same as Markdown, ready for a pull request."""
    lines = [f"**{escape(answer(comparisons))}**", ""]
    lines += [escape(fact) + "  " for fact in _facts(comparisons)]
    for heading, kinds in SECTIONS:
        found = rows(comparisons, kinds)
        if found:
            lines += ["", f"### {heading}", "", *_markdown_table(_columns(comparisons), found)]
    if profiles.functions:
        tables = differences_markdown(profiles.functions, names=_names(comparisons))
        lines += ["", f"### {_FUNCTIONS}", "", tables.rstrip("\n")]
    if remarks := list(_remarks(comparisons, profiles)):
        lines += ["", *(f"- {escape(remark)}" for remark in remarks)]
    return "\n".join([*lines, "", escape(legend(comparisons[0].plan)), ""])


def _names(comparisons: Sequence[Comparison]) -> tuple[str, str]:
    return comparisons[0].plan.a, comparisons[0].plan.b


def _columns(comparisons: Sequence[Comparison]) -> list[Column]:
    return [
        Column("metric", wraps=True),
        *(Column(name, figures=True) for name in _names(comparisons)),
        Column("Δ", figures=True),
        Column("interval", figures=True),
        Column("verdict"),
    ]


def _markdown_table(columns: Sequence[Column], found: Sequence[Row]) -> Iterator[str]:
    yield "| " + " | ".join(escape(column.heading) for column in columns) + " |"
    yield "|" + "|".join("---:" if column.figures else "---" for column in columns) + "|"
    for row in found:
        cells = [escape(cell) for cell in row[:6]]
        if row.metric.gated and row.metric.verdict in ("regression", "improvement"):
            cells[-1] = f"**{cells[-1]}**"
        yield "| " + " | ".join(cells) + " |"


def _style(row: Row) -> str:
    return _ROW[row.metric.verdict] if row.metric.gated else ""


def _facts(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what was compared and where, a line each."""
    plan, machine = comparisons[0].plan, comparisons[0].machine
    if plan.differs:
        yield f"A: {plan.a}, B: {plan.b} ({plan.differs})"
    for comparison in comparisons:
        gated = ", ".join(comparison.plan.gated)
        look = "before the first look" if comparison.look is None else f"looked at after {comparison.look}"
        pairs = f"{comparison.pairs} of {comparison.plan.pairs} pairs, the first {comparison.plan.warmup} for warm-up"
        how = ", side by side" if comparison.plan.side_by_side else ""
        yield f"{pairs}{how}, {look}; gated: {gated}"
    if machine is not None:
        yield (
            f"{machine.cores} × {machine.cpu}, {bytes_(machine.memory_bytes)}, Linux {machine.kernel},"
            f" Python {machine.python}"
        )
    facts = {name: text for comparison in comparisons for name, text in comparison.facts.items()}
    if facts:
        yield ", ".join(f"{name} {text}" for name, text in facts.items())


def _remarks(comparisons: Sequence[Comparison], profiles: ProfilesCompared) -> Iterator[str]:
    """Yield what to know before the figures are believed, each thing once."""
    for comparison in comparisons:
        if comparison.weaker:
            yield f"Weaker than interleaved runs: {comparison.weaker}"
    yield from dict.fromkeys(warning for comparison in comparisons for warning in comparison.warnings)
    yield from map(not_profiled, profiles.missing)
    notes: dict[str, list[str]] = {}
    for _, kinds in SECTIONS:
        for row in rows(comparisons, kinds):
            if row.metric.note:
                notes.setdefault(row.metric.note, []).append(row.what)
    for note, metrics in notes.items():
        yield f"{', '.join(metrics)}: {note}"
