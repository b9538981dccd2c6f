"""Families that say what a built-in one says."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable

import msgspec

from ...analysis.metrics.duplicates import verdicts
from ...analysis.metrics.history import OPERATOR, MetricsHistory, TargetHistory
from ...analysis.result import FamilyVerdict, TargetSummary, TestResult
from ...errors import NotMeasuredError
from ...exposition.libraries import LIBRARIES
from ..finding import Finding
from .catalogue import builtins
from .shape import NoBuiltinDuplicates

_SHOWN = 10
_WORK = ("controller_runtime_", "workqueue_", "rest_client_")


def judge(check: NoBuiltinDuplicates, metrics: MetricsHistory) -> Finding:
    """Judge each family of the operator's own. Raises NotMeasuredError when no built-in one ever moved.

    One that says what another of its own says is told, and fails nothing: that they are the same is likely, no more.
    """
    target = metrics.target(check.target)
    found = [
        verdict
        for verdict in verdicts(target, builtins())
        if not any(fnmatch.fnmatchcase(verdict.family, pattern) for pattern in check.ignore)
    ]
    refused = [verdict for verdict in found if verdict.refused]
    if not refused:
        _refuse_still(target)
    return Finding(
        phase="",
        verdict="fail" if refused else "pass",
        figure=len(refused),
        bound=0,
        unit="",
        text=_text(found, refused),
        evidence=tuple(_line(verdict) for verdict in _told(found)[:_SHOWN]),
    )


def with_verdicts(test: TestResult, metrics: Callable[[], MetricsHistory]) -> TestResult:
    """Return a test's result with the verdict of each family of the operator's own, whatever the test is held to."""
    return msgspec.structs.replace(test, metrics=tuple(_with_verdicts(target, metrics) for target in test.metrics))


def _with_verdicts(target: TargetSummary, metrics: Callable[[], MetricsHistory]) -> TargetSummary:
    # Of several pods each is a target: operator/<pod>.
    if target.target.partition("/")[0] != OPERATOR or not target.scrapes:
        return target
    return msgspec.structs.replace(target, verdicts=tuple(verdicts(metrics().target(target.target), builtins())))


def _refuse_still(target: TargetHistory) -> None:
    """Raise NotMeasuredError for a history in which nothing could have been found."""
    if not target.moments:
        raise NotMeasuredError(f"{target.target} was never scraped")
    built_in = [series for series in target.series if series.startswith(LIBRARIES)]
    # Those of Go and of the process always change: they tell nothing of an operator that had no work.
    work = [series for series in built_in if series.startswith(_WORK)]
    if not any(target.changes(series) > 1 for series in work or built_in):
        raise NotMeasuredError(
            f"no built-in metric of reconciles, queues or requests changed between {len(target.moments)} scrapes:"
            " duplicates are found by what changes",
            next_step="Let the operator work between two scrapes.",
        )


def _text(found: list[FamilyVerdict], refused: list[FamilyVerdict]) -> str:
    if refused:
        names = ", ".join(f"{verdict.family} ({verdict.kind} of {verdict.other})" for verdict in refused[:3])
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        return f"{len(refused)} of {len(found)} own families say what a built-in one says: {names}{more}"
    kinds = Counter(verdict.kind for verdict in found)
    parts = [f"{kinds[kind]} {kind}" for kind in ("novel", "refinement") if kinds[kind]]
    if kinds["duplicate"]:
        parts.append(f"{kinds['duplicate']} duplicate of another own one")
    if kinds["unmoved"]:
        parts.append(f"{kinds['unmoved']} not told, since they never changed")
    return f"no own family says what a built-in one says: {', '.join(parts) or 'there is none'}"


def _told(found: list[FamilyVerdict]) -> list[FamilyVerdict]:
    """Return what is worth telling, what is refused first; of the novel ones the counts are enough."""
    order = ("collision", "duplicate", "refinement", "unmoved")
    return sorted((verdict for verdict in found if verdict.kind in order), key=lambda one: order.index(one.kind))


def _line(verdict: FamilyVerdict) -> str:
    match verdict.kind:
        case "collision":
            return f"{verdict.family}: {verdict.why}; give it another name"
        case "duplicate":
            other = f"the same as {verdict.other}, its own too: " if verdict.of_own else ""
            return f"{verdict.family}: {other}{verdict.why}; leave it out and ask for {verdict.query}"
        case "refinement":
            return f"{verdict.family} refines {verdict.other}: {verdict.why}, it is {verdict.query}"
        case _:
            return f"{verdict.family}: {verdict.why}"
