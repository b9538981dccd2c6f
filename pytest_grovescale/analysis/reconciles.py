"""Reconciles by controller and result in a phase, and other counters scraped at its edges."""

from __future__ import annotations

import re

from .contents import Contents, PhaseSpan, Snapshot
from .result import ReconcileRow

OPERATOR = "operator"

_FAMILY = "controller_runtime_reconcile_total"
_ESCAPE = re.compile(r"\\(.)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def reconciles_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[tuple[ReconcileRow, ...], str]:
    """Return reconciles between the operator's scrapes at the phase's edges, or nothing and why not."""
    start, end = phase.scrape_start.get(OPERATOR), phase.scrape_end.get(OPERATOR)
    if start is None or end is None:
        return (), why_not_scraped(contents, phase, OPERATOR, start, end)
    anew = _began_anew(contents, phase, start, end)
    rows = []
    for series, value in end.samples.items():
        if not series.startswith(_FAMILY + "{"):
            continue
        labels = {name: _unescaped(value) for name, value in _LABEL.findall(series)}
        count, reset = _increase(start.samples.get(series, 0.0), value, anew=anew)
        rows.append(
            ReconcileRow(
                controller=labels.get("controller", ""),
                result=labels.get("result", ""),
                count=round(count),
                lower_bound=reset,
            )
        )
    if not rows:
        return (), f"the operator's metrics have no {_FAMILY}"
    rows.sort(key=lambda row: (row.controller, row.result))
    return tuple(rows), ""


def counter_of_phase(phase: PhaseSpan, family: str) -> int | None:
    """Return how much all series of a counter grew together, on all targets; None where no target has it."""
    grown = [
        _increase(start.samples.get(series, 0.0), value, anew=False)[0]
        for target, end in phase.scrape_end.items()
        if (start := phase.scrape_start.get(target)) is not None
        for series, value in end.samples.items()
        if series.partition("{")[0] == family
    ]
    return round(sum(grown)) if grown else None


def why_not_scraped(
    contents: Contents, phase: PhaseSpan, target: str, start: Snapshot | None, end: Snapshot | None
) -> str:
    """Return in words why a target's counters have no difference over a phase."""
    until = contents.end_of(phase)
    failed = [f for f in contents.failures if f.source == f"scrape:{target}" and f.at <= until]
    which = "start" if start is None else "end"
    if failed:
        return f"the scrape at the phase's {which} failed: {failed[-1].message}"
    if end is None and phase.ended is None:
        return "the recording ends before the phase does"
    return f"the metrics of {target} were not scraped at the phase's {which}"


def _began_anew(contents: Contents, phase: PhaseSpan, start: Snapshot, end: Snapshot) -> bool:
    """Return whether the operator was restarted between two scrapes, even if its counters have overtaken again."""
    born = [name for name in start.samples if name.startswith("process_start_time_seconds")]
    if any(start.samples[name] != end.samples.get(name) for name in born):
        return True
    if any(start.at <= gone.at <= end.at for gone in contents.gone.get(OPERATOR, ())):
        return True
    first, last = phase.cpu_start.get(OPERATOR), phase.cpu_end.get(OPERATOR)
    return first is not None and last is not None and first.pid != last.pid


def _increase(before: float, after: float, *, anew: bool) -> tuple[float, bool]:
    """Return a counter's growth and whether it began anew, so that it grew by at least that much."""
    if anew or after < before:
        return after, True
    return after - before, False


def _unescaped(value: str) -> str:
    """Return a label's value as it was before the exposition format escaped it."""
    return _ESCAPE.sub(lambda found: "\n" if found.group(1) == "n" else found.group(1), value)
