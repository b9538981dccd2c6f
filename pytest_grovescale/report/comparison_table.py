"""A comparison as tables: in the terminal, and as Markdown for a pull request. The first line is the summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.comparability import InForce
from ..analysis.comparison import Comparison, overall
from ..analysis.profiles.comparison import ProfilesCompared
from .comparison_rows import (
    SECTIONS,
    WORK_HEADING,
    Row,
    answer,
    contention_limits,
    legend,
    rows,
    work_columns,
    work_rows,
)
from .function_difference import differences_markdown, not_profiled, write_differences
from .tables import Column, Sheet
from .wording import bytes_, escape, fact_values

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
_NO_SETTINGS = InForce()


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
    if work := work_rows(comparisons):
        sheet.line()
        sheet.line(WORK_HEADING, _HEADING)
        sheet.table(_work_columns(comparisons), work)
    write_differences(sheet, profiles.functions, _names(comparisons))
    if remarks := list(_remarks(comparisons, profiles)):
        sheet.line()
        for remark in remarks:
            sheet.item(remark, "yellow")
    sheet.line()
    sheet.line(legend(comparisons[0].plan), "dim")
    return sheet.text()


def render_markdown(
    comparisons: Sequence[Comparison],
    profiles: ProfilesCompared = _NO_PROFILES,
    settings: InForce = _NO_SETTINGS,
) -> str:
    """Return the same as Markdown, ready for a pull request, with the ``settings`` that the runs had."""
    lines = [f"**{escape(answer(comparisons))}**", ""]
    lines += [escape(fact) + "  " for fact in _facts(comparisons)]
    for heading, kinds in SECTIONS:
        found = rows(comparisons, kinds)
        if found:
            lines += ["", f"### {heading}", "", *_markdown_rows(_columns(comparisons), found)]
    if work := work_rows(comparisons):
        lines += ["", f"### {WORK_HEADING}", "", *_markdown_table(_work_columns(comparisons), work)]
    if profiles.functions:
        tables = differences_markdown(profiles.functions, names=_names(comparisons))
        lines += ["", f"### {_FUNCTIONS}", "", tables.rstrip("\n")]
    if remarks := list(_remarks(comparisons, profiles)):
        lines += ["", *(f"- {escape(remark)}" for remark in remarks)]
    if listed := list(_settings(comparisons, settings)):
        lines += ["", "### Settings", "", *(f"- {escape(line)}" for line in listed)]
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


def _work_columns(comparisons: Sequence[Comparison]) -> list[Column]:
    metric, *others = work_columns(comparisons[0].plan)
    return [Column(metric, wraps=True), *(Column(heading, figures=True) for heading in others)]


def _markdown_rows(columns: Sequence[Column], found: Sequence[Row]) -> Iterator[str]:
    (*lines,) = _markdown_table(columns, [row[:6] for row in found])
    yield from lines[:2]
    for row, line in zip(found, lines[2:], strict=True):
        strong = row.metric.gated and row.metric.verdict in ("regression", "improvement")
        yield f"{line.removesuffix(f'{escape(row.verdict)} |')}**{escape(row.verdict)}** |" if strong else line


def _markdown_table(columns: Sequence[Column], found: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(escape(column.heading) for column in columns) + " |"
    yield "|" + "|".join("---:" if column.figures else "---" for column in columns) + "|"
    for row in found:
        yield "| " + " | ".join(map(escape, row)) + " |"


def _settings(comparisons: Sequence[Comparison], settings: InForce) -> Iterator[str]:
    """Yield the settings that both variants share, and those in which they differ, a line each."""
    plan = comparisons[0].plan
    for name, (a, b) in settings.differing.items():
        yield f"{_named(name)}: {plan.a} {fact_values(a) or 'none'}, {plan.b} {fact_values(b) or 'none'}"
    if shared := [f"{_named(name)} {text}" for name, found in settings.shared.items() if (text := fact_values(found))]:
        yield f"the same in both: {', '.join(shared)}"


def _named(setting: str) -> str:
    return setting.replace("_", " ")


def _style(row: Row) -> str:
    return _ROW[row.metric.verdict] if row.metric.gated else ""


def _facts(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the facts of the comparison and its machine, a line each."""
    plan, machine = comparisons[0].plan, comparisons[0].machine
    if plan.differs:
        yield f"A: {plan.a}, B: {plan.b} ({plan.differs})"
    for comparison in comparisons:
        gated = ", ".join(comparison.plan.gated)
        look = "before the first look" if comparison.look is None else f"looked at after {comparison.look}"
        pairs = f"{comparison.pairs} of {comparison.plan.pairs} pairs, the first {comparison.plan.warmup} for warm-up"
        how = ", side by side" if comparison.plan.side_by_side else ""
        yield f"{pairs}{how}, {look}; gated: {gated}"
    yield from contention_limits(comparisons)
    if machine is not None:
        yield (
            f"{machine.cores} × {machine.cpu}, {bytes_(machine.memory_bytes)}, Linux {machine.kernel},"
            f" Python {machine.python}"
        )
    facts = {name: text for comparison in comparisons for name, text in comparison.facts.items()}
    if facts:
        yield ", ".join(f"{name} {text}" for name, text in facts.items())


def _remarks(comparisons: Sequence[Comparison], profiles: ProfilesCompared) -> Iterator[str]:
    """Yield caveats of the figures, each once."""
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
