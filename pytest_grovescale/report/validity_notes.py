"""Notes on the validity of figures: their source where it is not the exact one, reruns, early ends.

The test's end between two phases, a rerun that replaces it, other users of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.phase_result import CpuResult, IncidentResult, PhaseResult
from ..analysis.result import TestResult
from ..recording.records import IncidentKind
from .format import bytes_, seconds, three

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
