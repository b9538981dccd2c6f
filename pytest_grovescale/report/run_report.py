"""The report of a run's tests: the same bytes in pytest's terminal and in ``grovescale show``, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.figures import place
from ..analysis.phase_result import MilestoneResult, PhaseResult
from ..analysis.result import Result, TestResult
from . import findings_table, summary, traffic_table
from .bottleneck_table import answers, bottlenecks, heading, stack_lines, workers
from .checks_table import checks
from .cycles_table import cycles
from .document import Answer, Block, Column, Gap, Heading, Item, Line, Table, Tone, Verbatim, markdown, text
from .format import NONE, bytes_, count, escape, milliseconds, percent, plain, seconds, three
from .function_table import profiles
from .idle_table import idle
from .metric_table import metrics
from .summary import cpu_cell, incident, scraped_note
from .traffic_table import per_object, traffic

_TONE: dict[str, Tone] = {
    "passed": "good",
    "failed": "bad",
    "error": "bad",
    "inconclusive": "doubt",
    "timeout": "bad",
    "interrupted": "doubt",
    "unfinished": "doubt",
}

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
    stands = test.verdict == "error" or summary.foremost_disruption(test)
    reasons = [] if stands else summary.reasons(test)
    because = next(iter(reasons), "") or summary.verdict_line(test).partition(": ")[2]
    return plain(f"{test.verdict.upper()} {test.test}" + (f" - {because}" if because else ""))


def render_summary(test: TestResult, *, width: int = 100, color: bool = False) -> str:
    """Return the summary: verdict, one row for each phase, main cause; at most 25 lines at 80 columns."""
    # What is wrong comes before what it cost: causes and sums go first, findings last.
    lengths = [(most, findings_table.MAIN, True) for most in range(_SHOWN, 1, -1)]
    for most, findings, costs in [*lengths, (2, findings_table.MAIN, False), (2, 2, False), (2, 1, False)]:
        shown = text(_overview(test, most, findings, costs=costs), width=width, color=color)
        if shown.count("\n") <= _LINES:
            break
    return shown


def _overview(test: TestResult, most: int, findings: int, *, costs: bool) -> Iterator[Block]:
    """Yield the summary with at most so many reasons, caveats and findings, and twice as many phases as reasons."""
    yield from _answer(test, most=most, findings=findings)
    phases = summary.main_phases(test)
    # Which one failed is what is looked for first: it is shown, wherever it stands.
    chosen = sorted(phases, key=lambda phase: phase.outcome == "passed")[: 2 * most]
    if phases:
        yield Gap()
        yield _phase_figures([phase for phase in phases if phase in chosen])
        if len(phases) > len(chosen):
            yield Line(f"and {len(phases) - len(chosen)} more, with -v", "quiet")
        yield Gap()
    noop = [line for line, _ in summary.noop_lines(test)]
    sums = (summary.main_cause(test), traffic_table.line(test.phases), summary.peak_memory(test), *noop[:_NOOPS_SHOWN])
    for line in filter(None, sums if costs else ()):
        yield Line(line)
    yield Line(summary.environment(test), "quiet")


def _phase_figures(phases: Sequence[PhaseResult]) -> Table:
    columns = [Column(heading, figures=index not in (0, 2)) for index, heading in enumerate(summary.PHASE_COLUMNS)]
    return Table(columns, [summary.phase_cells(phase) for phase in phases])


def render_test(test: TestResult, *, width: int = 100, color: bool = False) -> str:
    """Return the summary and all tables. The same result gives the same bytes; ``width`` is in characters."""
    return text(_report(test), width=width, color=color)


def _report(test: TestResult) -> Iterator[Block]:
    yield from _answer(test)
    yield from answers(test.phases)
    yield from findings_table.findings(test)
    yield from checks(test)
    if test.phases:
        yield from _phases(test.phases)
        yield from cycles(test.cycles)
        for phases in _few(test.phases):
            yield from bottlenecks(phases)
        for phases in _few(test.phases):
            yield from _cpu_table(phases)
        yield from traffic(test.phases)
        yield from traffic_table.faults(test.phases)
        yield from per_object(test)
        yield from idle(test)
        for phases in _few(test.phases):
            yield from _reconciles(phases)
        yield from workers(test.phases)
        yield from metrics(test.metrics)
        yield from profiles(test)
    yield from _noop(test)
    yield from _late(test.phases)
    yield from _evidence(test)
    yield from _recorder(test)
    yield from _warnings(test.warnings)
    yield Gap()
    yield from _environment(test)


def render_warnings(warnings: Sequence[str], *, width: int = 100, color: bool = False) -> str:
    """Return the warnings of a run as a whole, such as a damaged recording; empty without any."""
    return text(_warnings(warnings), width=width, color=color)


def render_markdown(result: Result) -> str:
    """Return a run's tests as Markdown, for a CI summary or a pull request: what decides, and the main tables."""
    parts = [
        f"### {escape(test.test)}: {test.verdict}\n\n{markdown(_for_review(test), level=4)}" for test in result.tests
    ]
    return "\n".join(filter(None, [*parts, markdown(_warnings(result.warnings))]))


