"""CPU of a steady-state phase next to its idle twin: what reconciles that find nothing to do may cost."""

from __future__ import annotations

import math

import msgspec

from .. import durations
from ..analysis import figures
from ..analysis.idle import OverIdle, over_idle
from ..analysis.result import TestResult
from ..analysis.run_metrics import metrics_of
from ..errors import NotMeasuredError
from . import spread
from .baseline import Baselines, metric_of_all
from .finding import Finding, at_most, shown
from .phases import steady, unfinished
from .shape import NoopCpu

KEY = "noop_cpu"
"""Of the metric that baselines hold: CPU seconds per trigger over idle."""

NOISE = 1.25
"""A twin that used more than this many times the phase's CPU was not idle; less of it is noise of a short window."""


def judge(check: NoopCpu, test: TestResult, baselines: Baselines) -> Finding:
    """Judge what a steady-state phase used more than its idle twin. Raises NotMeasuredError."""
    phase = steady(test, check.phase)
    used = over_idle(test, phase, check.process)
    doubts = [*figures.trigger_doubts(phase), *unfinished(phase)]
    if used.idle_s - used.idle_resolution_s > (used.busy_s + used.busy_resolution_s) * NOISE:
        raise NotMeasuredError(
            f"{check.process} used more CPU in {used.twin.name} ({shown(used.idle_s, 's')}) than with the trigger"
            f" ({shown(used.busy_s, 's')}): it was not idle there",
            next_step="Trigger when it has come to rest, and hold the phase until its reconciles are over.",
        )
    if check.times_idle is not None:
        return _times_idle(check.times_idle, used, doubts)
    if check.per_reconcile is not None:
        return _per_reconcile(check, durations.seconds(check.per_reconcile), used, doubts)
    return _against(check, test, used, doubts, baselines)


def _times_idle(bound: float, used: OverIdle, doubts: list[str]) -> Finding:
    if used.idle_s <= 0:
        raise NotMeasuredError(f"no CPU time was seen in {used.twin.name}: there is no multiple of it")
    figure = used.busy_s / used.idle_s
    deviation = spread.of_ratio(figure, used.idle_s, spread.busy_s(used), spread.idle_s(used))
    varies = spread.SURE * deviation / figure if figure > 0 else 0.0
    least_idle = used.idle_s - used.idle_resolution_s
    low = max(0.0, used.busy_s - used.busy_resolution_s) / (used.idle_s + used.idle_resolution_s)
    high = (used.busy_s + used.busy_resolution_s) / least_idle if least_idle > 0 else math.inf
    between = (max(0.0, low * (1 - varies)), high * (1 + varies))
    evidence = (*_evidence(used), _sure(spread.stated(used)))
    what = "CPU, of its idle twin's"
    return at_most(used.phase.name, what, figure, bound, "×", between=between, doubts=doubts, evidence=evidence)


def _per_reconcile(check: NoopCpu, bound: float, used: OverIdle, doubts: list[str]) -> Finding:
    figure = used.per_reconcile_s(check.controller)
    off = (used.resolution_s + spread.SURE * spread.difference_s(used)) / used.reconciles(check.controller)
    what = f"CPU per reconcile{' of ' + check.controller if check.controller else ''}"
    between = (figure - off, figure + off)
    evidence = (*_evidence(used), _sure(spread.stated(used)))
    return at_most(used.phase.name, what, figure, bound, "s", between=between, doubts=doubts, evidence=evidence)


def _against(check: NoopCpu, test: TestResult, used: OverIdle, doubts: list[str], baselines: Baselines) -> Finding:
    """Compare with a baseline, by the metric that it holds."""
    name = check.vs or ""
    saved = metric_of_all(baselines, name, KEY)
    alone = msgspec.structs.replace(test, phases=(used.phase, used.twin))
    now = metrics_of(alone).get(KEY)
    if now is None:
        raise NotMeasuredError(
            f"CPU per trigger was not measured in phase {used.phase.name!r}: {'; '.join(doubts) or 'it did not pass'}"
        )
    found = spread.over_saved(now, saved, used, name=name)
    off = used.resolution_s / used.phase.triggers / saved[0] + found.reach
    return at_most(
        used.phase.name,
        f"CPU per trigger over idle, of baseline {name}'s",
        found.figure,
        1 + check.tolerance,
        "×",
        between=(found.figure - off, found.figure + off),
        doubts=doubts,
        evidence=(
            *_evidence(used),
            f"per trigger: {shown(now, 's')}, in {name}: {shown(saved[0], 's')}",
            _sure(found.why),
        ),
    )


def _evidence(used: OverIdle) -> tuple[str, ...]:
    return (
        f"CPU in {used.phase.name}: {shown(used.busy_s, 's')}",
        f"CPU in as much of {used.twin.name}: {shown(used.idle_s, 's')}",
        f"difference: {shown(used.difference_s, 's')}"
        + (f" ± {shown(used.resolution_s, 's')}, by scrapes of its metrics" if used.resolution_s else ""),
    )


def _sure(why: str) -> str:
    return f"{why}; more triggers narrow it, and grovescale compare decides by pairs of runs"
