"""The summary before all tables: the verdict, its reasons, and the caveats of the figures (their source where it
is not the exact one, reruns, early ends).

Terminal, Markdown and page all show these sentences, in this order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..analysis import contention, figures
from ..analysis.api_requests import HARNESS
from ..analysis.idle_baseline import over_idle
from ..analysis.phase_result import CpuResult, DisruptionKind, IncidentResult, PhaseResult
from ..analysis.result import WHOLE_PHASE, CheckResult, Scalar, TestResult
from ..checks.check import headline
from ..errors import NotMeasuredError
from ..recording.records import WRITES, IncidentKind
from .format import NONE, bytes_, count, percent, seconds, three

OWN_COUNT = "rest_client_requests_total"

INCIDENTS: dict[IncidentKind, str] = {
    "container-restart": "container restarted",
    "pod-started": "pod started",
    "pod-gone": "pod gone",
    "leader-change": "leader changed",
    "process-restart": "process restarted",
    "node-restart": "node restarted",
    "api-server-restart": "API server restarted",
}

OWN_COUNT_HOLDS = "Leases, Events and reviews are in it, and resources are unknown"


def reservation(test: TestResult) -> str:
    """Return in a sentence the sources of a run without an audit log; empty for one with an audit log."""
    if test.audited or not test.phases:
        return ""
    counted = any(phase.traffic_source == "metrics" for phase in test.phases)
    traffic = f"API traffic by the operator's own {OWN_COUNT}" if counted else "API traffic is not known"
    return f"No audit log: milestones by the watch's clock, {traffic}."


def cpu_cell(row: CpuResult) -> str:
    """Return CPU seconds with their precision: ``4.31 s``, ``4.31 ± 0.06 s``, ``≥ 4.31 s``."""
    least = "≥ " if row.lower_bound else ""
    off = f" ± {row.resolution_s:.2g}" if row.resolution_s else ""
    return f"{least}{three(row.seconds)}{off} s"


def scraped_note(phases: Sequence[PhaseResult]) -> str:
    """Return which processes' figures are from scrapes, with the consequence; empty where all clocks were read."""
    rows = [row for phase in phases for row in phase.cpu if row.source == "scrape"]
    if not rows:
        return ""
    names = ", ".join(dict.fromkeys(row.process for row in rows))
    step = max(row.rss_resolution_bytes for row in rows)
    return (
        f"{names}: no clock could be read; CPU and memory are what it served of itself at the phases' edges, ± ticks of"
        " its counter and what it may have used outside of them; memory changed by up to"
        f" {bytes_(step)} between two scrapes"
    )


def incident(found: IncidentResult) -> str:
    """Return an incident in words: ``after 3.20 s: container restarted: operator/a/manager (exit code 137)``."""
    detail = f" ({found.detail})" if found.detail else ""
    return f"after {seconds(found.after_s)}: {INCIDENTS[found.kind]}: {found.subject}{detail}"


def standing(test: TestResult) -> list[str]:
    """Return all notes for readers of a test's figures; empty for a test that ran once, undisturbed."""
    found = validity(test)
    if all(phase.outcome == "passed" for phase in test.phases):
        if test.error:
            found.append(f"The test ended{after(test)}, by an error: {test.error}")
        if test.failure:
            found.append(f"The test failed{after(test)}: {test.failure}")
    return found


def validity(test: TestResult) -> list[str]:
    """Return why a test's figures may not count, or which of several runs counts."""
    found = []
    if test.superseded:
        found.append(f"Run {test.attempt} of {test.attempts}: a rerun followed, and this one counts for nothing.")
    elif test.attempts > 1:
        found.append(f"Rerun {test.attempt - 1}: this one counts; the recordings of the runs before are kept.")
    if test.disturbed:
        found.append(f"Others may have used the cluster while this was measured: {test.disturbed}")
    return found


def after(test: TestResult) -> str:
    """Return the phase after which a test ended, all of whose phases passed."""
    return f" after {test.phases[-1].name}" if test.phases else ""


_FEW = 3
_LATE_SHOWN = 2
_CLUSTER_FACTS = ("backend", "kubernetes", "nodes")
_OPERATOR = "operator"