def _for_review(test: TestResult) -> Iterator[Block]:
    yield from _answer(test)
    if test.phases:
        yield _phase_figures(test.phases)
        yield from answers(test.phases)
    yield from findings_table.findings(test)
    yield from checks(test)
    if test.phases:
        yield from _phases(test.phases)
        yield from cycles(test.cycles)
        yield from bottlenecks(test.phases)
    yield from metrics(test.metrics)
    yield from profiles(test)
    yield from _warnings(test.warnings)
    yield Gap()
    yield from _environment(test)


def _answer(test: TestResult, *, most: int | None = None, findings: int = findings_table.MAIN) -> Iterator[Block]:
    """Yield the verdict, its reasons, its main findings, and the caveats of the figures."""
    tone = _TONE[test.verdict]
    verdict, _, because = summary.verdict_line(test).partition(": ")
    yield Answer(f"{verdict.upper()} {test.test.rpartition('::')[2]}" + (f": {because}" if because else ""), tone)
    yield from _few_of(summary.reasons(test), tone=tone, most=most)
    yield from findings_table.lines(test, findings)
    yield from _few_of(summary.caveats(test), tone="doubt", most=most)


def _few_of(lines: Sequence[str], *, tone: Tone, most: int | None) -> Iterator[Block]:
    for line in lines[:most]:
        yield Item(line, tone)
    if most is not None and len(lines) > most:
        yield Item(f"and {len(lines) - most} more, with -v", "quiet")


def _environment(test: TestResult) -> Iterator[Block]:
    machine = test.machine
    yield Line(
        f"{machine.cores} × {machine.cpu}, {bytes_(machine.memory_bytes)}, Linux {machine.kernel},"
        f" Python {machine.python}, pytest-grovescale {test.version}",
        "quiet",
    )
    shown = {name: test.cluster[name] for name in _CLUSTER_FACTS if name in test.cluster}
    for facts in (test.parameters, shown):
        given = [f"{name} {_fact(value)}" for name, value in facts.items() if value != ""]
        if given:
            yield Line(", ".join(given), "quiet")


