"""Function tables of profiles, and their difference between two runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.phase_result import FunctionRow, PhaseResult, ProfileResult
from ..analysis.profiles.comparison import Difference, DifferenceRow, FunctionsCompared, NotProfiled, ProfiledSide
from ..analysis.profiles.functions import is_trunk
from ..analysis.profiles.phase_profiles import PhaseProfile, failures
from ..analysis.result import TestResult
from .document import Block, Column, File, Gap, Heading, Item, Line, Table
from .format import NONE, count, percent, three

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


def profiles(test: TestResult) -> Iterator[Block]:
    """Yield the first functions of each CPU profile and the paths of its files; nothing for a test without profiles."""
    for phase in test.phases:
        for profile in phase.profiles:
            yield from _profile(phase.name, profile, _telling(profile, ROWS))
        for why in why_not_profiled(phase):
            yield Gap()
            yield Line(why, "doubt")


def why_not_profiled(phase: PhaseResult) -> Iterator[str]:
    """Yield the recorded reasons why profiles of a phase could not be taken."""
    for process, why in failures(phase.missing):
        yield f"No profile of {process} in {phase.name}: {why}"


def _telling(profile: ProfileResult, top: int | None, *, trunk: bool = False) -> list[FunctionRow]:
    """Return the first rows of a table, without the functions that only lead to others unless ``trunk``."""
    return [row for row in profile.functions if trunk or not is_trunk(row)][:top]


def _profile(phase: str, profile: ProfileResult, rows: Sequence[FunctionRow]) -> Iterator[Block]:
    yield Heading(_title(phase, profile), _facts(profile))
    if profile.problem:
        yield Item(profile.problem, "doubt")
    if rows:
        yield Table(_COLUMNS, [_cells(row) for row in rows])
    for what, file in (("speedscope", profile.speedscope), ("folded", profile.folded), ("raw", profile.file)):
        if file and not (what == "raw" and file == profile.folded):
            yield File(what, file)


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


def chosen(profiles: Sequence[PhaseProfile], *, top: int | None = None, trunk: bool = False) -> Iterator[Block]:
    """Yield the given profiles' tables, the first ``top`` rows of each.

    ``trunk``: also functions that only lead to others, for a table of one module.
    """
    for one in profiles:
        yield from _profile(one.phase, one.profile, _telling(one.profile, top, trunk=trunk))


Names = tuple[str, str]
"""Headings of the two columns."""

NAMES: Names = ("before", "after")


def differences(found: Sequence[FunctionsCompared], names: Names = NAMES, *, top: int = ROWS) -> Iterator[Block]:
    """Yield a table for each phase, of its first ``top`` functions."""
    columns = [
        Column("function", cut=True),
        *(Column(name, figures=True) for name in (*names, "Δ")),
        Column("", wraps=True),
    ]
    for one in found:
        yield Heading(_difference_title(one))
        if one.difference is None:
            yield Item(_why_none(one, names), "doubt")
        else:
            yield Table(columns, [[*cells, note] for cells, note in _rows(one.difference, top)])
            yield Line(_scale(one.difference), "quiet")
        if cost := cost_of(one, names):
            yield Line(cost, "quiet")


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
