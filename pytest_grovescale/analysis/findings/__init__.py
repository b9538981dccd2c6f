"""Findings: what is wrong with the operator, by its recording alone, without a declared bound.

A rule is a module here: its docstring has the reason, its source, and why it raises no false alarm; `ID` names it; and
`findings` yields what it found. Rules are pure, and read a recording through `observed.Observed`; `grouping` puts what
they found in order, and together what has one cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from ... import errors
from ..api_faults import ApiFaults
from ..recording_index import Contents
from ..result import Finding, TestResult
from ..run_metrics import WINDOW
from . import (
    amplification,
    availability,
    children,
    churn,
    conditions,
    counters,
    credentials,
    cycles,
    dead_times,
    fault_recovery,
    gauges,
    growing_objects,
    housekeeping,
    idle_work,
    initial_state,
    left_behind,
    metrics_endpoint,
    missing_controller,
    needless_reads,
    noop_work,
    operator_log,
    ownership,
    pacing,
    references,
    refusals,
    restarts,
    rivals,
    stale_status,
    stalled,
    unapplied,
    unset_fields,
    wasted_writes,
    workers,
    wrong_units,
)
from .grouping import grouped
from .idle_windows import idle_windows_of
from .observed import Observed

Rule = Callable[[Observed], Iterator[Finding]]

_MODULES = (
    missing_controller,
    restarts,
    stalled,
    left_behind,
    initial_state,
    cycles,
    stale_status,
    unapplied,
    unset_fields,
    availability,
    children,
    conditions,
    references,
    ownership,
    growing_objects,
    churn,
    rivals,
    gauges,
    counters,
    wrong_units,
    metrics_endpoint,
    fault_recovery,
    refusals,
    credentials,
    operator_log,
    workers,
    dead_times,
    pacing,
    idle_work,
    noop_work,
    amplification,
    wasted_writes,
    needless_reads,
    housekeeping,
)
"""Of equal severity and aspect, findings stand in this order; see `grouping`."""

_OF_COST = (
    churn,
    workers,
    dead_times,
    pacing,
    idle_work,
    noop_work,
    amplification,
    wasted_writes,
    needless_reads,
    housekeeping,
)
"""Rules of work without effect: what an operator repeats because of injected faults is none, and they look at phases
without any; `fault_recovery` judges the others."""

COUNTING = frozenset(module.ID for module in (idle_work, noop_work, amplification))
"""Rules that say how much there was, as a check of the same does, and not why."""

RULES: Mapping[str, Rule] = MappingProxyType({module.ID: module.findings for module in _MODULES})
"""Id → rule, of all that there are."""


def with_findings(contents: Contents, test: TestResult, faults: ApiFaults, *, rules: bool = True) -> TestResult:
    """Return a test with its idle windows, and with what the rules find in its recording that are not switched off.

    ``faults``: those that the test put in the operator's way; ``rules``: False leaves the findings out. A profiling
    pass, and a test whose cluster others may have used, have neither.
    """
    if not may_have_findings(test):
        return test
    seen = Observed(contents, test, faults)
    calm = seen.calm
    seen.test = calm.test = msgspec.structs.replace(test, idle=idle_windows_of(calm))
    if not rules:
        return seen.test
    of_cost = {module.ID for module in _OF_COST}
    found: list[Finding] = []
    failed: dict[str, str] = {}
    for name, rule in RULES.items():
        if name not in test.findings_off:
            try:
                found += rule(calm if name in of_cost else seen)
            except errors.ISOLATED as error:
                failed[name] = errors.own_defect(error)
    limited = tuple(
        span.phase.name for span in calm.spans if calm.slowed(span) and not WINDOW.fullmatch(span.phase.name)
    )
    return msgspec.structs.replace(seen.test, findings=grouped(found), findings_failed=failed, findings_limited=limited)


def may_have_findings(test: TestResult) -> bool:
    """Return whether a test shows anything of the operator: no profiling pass, and no others on its cluster."""
    return bool(test.phases) and not test.profiled and not test.disturbed