def verdict_line(test: TestResult) -> str:
    """Return the verdict and its basis: ``failed: 1 of 8 checks failed``.

    A disruption of the measurement comes first where it may have caused the verdict.
    """
    because = "; ".join(filter(None, [foremost_disruption(test).rstrip("."), _because(test)]))
    return f"{test.verdict}: {because}" if because else test.verdict


def foremost_disruption(test: TestResult) -> str:
    """Return the disruption that may have caused the verdict; empty without one.

    A check that failed all the same does not depend on any. Of a test that ended by an error, components that did not
    come back are its effect: they end with their cluster, and its supervisor starts others again.
    """
    if test.verdict == "passed" or _failed(test):
        return ""
    effects: tuple[DisruptionKind, ...] = ("component-exit",) if test.error else ()
    return next(iter(disruptions(test, without=effects)), "")


def _failed(test: TestResult) -> list[str]:
    """Return the checks that failed, with figure > bound and source."""
    return [_check(check) for check in test.checks if check.verdict == "fail"]


def _check(check: CheckResult) -> str:
    return headline(check) + (f" ({check.source})" if check.source else "")


def disruptions(test: TestResult, *, without: Collection[DisruptionKind] = ()) -> list[str]:
    """Return the disruptions of the measurement by phase; those that affect only some of its figures come last.

    ``kube-apiserver was restarted 4.2 s into steady-state.`` ``without``: kinds to leave out.
    """
    found = [one for phase in test.phases for one in phase.disruptions if one.kind not in without]
    ordered = sorted(found, key=lambda disruption: disruption.kind not in WHOLE_PHASE)
    return list(dict.fromkeys(_sentence(one.text) for one in ordered))


def _sentence(text: str) -> str:
    """Return a text as a sentence; a program's name keeps its lower case."""
    return f"{text[0].upper()}{text[1:]}." if text.startswith(("the ", "in ")) else f"{text}."


def uncertain(phase: PhaseResult) -> list[str]:
    """Return the figures of a phase that each disruption makes uncertain."""
    return [f"{one.text}; uncertain: {', '.join(one.uncertain)}" for one in phase.disruptions if one.uncertain]


def _because(test: TestResult) -> str:
    checks = test.checks
    match test.verdict:
        case "passed":
            held = [f"{count(len(checks))} checks" if len(checks) != 1 else "1 check"] if checks else []
            return f"{', '.join([*held, _phases(test)])} in {seconds(test.seconds)}"
        case "interrupted":
            inside = next((phase.name for phase in test.phases if phase.outcome in ("interrupted", "unfinished")), "")
            return f"after {seconds(test.seconds)}" + (f", in {inside}" if inside else "")
        case "error":
            between = after(test) if all(phase.outcome == "passed" for phase in test.phases) else ""
            return (test.error or f"the recording broke off: {test.closed_message or test.closed}") + between
        case "failed":
            bad = sum(check.verdict == "fail" for check in checks)
            found = sum(one.severity != "note" for one in test.findings)
            if not bad and any(one.text in test.failure for one in test.findings):
                return f"{found} finding{'s' * (found != 1)}"
            late = next((phase.name for phase in test.phases if phase.outcome not in ("passed", "unfinished")), "")
            return (
                f"{bad} of {count(len(checks))} checks failed" if bad else f"in {late}" if late else after(test).strip()
            )
    undecided = sum(check.verdict == "inconclusive" for check in checks)
    return f"{undecided} of {count(len(checks))} checks could not be decided" if undecided else ""


def _phases(test: TestResult) -> str:
    return "no phase" if not test.phases else "1 phase" if len(test.phases) == 1 else f"{len(test.phases)} phases"


