"""A test's result as text: the same bytes in the pytest terminal section and in ``grovescale show``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.result import MilestoneResult, PhaseResult, TestResult
from . import summary
from .bottleneck_table import write_answers, write_bottlenecks
from .checks_table import write_checks
from .format import NONE, bytes_, count, milliseconds, percent, plain, seconds, three
from .function_table import write_profiles
from .metric_table import write_metrics
from .tables import Column, Sheet
from .traffic_table import write_per_object, write_traffic
from .validity_notes import cpu_cell, incident, scraped_note
from .worker_table import heading, stack_lines, write_workers

_STYLE = {
    "passed": "green",
    "failed": "bold red",
    "error": "bold red",
    "inconclusive": "yellow",
    "timeout": "bold red",
    "interrupted": "yellow",
    "unfinished": "yellow",
}
_HEADING = "bold"
_WARNING = "yellow"

_CLUSTER_FACTS = ("backend", "kubernetes", "nodes", "priority_and_fairness")
"""Facts about the cluster that are shown; all of them are in result.json."""

_PHASES_PER_TABLE = 5
_LATE_SHOWN = 5
_SHOWN = 4
"""Maximum reasons and caveats in the summary, and half the number of its phases."""
_LINES = 25
_NOOPS_SHOWN = 1
_EVIDENCE_LINES = 30


def render_line(test: TestResult) -> str:
    """Return one line: the verdict, the test, and the first reason."""
    reasons = [] if summary.disruptions(test) else summary.reasons(test)
    because = next(iter(reasons), "") or summary.verdict_line(test).partition(": ")[2]
    return plain(f"{test.verdict.upper()} {test.test}" + (f" - {because}" if because else ""))


def render_summary(test: TestResult, *, width: int = 100, color: bool = False) -> str:
    """Return the summary: verdict, one row for each phase, main cause; at most 25 lines at 80 columns."""
    for most in range(_SHOWN, 1, -1):
        text = _summary(test, most, width=width, color=color)
        if text.count("\n") <= _LINES:
            break
    return text


def _summary(test: TestResult, most: int, *, width: int, color: bool) -> str:
    """Return the summary with at most so many reasons, so many caveats, and twice as many phases."""
    sheet = Sheet(width=width, color=color)
    _answer(sheet, test, most=most)
    shown = 2 * most
    phases = summary.main_phases(test)
    if phases:
        sheet.line()
        columns = [Column(heading, figures=index not in (0, 2)) for index, heading in enumerate(summary.PHASE_COLUMNS)]
        sheet.table(columns, [summary.phase_cells(phase) for phase in phases[:shown]])
        if len(phases) > shown:
            sheet.line(f"and {len(phases) - shown} more phases, with -v", "dim")
        sheet.line()
    noop = [text for text, _ in summary.noop_lines(test)]
    for line in filter(None, (summary.main_cause(test), summary.peak_memory(test), *noop[:_NOOPS_SHOWN])):
        sheet.line(line)
    sheet.line(summary.environment(test), "dim")
    return sheet.text()


def render_test(test: TestResult, *, width: int = 100, color: bool = False) -> str:
    """Return the summary and all tables. The same result gives the same bytes; ``width`` is in characters."""
    sheet = Sheet(width=width, color=color)
    _answer(sheet, test)
    write_answers(sheet, test.phases)
    write_checks(sheet, test)
    if test.phases:
        _phases(sheet, test.phases)
        for phases in _few(test.phases):
            write_bottlenecks(sheet, phases)
        for phases in _few(test.phases):
            _cpu_table(sheet, phases)
        write_traffic(sheet, test.phases)
        write_per_object(sheet, test)
        for phases in _few(test.phases):
            _reconciles(sheet, phases)
        write_workers(sheet, test.phases)
        write_metrics(sheet, test.metrics)
        write_profiles(sheet, test)
    _noop(sheet, test)
    _late(sheet, test.phases)
    _evidence(sheet, test)
    _recorder(sheet, test)
    _warnings(sheet, test.warnings)
    sheet.line()
    _environment(sheet, test)
    return sheet.text()


def render_warnings(warnings: Sequence[str], *, width: int = 100, color: bool = False) -> str:
    """Return the warnings of a run as a whole, such as a damaged recording; empty without any."""
    if not warnings:
        return ""
    sheet = Sheet(width=width, color=color)
    _warnings(sheet, warnings)
    return sheet.text()


def _answer(sheet: Sheet, test: TestResult, *, most: int | None = None) -> None:
    """Write the verdict, its reasons, and the caveats of the figures."""
    style = _STYLE[test.verdict]
    verdict, _, because = summary.verdict_line(test).partition(": ")
    sheet.line(f"{verdict.upper()} {test.test.rpartition('::')[2]}" + (f": {because}" if because else ""), style)
    _few_of(sheet, summary.reasons(test), style=style, most=most)
    _few_of(sheet, summary.caveats(test), style=_WARNING, most=most)


def _few_of(sheet: Sheet, lines: Sequence[str], *, style: str, most: int | None) -> None:
    for line in lines[:most]:
        sheet.item(line, style)
    if most is not None and len(lines) > most:
        sheet.item(f"and {len(lines) - most} more, with -v", "dim")


def _environment(sheet: Sheet, test: TestResult) -> None:
    machine = test.machine
    sheet.line(
        f"{machine.cores} × {machine.cpu}, {bytes_(machine.memory_bytes)}, Linux {machine.kernel},"
        f" Python {machine.python}, pytest-grovescale {test.version}",
        "dim",
    )
    shown = {name: test.cluster[name] for name in _CLUSTER_FACTS if name in test.cluster}
    for facts in (test.parameters, shown):
        given = [f"{name} {_fact(value)}" for name, value in facts.items() if value != ""]
        if given:
            sheet.line(", ".join(given), "dim")


def _fact(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return three(value) if isinstance(value, float) else str(value)


def _phases(sheet: Sheet, phases: Sequence[PhaseResult]) -> None:
    columns = [
        Column("phase"),
        Column("outcome"),
        Column("took", figures=True),
        Column("milestone"),
        Column("watch", figures=True),
        Column("audit log", figures=True),
        Column("remark", wraps=True),
    ]
    rows: list[list[str]] = []
    styles: list[str] = []
    for phase in phases:
        first = [phase.name, phase.outcome, seconds(phase.seconds)]
        holds = [mark.detail for mark in phase.marks if mark.label == "hold"]
        held = f"held {plain(holds[-1])}" if holds else f"held {seconds(phase.hold_s)}" if phase.hold_s else ""
        entries = [_milestone(phase, milestone) for milestone in phase.milestones] or [["", "", "", held]]
        for index, entry in enumerate(entries):
            rows.append([*(first if index == 0 else ["", "", ""]), *entry])
            styles.append(_STYLE[phase.outcome] if phase.outcome != "passed" else "")
    sheet.line()
    sheet.line("Phases and milestones", _HEADING)
    sheet.table(columns, rows, styles=styles)
    for phase in phases:
        if phase.outcome != "passed" and phase.message:
            sheet.item(f"{phase.name}: {phase.message}", _STYLE[phase.outcome])
        for found in phase.incidents:
            sheet.item(f"{phase.name}, {incident(found)}", _WARNING)
        for text in summary.uncertain(phase):
            sheet.item(text, _WARNING)
    _why_no_server_time(sheet, phases)


def _milestone(phase: PhaseResult, milestone: MilestoneResult) -> list[str]:
    if not milestone.met or milestone.observed_s is None:
        still = "not met" if phase.outcome != "unfinished" else "not met yet"
        return [milestone.name, NONE, NONE, f"{still}: {how_far(milestone)}"]
    remarks = ["recorder's clock"] if milestone.clock == "recorder" else []
    if milestone.uncertainty_s:
        remarks.append(f"± {seconds(milestone.uncertainty_s)}")
    if milestone.held_to_end is False:
        remarks.append("did not hold to the end")
    return [milestone.name, seconds(milestone.observed_s), interval(milestone.server_s), ", ".join(remarks)]


def how_far(milestone: MilestoneResult) -> str:
    """Return the progress of a milestone that was not met: ``963 of 1,000``, ``12 left``, or its condition."""
    if milestone.reached is None or milestone.wanted is None:
        return milestone.condition
    if milestone.wanted == 0:
        return f"{count(milestone.reached)} left"
    return f"{count(milestone.reached)} of {count(milestone.wanted)}"


def interval(span: tuple[float, float] | None) -> str:
    """Return an interval with enough digits to distinguish its ends, at least three figures."""
    if span is None:
        return NONE
    low, high = span
    if seconds(low) == seconds(high):
        return seconds(high)
    if high < 0.9995:
        return f"{three(low * 1000)} to {three(high * 1000)} ms"
    return f"{low:.3f} to {high:.3f} s" if high < 119.95 else f"{seconds(low)} to {seconds(high)}"


def _why_no_server_time(sheet: Sheet, phases: Sequence[PhaseResult]) -> None:
    reasons: dict[str, list[str]] = {}
    for phase in phases:
        for milestone in phase.milestones:
            if milestone.met and milestone.clock == "watch":
                reasons.setdefault(milestone.why_not_server, []).append(milestone.name)
    for why, names in reasons.items():
        sheet.item(f"{', '.join(names)}: by the watch's clock only: {why}", "dim")


def _few(phases: Sequence[PhaseResult]) -> Iterator[Sequence[PhaseResult]]:
    """Yield phases in groups that fit side by side in a table with a column for each."""
    for start in range(0, len(phases), _PHASES_PER_TABLE):
        yield phases[start : start + _PHASES_PER_TABLE]


def _cpu_table(sheet: Sheet, phases: Sequence[PhaseResult]) -> None:
    total: dict[str, float] = {}
    for phase in phases:
        for row in phase.cpu:
            total[row.process] = total.get(row.process, 0.0) + row.seconds
    if not total:
        sheet.line()
        sheet.line(f"CPU: not measured ({'; '.join(_reasons(phases, 'saturation'))})", _WARNING)
        return
    rows = []
    for process in sorted(total, key=lambda name: (name != "operator", -total[name], name)):
        found = [next((row for row in phase.cpu if row.process == process), None) for phase in phases]
        cells = [NONE if row is None else cpu_cell(row) for row in found]
        present = [row for row in found if row is not None]
        peak = max(row.peak_rss_bytes for row in present)
        rows.append([process, *cells, bytes_(present[-1].rss_bytes), bytes_(peak)])
    shares = [NONE if phase.saturation is None else percent(phase.saturation.busy_share) for phase in phases]
    rows.append(["all, of the machine", *shares, "", ""])
    others = [phase.contention.others_share if phase.contention is not None else None for phase in phases]
    if any(share is not None for share in others):
        cells = [NONE if share is None else percent(share) for share in others]
        rows.append(["other programs and steal", *cells, "", ""])
    if any(phase.saturation is not None and phase.saturation.terminated_watchers for phase in phases):
        cut = [
            NONE if s is None or s.terminated_watchers is None else count(s.terminated_watchers)
            for s in (phase.saturation for phase in phases)
        ]
        rows.append(["watches cut by the server", *cut, "", ""])
    columns = [Column("process"), *(Column(phase.name, figures=True) for phase in phases)]
    sheet.line()
    sheet.line("CPU time and memory", _HEADING)
    sheet.table([*columns, Column("memory", figures=True), Column("peak", figures=True)], rows)
    if note := scraped_note(phases):
        sheet.line(note, "dim")


def _reasons(phases: Sequence[PhaseResult], figure: str) -> list[str]:
    return list(dict.fromkeys(phase.missing[figure] for phase in phases if figure in phase.missing))


def _reconciles(sheet: Sheet, phases: Sequence[PhaseResult]) -> None:
    controllers = sorted({row.controller for phase in phases for row in phase.reconciles})
    sheet.line()
    if not controllers:
        sheet.line(f"Reconciles: not measured ({'; '.join(_reasons(phases, 'reconciles'))})", "dim")
        return
    rows = [[controller, *(_reconcile_cell(phase, controller) for phase in phases)] for controller in controllers]
    queues = any(row.source == "work-queue" for phase in phases for row in phase.reconciles)
    sheet.line("Reconciles (items of work queues: results unknown)" if queues else "Reconciles", _HEADING)
    sheet.table([Column("controller"), *(Column(phase.name, figures=True) for phase in phases)], rows)


def _reconcile_cell(phase: PhaseResult, controller: str) -> str:
    rows = [row for row in phase.reconciles if row.controller == controller]
    if not rows:
        return NONE
    errors = sum(row.count for row in rows if row.result == "error")
    least = "≥ " if any(row.lower_bound for row in rows) else ""
    failed = f" ({count(errors)} failed)" if errors else ""
    return f"{least}{count(sum(row.count for row in rows))}{failed}"


def _noop(sheet: Sheet, test: TestResult) -> None:
    for text, clean in summary.noop_lines(test):
        sheet.line()
        sheet.line(text, "" if clean else _WARNING)


def _late(sheet: Sheet, phases: Sequence[PhaseResult]) -> None:
    for phase in phases:
        for milestone in dict.fromkeys(late.milestone for late in phase.late):
            late = [item for item in phase.late if item.milestone == milestone]
            sheet.line()
            sheet.line(f"What {milestone} waited for in {phase.name}", _HEADING)
            for item in late[:_LATE_SHOWN]:
                where = "/".join(part for part in (item.object.namespace, item.object.name) if part)
                owner = f", of {item.owner}" if item.owner else ""
                reason = item.reason or "the API gives no reason"
                sheet.item(f"{item.object.resource} {where}{owner}: {reason}")
                for event in item.events[-2:]:
                    sheet.item(event, "dim", mark="    ")
            if len(late) > _LATE_SHOWN:
                sheet.line(f"and {len(late) - _LATE_SHOWN} more in the recording", "dim")


def _evidence(sheet: Sheet, test: TestResult) -> None:
    for evidence in test.evidence:
        if evidence.stacks:
            sheet.line()
            sheet.line(heading(evidence), _HEADING)
            for line in stack_lines(evidence.stacks):
                sheet.item(line)
        elif evidence.lines:
            number = min(len(evidence.lines), _EVIDENCE_LINES)
            sheet.line()
            sheet.line(f"{heading(evidence)}, last {number} lines", _HEADING)
            for line in evidence.lines[-_EVIDENCE_LINES:]:
                sheet.verbatim(line)


def _recorder(sheet: Sheet, test: TestResult) -> None:
    parts = []
    if test.recorder is not None:
        share = f" ({percent(test.recorder.share)} of all)" if test.recorder.share is not None else ""
        parts.append(f"{seconds(test.recorder.cpu_s)} CPU{share}, {bytes_(test.recorder.peak_rss_bytes)} at most")
    if test.watch_lag is not None:
        lag = test.watch_lag
        parts.append(
            f"watch behind the API server by {milliseconds(lag.p50_ms)} (median), {milliseconds(lag.p99_ms)} (p99)"
            f" over {count(lag.events)} events"
        )
    cuts = sum(watch.cuts for watch in test.watches)
    if cuts:
        parts.append(f"{count(cuts)} cuts of watches, {seconds(sum(watch.cut_s for watch in test.watches))} in all")
    if parts:
        sheet.line()
        sheet.line("Recorder: " + "; ".join(parts), "dim")


def _warnings(sheet: Sheet, warnings: Sequence[str]) -> None:
    if not warnings:
        return
    sheet.line()
    sheet.line("Warnings", _HEADING)
    for warning in warnings:
        sheet.item(plain(warning), _WARNING)