def _fact(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return three(value) if isinstance(value, float) else str(value)


def _phases(phases: Sequence[PhaseResult]) -> Iterator[Block]:
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
    tones: list[Tone] = []
    for phase in phases:
        first = [phase.name, phase.outcome, seconds(phase.seconds)]
        holds = [mark.detail for mark in phase.marks if mark.label == "hold"]
        held = f"held {plain(holds[-1])}" if holds else f"held {seconds(phase.hold_s)}" if phase.hold_s else ""
        entries = [_milestone(phase, milestone) for milestone in phase.milestones] or [["", "", "", held]]
        for index, entry in enumerate(entries):
            rows.append([*(first if index == 0 else ["", "", ""]), *entry])
            tones.append(_TONE[phase.outcome] if phase.outcome != "passed" else "")
    yield Heading("Phases and milestones")
    yield Table(columns, rows, tones=tones)
    for phase in phases:
        if phase.outcome != "passed" and phase.message:
            yield Item(f"{phase.name}: {phase.message}", _TONE[phase.outcome])
        for found in phase.incidents:
            yield Item(f"{phase.name}, {incident(found)}", "doubt")
        for line in summary.uncertain(phase):
            yield Item(line, "doubt")
    yield from _why_no_server_time(phases)


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


def _why_no_server_time(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    reasons: dict[str, list[str]] = {}
    for phase in phases:
        for milestone in phase.milestones:
            if milestone.met and milestone.clock == "watch":
                reasons.setdefault(milestone.why_not_server, []).append(milestone.name)
    for why, names in reasons.items():
        yield Item(f"{', '.join(names)}: by the watch's clock only: {why}", "quiet")


def _few(phases: Sequence[PhaseResult]) -> Iterator[Sequence[PhaseResult]]:
    """Yield phases in groups that fit side by side in a table with a column for each."""
    for start in range(0, len(phases), _PHASES_PER_TABLE):
        yield phases[start : start + _PHASES_PER_TABLE]


def _cpu_table(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    total: dict[str, float] = {}
    for phase in phases:
        for row in phase.cpu:
            total[row.process] = total.get(row.process, 0.0) + row.seconds
    if not total:
        yield Gap()
        yield Line(f"CPU: not measured ({'; '.join(_reasons(phases, 'saturation'))})", "doubt")
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
    yield Heading("CPU time and memory")
    yield Table([*columns, Column("memory", figures=True), Column("peak", figures=True)], rows)
    if note := scraped_note(phases):
        yield Line(note, "quiet")


def _reasons(phases: Sequence[PhaseResult], figure: str) -> list[str]:
    return list(dict.fromkeys(phase.missing[figure] for phase in phases if figure in phase.missing))


def _reconciles(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    controllers = sorted({row.controller for phase in phases for row in phase.reconciles})
    if not controllers:
        yield Gap()
        yield Line(f"Reconciles: not measured ({'; '.join(_reasons(phases, 'reconciles'))})", "quiet")
        return
    rows = [[controller, *(_reconcile_cell(phase, controller) for phase in phases)] for controller in controllers]
    queues = any(row.source == "work-queue" for phase in phases for row in phase.reconciles)
    yield Heading("Reconciles (items of work queues: results unknown)" if queues else "Reconciles")
    yield Table([Column("controller"), *(Column(phase.name, figures=True) for phase in phases)], rows)


def _reconcile_cell(phase: PhaseResult, controller: str) -> str:
    rows = [row for row in phase.reconciles if row.controller == controller]
    if not rows:
        return NONE
    errors = sum(row.count for row in rows if row.result == "error")
    least = "≥ " if any(row.lower_bound for row in rows) else ""
    failed = f" ({count(errors)} failed)" if errors else ""
    return f"{least}{count(sum(row.count for row in rows))}{failed}"


def _noop(test: TestResult) -> Iterator[Block]:
    for line, clean in summary.noop_lines(test):
        yield Gap()
        yield Line(line, "" if clean else "doubt")


def _late(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    for phase in phases:
        for milestone in dict.fromkeys(late.milestone for late in phase.late):
            late = [item for item in phase.late if item.milestone == milestone]
            yield Heading(f"What {milestone} waited for in {phase.name}")
            for item in late[:_LATE_SHOWN]:
                owner = f", of {item.owner}" if item.owner else ""
                reason = item.reason or "the API server reports no reason"
                yield Item(f"{item.object.resource} {place(item)}{owner}: {reason}")
                for event in item.events[-2:]:
                    yield Item(event, "quiet", level=1)
            if len(late) > _LATE_SHOWN:
                yield Line(f"and {len(late) - _LATE_SHOWN} more in the recording", "quiet")


def _evidence(test: TestResult) -> Iterator[Block]:
    for evidence in test.evidence:
        if evidence.stacks:
            yield Heading(heading(evidence))
            for line in stack_lines(evidence.stacks):
                yield Item(line)
        elif evidence.lines:
            number = min(len(evidence.lines), _EVIDENCE_LINES)
            yield Heading(f"{heading(evidence)}, last {number} lines")
            for line in evidence.lines[-_EVIDENCE_LINES:]:
                yield Verbatim(line)


def _recorder(test: TestResult) -> Iterator[Block]:
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
        parts.append(f"{count(cuts)} watch disconnects, {seconds(sum(watch.cut_s for watch in test.watches))} in all")
    if parts:
        yield Gap()
        yield Line("Recorder: " + "; ".join(parts), "quiet")


def _warnings(warnings: Sequence[str]) -> Iterator[Block]:
    if not warnings:
        return
    yield Heading("Warnings")
    for warning in warnings:
        yield Item(plain(warning), "doubt")
