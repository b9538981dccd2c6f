"""Conflicts and errors, next to what was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...analysis import figures
from ...analysis.metrics.counters import counts, growth
from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...analysis.metrics.selection import Matcher, Selector
from ...analysis.result import ApiRow, PhaseResult, TestResult
from ...errors import NotMeasuredError
from ...exposition.series import parse
from ..finding import Finding, at_most
from ..phases import named, unfinished
from .shape import ConflictRate, ErrorRatio

_CHANGES = ("update", "patch")
"""What can be refused because the object has changed. A create's 409 says that it is there already."""
_CONFLICT = 409
_SENT = Selector("rest_client_requests_total", (Matcher("method", "=~", "PUT|PATCH"),))

_TYPES = {"persistent": ("invalid", "forbidden"), "transient": ("conflict", "timeout", "rate_limited")}
_CODES = {"persistent": (400, 403, 422), "transient": (409, 408, 429, 504)}
"""The same as the API server answers it."""
_SHOWN = 6


def conflict_rate(check: ConflictRate, test: TestResult, metrics: MetricsHistory) -> Finding:
    """Judge the share of an identity's updates and patches that were refused with 409.

    By the audit log, or by the operator's own count of its requests where there is none. Raises NotMeasuredError when
    neither is there, and when nothing was written.
    """
    phases = _phases(test, check.phase)
    try:
        answers, source = _logged(phases, check.identity), "by the audit log"
    except NotMeasuredError as error:
        if check.identity != "operator":
            raise
        answers = _counted(metrics.target(), check.phase, error)
        source = f"by its own {_SENT.name}, Leases and Events included, since {error.message}"
    total = sum(answers.values())
    if not total:
        raise NotMeasuredError(f"{check.identity} made no update and no patch {_where(check.phase)}")
    refused = sum(n for (code, _), n in answers.items() if code == _CONFLICT)
    return at_most(
        check.phase,
        f"share of {total:,} updates and patches by {check.identity} that met a conflict, {source}",
        refused / total,
        check.max,
        doubts=_doubts(phases),
        evidence=[f"{n:,} × 409: {what}" for (code, what), n in answers.most_common() if code == _CONFLICT][:_SHOWN],
    )


def error_ratio(check: ErrorRatio, test: TestResult, metrics: MetricsHistory) -> Finding:
    """Judge how many errors of a kind there were for each reconcile.

    By a counter of the operator's with a label that says what kind of error it was, else by the API server's answers
    to its requests. Raises NotMeasuredError when reconciles were not counted, or nothing tells of errors.
    """
    phases = _phases(test, check.phase)
    reconciles = sum(_reconciles(phase) for phase in phases)
    if not reconciles:
        raise NotMeasuredError(f"nothing was reconciled {_where(check.phase)}")
    found, source = _errors(check, phases, metrics)
    return at_most(
        check.phase,
        f"{check.kind} errors for each of {reconciles:,} reconciles, {source}",
        sum(found.values()) / reconciles,
        check.max,
        doubts=_doubts(phases),
        evidence=[f"{round(n):,} × {what}" for what, n in found.most_common(_SHOWN) if n],
    )


def _phases(test: TestResult, name: str) -> Sequence[PhaseResult]:
    found = (named(test, name),) if name else test.phases
    if not found:
        raise NotMeasuredError("the recording has no phase")
    return found


def _where(phase: str) -> str:
    return f"in {phase}" if phase else "in any phase"


def _doubts(phases: Iterable[PhaseResult]) -> list[str]:
    return [f"{phase.name}: {doubt}" for phase in phases for doubt in unfinished(phase)]


def _logged(phases: Sequence[PhaseResult], identity: str) -> Counter[tuple[int, str]]:
    """Return (code, what it was for) → updates and patches of objects, all phases together."""
    found: Counter[tuple[int, str]] = Counter()
    for phase in phases:
        for row in figures.api(phase, identity).rows:
            if row.category == "object" and row.verb in _CHANGES and not row.dry_run:
                found[row.code, f"{row.verb} {row.resource} in {phase.name}"] += row.count
    return found


def _counted(target: TargetHistory, phase: str, why: NotMeasuredError) -> Counter[tuple[int, str]]:
    """Return the same by the operator's own count of its requests; raises ``why`` where it has none."""
    found: Counter[tuple[int, str]] = Counter()
    chosen = _SENT.of(target.series)
    if not chosen:
        raise why
    for series, parts in chosen.items():
        grown = growth(target, series, phase)
        if grown is None:
            raise why
        code = parts.labels.get("code", "")
        found[int(code) if code.isdecimal() else 0, f"{parts.labels.get('method', '')} requests"] += round(grown)
    return found


def _reconciles(phase: PhaseResult) -> int:
    if why := phase.missing.get("reconciles", ""):
        raise NotMeasuredError(f"reconciles in phase {phase.name!r} were not measured: {why}")
    return sum(row.count for row in phase.reconciles)


def _errors(check: ErrorRatio, phases: Sequence[PhaseResult], metrics: MetricsHistory) -> tuple[Counter[str], str]:
    """Return what went wrong → how often, and where that is from."""
    target = metrics.target(check.target)
    series = [text for text in target.series if _tells(target, text, check)]
    if not series and not check.family and check.kind == "all" and (ended := _ended(phases)):
        return ended, "by how they ended"
    if not series:
        return _answered(check, phases), "by the API server's answers, since no counter tells kinds of errors"
    found: Counter[str] = Counter()
    for text in series:
        parts = parse(text)
        kind = parts.labels[check.label]
        if check.kind != "all" and kind not in _TYPES[check.kind]:
            continue
        for phase in phases:
            grown = growth(target, text, phase.name)
            if grown is None:
                raise NotMeasuredError(f"{parts.name} was not scraped at both ends of {phase.name}")
            found[f"{kind} ({parts.labels.get('controller') or parts.name})"] += round(grown)
    return found, f"by {', '.join(sorted({parse(text).name for text in series}))}"


def _tells(target: TargetHistory, text: str, check: ErrorRatio) -> bool:
    name, labels = parse(text)
    if check.family and name != check.family:
        return False
    return check.label in labels and counts(name, target.families)


def _ended(phases: Sequence[PhaseResult]) -> Counter[str]:
    """Return controller → reconciles that ended in an error; empty where the counters tell of no result."""
    found: Counter[str] = Counter()
    for phase in phases:
        for row in phase.reconciles:
            if row.result:
                found[f"error ({row.controller})"] += row.count * (row.result == "error")
    return found


def _answered(check: ErrorRatio, phases: Sequence[PhaseResult]) -> Counter[str]:
    if check.family:
        raise NotMeasuredError(f"there is no counter {check.family} with a label {check.label!r}")
    found: Counter[str] = Counter()
    for phase in phases:
        for row in figures.api(phase, "operator").rows:
            if row.category == "object" and _wrong(row, check.kind):
                found[f"{row.code} for {row.verb} {row.resource}"] += row.count
    return found


def _wrong(row: ApiRow, kind: str) -> bool:
    return row.code >= 400 if kind == "all" else row.code in _CODES[kind]
