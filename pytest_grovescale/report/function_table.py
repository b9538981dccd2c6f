"""Function tables of profiles, and their difference between two runs: for the terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.profiles.comparison import Difference, DifferenceRow, FunctionsCompared, NotProfiled, ProfiledSide
from ..analysis.profiles.functions import is_trunk
from ..analysis.profiles.selection import PhaseProfile, failures
from ..analysis.result import FunctionRow, PhaseResult, ProfileResult, TestResult
from .format import NONE, count, escape, percent, three
from .tables import Column, Sheet

ROWS = 10
"""Default number of functions shown for each phase."""

_COLUMNS = (
    Column("function", cut=True),
    Column("self", figures=True),
    Column("cumulative", figures=True),
    Column("share", figures=True),
    Column("95 %", figures=True),
    Column("CPU", figures=True),
)
_CPU = ("pyspy", "pprof")
_PROFILERS = {"pyspy": "py-spy", "pprof": "pprof", "heap": "heap in use", "goroutines": "goroutines"}


def write_profiles(sheet: Sheet, test: TestResult) -> None:
    """Write the first functions of each CPU profile and the paths of its files; nothing for a test without profiles."""
    for phase in test.phases:
        for profile in phase.profiles:
            _write_profile(sheet, phase.name, profile, _telling(profile, ROWS))
        for why in why_not_profiled(phase):
            sheet.line()
            sheet.line(why, "yellow")


def why_not_profiled(phase: PhaseResult) -> Iterator[str]:
    """Yield the recorded reasons why profiles of a phase could not be taken."""
    for process, why in failures(phase.missing):
        yield f"No profile of {process} in {phase.name}: {why}"


def _telling(profile: ProfileResult, top: int | None, *, trunk: bool = False) -> list[FunctionRow]:
    """Return the first rows of a table, without the functions that only lead to others unless ``trunk``."""
    return [row for row in profile.functions if trunk or not is_trunk(row)][:top]


def _write_profile(sheet: Sheet, phase: str, profile: ProfileResult, rows: Sequence[FunctionRow]) -> None:
    sheet.line()
    sheet.line(f"{_title(phase, profile)}{_facts(profile)}", "bold")
    if profile.problem:
        sheet.item(profile.problem, "yellow")
    if rows:
        sheet.table(_COLUMNS, [_cells(row) for row in rows])
    for what, file in (("speedscope", profile.speedscope), ("folded", profile.folded), ("raw", profile.file)):
        if file and not (what == "raw" and file == profile.folded):
            sheet.file(what, file)


def _title(phase: str, profile: ProfileResult) -> str:
    if profile.kind in _CPU:
        return f"Functions of {profile.process} in {phase}"
    return f"{_PROFILERS[profile.kind].capitalize()} of {profile.process} at the end of {phase}"


def _facts(profile: ProfileResult) -> str:
    """Return the base of the table's shares."""
    if profile.kind not in _CPU or profile.problem or profile.samples is None:
        return ""
    worth = profile.independent or profile.samples
    waits = f" (worth {count(round(worth))}: it waited for a core)" if worth < 0.95 * profile.samples else ""
    return (
        f": {_PROFILERS[profile.kind]}, {count(profile.samples)} on-CPU samples{waits},"
        f" {percent(profile.coverage)} of the phase, {_cpu(profile)}"
    )


def _cpu(profile: ProfileResult) -> str:
    """Return the CPU time that is the base of the shares, and the process's CPU time while it was profiled."""
    if profile.cpu_s is None:
        return "no exact CPU seconds at hand"
    text = f"{three(profile.cpu_s)} s CPU without a profiler"
    if profile.profiled_cpu_s is not None:
        text += f", {three(profile.profiled_cpu_s)} s with it"
        text += f" and {profile.repeated:.3g} times the triggers" if profile.repeated != 1 else ""
    return text


def _cells(row: FunctionRow) -> list[str]:
    return [
        row.function,
        count(row.self_samples),
        count(row.samples),
        percent(row.share),
        f"{_points(row.share_low)} to {_points(row.share_high)} %",
        NONE if row.cpu_s is None else f"{three(row.cpu_s)} s",
    ]


def _points(share: float) -> str:
    return f"{share * 100:.1f}" if share < 0.0995 else f"{share * 100:.0f}"


def tables_text(
    profiles: Sequence[PhaseProfile], *, top: int | None = None, trunk: bool = False, width: int = 100
) -> str:
    """Return the given profiles' tables for a terminal, the first ``top`` rows of each.

    ``trunk``: also functions that only lead to others, for a table of one module.
    """
    sheet = Sheet(width=width, color=False)
    for one in profiles:
        _write_profile(sheet, one.phase, one.profile, _telling(one.profile, top, trunk=trunk))
    return sheet.text()


def tables_markdown(profiles: Sequence[PhaseProfile], *, top: int | None = None, trunk: bool = False) -> str:
    """Return the given profiles' tables as Markdown, the first ``top`` rows of each; ``trunk`` as in `tables_text`."""
    return "\n".join(_markdown(one.phase, one.profile, _telling(one.profile, top, trunk=trunk)) for one in profiles)


def profiles_markdown(test: TestResult) -> list[str]:
    """Return a test's function tables as Markdown, the first functions of each; empty without profiles."""
    parts = []
    for phase in test.phases:
        cpu = [profile for profile in phase.profiles if profile.kind in _CPU]
        parts += [_markdown(phase.name, profile, _telling(profile, ROWS)) for profile in cpu]
        parts += [f"- {escape(why)}\n" for why in why_not_profiled(phase)]
    return parts


def _markdown(phase: str, profile: ProfileResult, rows: Sequence[FunctionRow]) -> str:
    lines = [f"**{escape(_title(phase, profile))}**{escape(_facts(profile))}", ""]
    if profile.problem:
        lines += [escape(profile.problem), ""]
    if rows:
        lines += [f"| {' | '.join(column.heading for column in _COLUMNS)} |", "|---|--:|--:|--:|--:|--:|"]
        lines += [f"| {' | '.join(escape(text) for text in _cells(row))} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


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
        sheet.line(_difference_title(one), "bold")
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
        lines += [f"#### {escape(_difference_title(one))}", ""]
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


def _difference_title(one: FunctionsCompared) -> str:
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