def reasons(test: TestResult) -> list[str]:
    """Return the reasons of the verdict, worst first: checks with figure > bound and source, phases, the test's error.

    Empty for a test that passed. Disruptions come before what they may have caused, except for the one that
    `verdict_line` names. Checks that a test which ended early left undecided are one line, behind why it did.
    """
    found = _failed(test)
    if test.verdict != "passed":
        first = foremost_disruption(test)
        found += [one for one in disruptions(test) if one != first]
    undecided = [f"inconclusive: {_check(check)}" for check in test.checks if check.verdict == "inconclusive"]
    ended = any(phase.outcome != "passed" for phase in test.phases) or test.verdict in ("interrupted", "error")
    if not ended:
        found += undecided
    messages = [
        phase.message.strip().partition("\n")[0] or f"{phase.name}: {phase.outcome} after {seconds(phase.seconds)}"
        for phase in test.phases
        if phase.outcome not in ("passed", "unfinished")
    ]
    # That of a test that ended by an error stands in its first line.
    found += [message for message in messages if not test.error or test.error.partition("\n")[0] not in message]
    by_checks = any(test.failure.startswith(headline(check)) for check in test.checks)
    if test.failure and not by_checks and not any(test.failure in message for message in messages):
        found.append(test.failure)
    for phase in test.phases:
        found += map(figures.late_text, phase.late[:_LATE_SHOWN])
    if ended and len(undecided) > 1:
        found.append(f"{len(undecided)} of {count(len(test.checks))} checks could not be decided: the test ended early")
    elif ended:
        found += undecided
    return found


def caveats(test: TestResult) -> list[str]:
    """Return the caveats: disruptions, contention, saturation, reruns, missing sources."""
    broke = disruptions(test) if test.verdict == "passed" else []
    return [*broke, *unwaited(test), *inflation(test), *validity(test), *filter(None, [reservation(test)])]


def unwaited(test: TestResult) -> list[str]:
    """Return which phases changed something and waited for nothing: their milestones were met as they began.

    A phase that triggers is left out: that what is there stays is what it may wait for.
    """
    found = []
    for phase in main_phases(test):
        acted = any(row.identity == HARNESS and row.verb in WRITES for row in phase.api)
        at_once = [one.name for one in phase.milestones if one.met and one.observed_s == 0 and one.object is None]
        if acted and at_once and len(at_once) == len(phase.milestones) and not phase.triggers:
            were = "was" if len(at_once) == 1 else "were"
            found.append(
                f"{phase.name}: {', '.join(at_once)} {were} met before anything was changed in it, so it did not wait"
                " for what its changes lead to: wait first, in a phase of its own, until it no longer holds."
            )
    return found


def inflation(test: TestResult) -> list[str]:
    """Return the phases in which other programs, or the run itself, used all cores, so that figures are inflated."""
    sentences = list(filter(None, [contention.of_phases(main_phases(test), limit=test.contention_limit)]))
    saturated = [
        f"{phase.name} ({percent(phase.saturation.busy_share)} of {test.machine.cores} cores)"
        for phase in test.phases
        if phase.saturation is not None
        and phase.saturation.saturated
        and not contention.contended(phase.contention, limit=test.contention_limit)
    ]
    if saturated:
        where = ", ".join(saturated) if len(saturated) <= _FEW else f"{len(saturated)} phases"
        sentences.append(f"CPU was saturated in {where}: wall times reflect the machine, not the operator.")
    return sentences


def main_phases(test: TestResult) -> list[PhaseResult]:
    """Return the test's phases without idle twins, which only serve to judge another phase."""
    twins = {phase.idle_twin for phase in test.phases}
    return [phase for phase in test.phases if phase.name not in twins]


def phase_cells(phase: PhaseResult) -> list[str]:
    """Return a phase's row: name, duration, last milestone, and the operator's CPU, requests and reconciles."""
    took = seconds(phase.seconds) if phase.outcome == "passed" else f"{phase.outcome} {seconds(phase.seconds)}"
    return [phase.name, took, _last_milestone(phase), operator_cpu(phase), _requests(phase), reconciles(phase)]


PHASE_COLUMNS = ("phase", "duration", "last milestone", "operator CPU", "requests", "reconciles")
"""Headings of `phase_cells`."""


