"""Conflicts and errors as shares of what was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from ...analysis import figures
from ...analysis.api_faults import injected
from ...analysis.metrics.counters import counts, growth
from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...analysis.metrics.selectors import Matcher, Selector
from ...analysis.phase_result import ApiRow, PhaseResult
from ...analysis.result import TestResult
from ...errors import NotMeasuredError
from ...exposition.families import parse
from ...recording.records import UPDATES, FaultKind
from ..check import Check, Outcome, at_most, not_negative, share
from ..run import Run, named_phase, unfinished
from .target import TargetCheck

_CONFLICT = 409
"""JSON patches may have another code for it: see `ApiRow.overtaken`."""
_SENT = Selector("rest_client_requests_total", (Matcher("method", "=~", "PUT|PATCH"),))

_TYPES = {"persistent": ("invalid", "forbidden"), "transient": ("conflict", "timeout", "rate_limited")}
_CODES = {"persistent": (400, 403, 422), "transient": (409, 408, 429, 504)}
"""The same as status codes of the API server."""
_INJECTED: dict[str, FaultKind] = {
    "conflict": "conflict",
    "rate_limited": "throttled",
    "timeout": "lost-answer",
    "internal": "error",
}
"""Kind of error → the kind of fault that the operator counts as such, where ``scale.faults`` made it."""
_SHOWN = 6


class _Share(Check, frozen=True):
    max: float


class ConflictRate(_Share, tag="conflict_rate", frozen=True, kw_only=True):
    """Share of an identity's updates and patches that another write overtook, at most: answered 409, or 422 where a
    JSON patch tests the version that it is made for.

    By the audit log, or by the operator's own count of its requests where there is none.
    """

    timed = True

    phase: str = ""
    """Empty: all phases together."""
    identity: str = "operator"

    def validate(self) -> None:
        share(self, max=self.max)

    def judge(self, run: Run) -> Outcome:
        phases = _phases(run.test, self.phase)
        try:
            responses, source = _logged(phases, self.identity), "by the audit log"
        except NotMeasuredError as error:
            if self.identity != "operator":
                raise
            responses = _without_injected(_counted(run.metrics().target(), self.phase, error), phases)
            source = f"by its own {_SENT.name}, Leases and Events included, since {error.message}"
        total = sum(responses.values())
        if not total:
            raise NotMeasuredError(f"{self.identity} made no update and no patch {_where(self.phase)}")
        conflicts = Counter({what: n for (code, what), n in responses.items() if n and code == _CONFLICT})
        return at_most(
            self.phase,
            f"share of {total:,} updates and patches by {self.identity} that met a conflict, {source}",
            conflicts.total() / total,
            self.max,
            doubts=_doubts(phases),
            evidence=[f"{n:,} × 409: {what}" for what, n in conflicts.most_common(_SHOWN)],
        )


class _Positional(TargetCheck, frozen=True):
    positional = ("kind",)

    kind: Literal["persistent", "transient", "all"] = "persistent"


class ErrorRatio(_Positional, tag="error_ratio", frozen=True, kw_only=True):
    """Errors of one kind for each reconcile, at most.

    ``persistent``: those that a retry does not solve (invalid, forbidden); ``transient``: those that it does (conflict,
    timeout, rate_limited). By a counter of the operator's with a label for the kind of error, else by the status codes
    of the API server's responses to its requests.
    """

    timed = True

    max: float = 0.0
    phase: str = ""
    """Empty: all phases together."""
    family: str = ""
    """Counter with the kinds of errors; empty: all that have the label."""
    label: str = "error_type"

    def validate(self) -> None:
        not_negative(self, max=self.max)

    def judge_target(self, run: Run) -> Outcome:
        phases = _phases(run.test, self.phase)
        reconciles = sum(_reconciles(phase) for phase in phases)
        if not reconciles:
            raise NotMeasuredError(f"nothing was reconciled {_where(self.phase)}")
        errors, source = _errors(self, phases, run.metrics())
        return at_most(
            self.phase,
            f"{self.kind} errors for each of {reconciles:,} reconciles, {source}",
            sum(errors.values()) / reconciles,
            self.max,
            doubts=_doubts(phases),
            evidence=[f"{round(n):,} × {what}" for what, n in errors.most_common(_SHOWN) if n],
        )


def _phases(test: TestResult, name: str) -> Sequence[PhaseResult]:
    phases = (named_phase(test, name),) if name else test.phases
    if not phases:
        raise NotMeasuredError("the recording has no phase")
    return phases


def _where(phase: str) -> str:
    return f"in {phase}" if phase else "in any phase"


def _doubts(phases: Iterable[PhaseResult]) -> list[str]:
    return [f"{phase.name}: {doubt}" for phase in phases for doubt in unfinished(phase)]


def _logged(phases: Sequence[PhaseResult], identity: str) -> Counter[tuple[int, str]]:
    """Return (code, what it was for) → updates and patches of objects, all phases together."""
    responses: Counter[tuple[int, str]] = Counter()
    for phase in phases:
        for row in figures.api(phase, identity).rows:
            if row.category == "object" and row.verb in UPDATES and not row.dry_run:
                what = f"{row.verb} {row.resource} in {phase.name}"
                responses[row.code, what] += row.count - row.overtaken
                responses[_CONFLICT, what] += row.overtaken
    return responses


def _counted(target: TargetHistory, phase: str, why: NotMeasuredError) -> Counter[tuple[int, str]]:
    """Return the same by the operator's own count of its requests; raises ``why`` where it has none."""
    responses: Counter[tuple[int, str]] = Counter()
    chosen = _SENT.of(target.series)
    if not chosen:
        raise why
    for series, parts in chosen.items():
        grown = growth(target, series, phase)
        if grown is None:
            raise why
        code = parts.labels.get("code", "")
        responses[int(code) if code.isdecimal() else 0, f"{parts.labels.get('method', '')} requests"] += round(grown)
    return responses


