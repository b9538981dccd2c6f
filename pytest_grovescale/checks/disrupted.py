"""Checks of a phase in which the control plane, the recorder or a source of the recording broke: nothing is decided.

A bound that held may have held only since nothing worked, and one that was exceeded only since something had to be done
again. A check stays as it was judged where it is certain that its figure is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..analysis.result import CheckResult, Disruption, PhaseResult, TestResult
from .finding import Finding
from .shape import AnyCheck, Milestone


def unless_disrupted(check: AnyCheck, found: Finding, phases: Sequence[PhaseResult], test: TestResult) -> Finding:
    """Return a finding that is inconclusive, with the reason, where a disruption may have changed its figure.

    ``phases``: those that it was judged by, idle twins included.
    """
    texts = tuple(
        disruption.text
        for phase in phases
        for disruption in phase.disruptions
        if may_touch(check, found, disruption, test)
    )
    if not texts:
        return found
    already = found.verdict == "inconclusive"
    return msgspec.structs.replace(
        found,
        verdict="inconclusive",
        text=f"{found.text}{'; ' if already else ', but '}{texts[0]}",
        evidence=(*texts, *found.evidence),
    )


def with_disruptions(judged: CheckResult, test: TestResult) -> CheckResult:
    """Return the result of a check that nothing could be measured for, with what disrupted its phase."""
    found = [one.text for phase in test.phases if phase.name == judged.phase for one in phase.disruptions]
    if not found:
        return judged
    return msgspec.structs.replace(judged, text=f"{judged.text}; {found[0]}", evidence=(*found, *judged.evidence))


def may_touch(check: AnyCheck, found: Finding, disruption: Disruption, test: TestResult) -> bool:
    """Return whether a disruption may have changed what a check was judged by."""
    if check.failure_stands and found.verdict == "fail":
        # What was seen was there, whatever happened beside it.
        return False
    match disruption.kind:
        case "audit-gap":
            # What reads the log answers only where all of it was read, or says that it did not.
            return False
        case "busy-recorder":
            return _by_recorders_clock(check, found, test) or (
                found.verdict == "fail" and check.depends_on_timing() and _at_an_edge(disruption)
            )
        case _:
            return True


def _by_recorders_clock(check: AnyCheck, found: Finding, test: TestResult) -> bool:
    """Return whether a check was judged by when the recorder saw something."""
    if not isinstance(check, Milestone):
        return False
    return any(
        milestone.name == check.name and milestone.clock != "server"
        for phase in test.phases
        if not found.phase or phase.name == found.phase
        for milestone in phase.milestones
    )


def _at_an_edge(disruption: Disruption) -> bool:
    return any(figure == "duration" or figure.startswith("CPU at ") for figure in disruption.uncertain)