def _last_milestone(phase: PhaseResult) -> str:
    if any(not milestone.met for milestone in phase.milestones):
        missed = next(milestone for milestone in phase.milestones if not milestone.met)
        return f"{missed.name} not met"
    met = [milestone for milestone in phase.milestones if milestone.seconds is not None]
    if not met:
        return ""
    last = max(met, key=lambda milestone: milestone.seconds or 0.0)
    return f"{last.name} {seconds(last.seconds or 0.0)}"


def operator_cpu(phase: PhaseResult) -> str:
    """Return the operator's CPU time in a phase, with its precision."""
    row = next((row for row in phase.cpu if row.process == _OPERATOR), None)
    return NONE if row is None else cpu_cell(row)


def _requests(phase: PhaseResult) -> str:
    try:
        return count(figures.api(phase, _OPERATOR).requests)
    except NotMeasuredError:
        if phase.traffic_source != "metrics":
            return NONE
    most = sum(row.count for row in phase.client_requests)
    return f"≤ {count(most)}" if most else "0"


def reconciles(phase: PhaseResult) -> str:
    """Return how many reconciles of all controllers ended in a phase."""
    if not phase.reconciles:
        return NONE
    least = "≥ " if any(row.lower_bound for row in phase.reconciles) else ""
    return least + count(sum(row.count for row in phase.reconciles))


def main_cause(test: TestResult) -> str:
    """Return the largest attribution rows of the longest phase that has any; empty where none has."""
    with_line = [phase for phase in test.phases if phase.bottleneck]
    if not with_line:
        return ""
    longest = max(with_line, key=lambda phase: phase.seconds)
    return f"Time of {longest.name}: {longest.bottleneck}"


def peak_memory(test: TestResult) -> str:
    """Return the peaks of the operator and of the largest other process."""
    peaks: dict[str, int] = {}
    for phase in test.phases:
        for row in phase.cpu:
            peaks[row.process] = max(peaks.get(row.process, 0), row.peak_rss_bytes)
    others = sorted((name for name in peaks if name != _OPERATOR), key=lambda name: -peaks[name])[:1]
    shown = [f"{name} {bytes_(peaks[name])}" for name in (_OPERATOR, *others) if name in peaks]
    return f"Peak memory: {', '.join(shown)}" if shown else ""


def noop_lines(test: TestResult) -> list[tuple[str, bool]]:
    """Return a sentence for each phase with no-op triggers, and whether no object was written in it."""
    return [(_noop(test, phase), figures.noop(phase).state == "no-writes") for phase in test.phases if phase.triggers]


def _noop(test: TestResult, phase: PhaseResult) -> str:
    noop = figures.noop(phase)
    triggers = "1 trigger" if phase.triggers == 1 else f"{count(phase.triggers)} triggers"
    made = ", ".join(f"{count(n)} of {controller}" for controller, n in noop.reconciles.items() if n)
    text = f"No-op in {phase.name}: {triggers}"
    text += f", reconciles: {made}" if made else ""
    text += f", object writes: {noop.object_writes}" if noop.object_writes is not None else ""
    text += f", reads: {noop.object_reads}" if noop.object_reads is not None else ""
    try:
        used = over_idle(test, phase)
        each = f", {seconds(used.per_reconcile_s())} a reconcile"
    except NotMeasuredError:
        cpu = ""
    else:
        cpu = f", CPU: {seconds(used.busy_s)}, idle baseline {seconds(used.idle_s)}{each}"
    return text + cpu + (f". Inconclusive: {'; '.join(noop.why)}" if noop.state == "inconclusive" else ".")


def environment(test: TestResult) -> str:
    """Return in one line the machine, cluster and operator of the figures."""
    cluster = [_fact(name, test.cluster[name]) for name in _CLUSTER_FACTS if name in test.cluster]
    operator = str(test.parameters.get(_OPERATOR, ""))
    machine = test.machine
    parts = [
        " ".join(cluster),
        f"operator {operator}" if operator else "",
        f"{machine.cores} × {machine.cpu}, {bytes_(machine.memory_bytes)}",
        f"pytest-grovescale {test.version}",
    ]
    return "; ".join(filter(None, parts))


def _fact(name: str, value: Scalar) -> str:
    text = three(value) if isinstance(value, float) else str(value)
    return text if name == "backend" else f"{name} {text}"