def _without_injected(counted: Counter[tuple[int, str]], phases: Sequence[PhaseResult]) -> Counter[tuple[int, str]]:
    """Return the operator's own count of answers without conflicts that ``scale.faults`` made: no log has those."""
    left = injected(phases, "conflict")
    for key in [key for key in counted if key[0] == _CONFLICT]:
        taken = min(left, counted[key])
        counted[key] -= taken
        left -= taken
    return counted


def _reconciles(phase: PhaseResult) -> int:
    if why := phase.missing.get("reconciles", ""):
        raise NotMeasuredError(f"reconciles in phase {phase.name!r} were not measured: {why}")
    return sum(row.count for row in phase.reconciles)


def _errors(check: ErrorRatio, phases: Sequence[PhaseResult], metrics: MetricsHistory) -> tuple[Counter[str], str]:
    """Return what went wrong → how often, and where that is from."""
    target = metrics.target(check.target)
    series = [text for text in target.series if _matches(target, text, check)]
    if not series and not check.family and check.kind == "all" and (ended := _ended(phases)):
        return ended, "by how they ended"
    if not series:
        return _by_status_code(check, phases), "by the API server's answers, since no counter separates kinds of errors"
    errors: Counter[str] = Counter()
    for text in series:
        parts = parse(text)
        kind = parts.labels[check.label]
        if check.kind != "all" and kind not in _TYPES[check.kind]:
            continue
        for phase in phases:
            grown = growth(target, text, phase.name)
            if grown is None:
                raise NotMeasuredError(f"{parts.name} was not scraped at both ends of {phase.name}")
            errors[f"{kind} ({parts.labels.get('controller') or parts.name})"] += round(grown)
    for kind, made in _INJECTED.items():
        left = injected(phases, made)
        for name in [name for name in errors if name.startswith(f"{kind} ")]:
            taken = min(left, errors[name])
            errors[name] -= taken
            left -= taken
    return errors, f"by {', '.join(sorted({parse(text).name for text in series}))}"


def _matches(target: TargetHistory, text: str, check: ErrorRatio) -> bool:
    name, labels = parse(text)
    if check.family and name != check.family:
        return False
    return check.label in labels and counts(name, target.families)


def _ended(phases: Sequence[PhaseResult]) -> Counter[str]:
    """Return controller → reconciles that ended in an error; empty where the counters have no results."""
    errors: Counter[str] = Counter()
    for phase in phases:
        for row in phase.reconciles:
            if row.result:
                errors[f"error ({row.controller})"] += row.count * (row.result == "error")
    return errors


def _by_status_code(check: ErrorRatio, phases: Sequence[PhaseResult]) -> Counter[str]:
    if check.family:
        raise NotMeasuredError(f"there is no counter {check.family} with a label {check.label!r}")
    errors: Counter[str] = Counter()
    for phase in phases:
        for row in figures.api(phase, "operator").rows:
            if row.category == "object":
                errors[f"{row.code} for {row.verb} {row.resource}"] += _wrong(row, check.kind)
    return errors


def _wrong(row: ApiRow, kind: str) -> int:
    if kind == "all":
        return row.count * (row.code >= 400)
    return (row.count - row.overtaken) * (row.code in _CODES[kind]) + row.overtaken * (_CONFLICT in _CODES[kind])
