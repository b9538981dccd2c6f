"""A run's phases as a small Markdown table, for a CI summary or a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import figures
from ..analysis.api_requests import OBJECT_WRITES
from ..analysis.result import CheckResult, MilestoneResult, PhaseResult, Result, TestResult
from ..errors import NotMeasuredError
from .bottleneck_table import bottlenecks_markdown
from .checks_table import by_verdict, left_to_sweep
from .format import NONE, count, escape, seconds
from .function_table import profiles_markdown
from .metric_table import metrics_markdown
from .summary import caveats, operator_cpu, reasons, reconciles, uncertain, verdict_line
from .terminal import how_far
from .validity_notes import incident


def summary(result: Result) -> str:
    """Return the run's phases: outcome, time, milestones, and the operator's CPU, writes and reconciles."""
    parts = [_test(test) for test in result.tests]
    if result.warnings:
        parts.append("\n".join(f"- {escape(warning)}" for warning in result.warnings) + "\n")
    return "\n".join(parts)


def _test(test: TestResult) -> str:
    lines = [f"### {escape(test.test)}: {test.verdict}", "", f"**{escape(verdict_line(test))}**", ""]
    if known := [f"- {escape(text)}" for text in (*reasons(test), *caveats(test))]:
        lines += [*known, ""]
    lines += [
        "| phase | outcome | took | milestones | operator CPU | object writes | reconciles |",
        "|---|---|--:|---|--:|--:|--:|",
        *(_row(phase) for phase in test.phases),
        "",
    ]
    if incidents := [f"- {escape(f'{p.name}, {incident(found)}')}" for p in test.phases for found in p.incidents]:
        lines += [*incidents, ""]
    if doubtful := [f"- {escape(text)}" for phase in test.phases for text in uncertain(phase)]:
        lines += [*doubtful, ""]
    lines += bottlenecks_markdown(test.phases)
    lines += _checks(test.checks)
    if others := [f"- {escape(text)}" for text in left_to_sweep(test)]:
        lines += [*others, ""]
    lines += metrics_markdown(test.metrics)
    lines += profiles_markdown(test)
    facts = [f"{test.machine.cores} × {test.machine.cpu}", *(f"{name} {value}" for name, value in test.cluster.items())]
    lines += [escape(", ".join(facts[:8])), ""]
    lines += [f"- {escape(warning)}" for warning in test.warnings]
    return "\n".join(lines).rstrip("\n") + "\n"


def _checks(checks: Sequence[CheckResult]) -> list[str]:
    if not checks:
        return []
    rows = [
        f"| {check.verdict if check.verdict == 'pass' else f'**{check.verdict}**'} | {escape(check.phase) or NONE}"
        f" | {escape(check.check)} | {escape(check.text)} | {escape(check.source)} |"
        for check in by_verdict(checks)
    ]
    return ["| verdict | phase | check | figure and bound | source |", "|---|---|---|---|---|", *rows, ""]


def _row(phase: PhaseResult) -> str:
    cells = [
        escape(phase.name),
        phase.outcome,
        seconds(phase.seconds),
        "<br>".join(_milestone(milestone) for milestone in phase.milestones) or NONE,
        operator_cpu(phase),
        _operator_writes(phase),
        reconciles(phase),
    ]
    return f"| {' | '.join(cells)} |"


def _milestone(milestone: MilestoneResult) -> str:
    name = escape(milestone.name)
    if milestone.seconds is not None:
        clock = "" if milestone.clock == "server" else f" ({milestone.clock})"
        return f"{name} {seconds(milestone.seconds)}{clock}"
    return f"{name} **not met**: {escape(how_far(milestone))}"


def _operator_writes(phase: PhaseResult) -> str:
    try:
        return count(figures.api(phase, "operator").object_writes)
    except NotMeasuredError:
        if phase.traffic_source != "metrics":
            return NONE
    most = figures.client_requests(phase).at_most(OBJECT_WRITES)
    return f"≤ {count(most)}" if most else "0"
