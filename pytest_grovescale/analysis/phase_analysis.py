"""From a recording to everything that was measured in one of its phases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ..recording.records import Mark
from .api_faults import ApiFaults, faults_of_phase
from .api_requests import (
    Traffic,
    api_rows,
    client_requests_of_phase,
    missing_rights,
    triggers_of,
    under_way,
    write_effects,
)
from .audit_times import WriteLog
from .blocked_workers import workers_of_phase
from .bottlenecks.attribution import bottlenecks_of_phase
from .contention import contention_of_phase, saturation_of_phase
from .cpu import cpu_of_phase
from .disruptions import (
    Happened,
    after_early_end,
    audit_hole,
    disruptions_of_phase,
    incidents_of,
    incidents_of_phase,
)
from .milestones import milestones_of_phase
from .phase_result import LateResult, MarkResult, PhaseResult
from .profiles.phase_profiles import profiles_of_phase
from .reconciles import counts_none, reconciles_of_phase
from .recording_index import Contents, PhaseSpan
from .result import OPERATOR

_MAX_RIGHTS = 3
"""Missing rights that a message names."""


class Indexes(NamedTuple):
    """What the phases of a recording have in common, of the whole recording."""

    traffic: Traffic
    log: WriteLog | None
    """None without an audit log."""
    happened: Sequence[Happened]
    faults: ApiFaults


def indexes_of(contents: Contents) -> Indexes:
    """Return what the results of phases are read from, beside a recording's contents."""
    return Indexes(
        traffic=Traffic(contents),
        log=WriteLog(contents.requests, contents.clock) if contents.opened.audited else None,
        happened=incidents_of(contents),
        faults=ApiFaults(contents),
    )


def phase_result(contents: Contents, phase: PhaseSpan, indexes: Indexes) -> PhaseResult:
    """Return everything that was measured in one phase."""
    end = contents.end_of(phase)
    cpu, missing = cpu_of_phase(contents, phase)
    reconciles, why_no_reconciles = reconciles_of_phase(contents, phase)
    workers, why_no_workers = workers_of_phase(contents.metrics.workers, phase.name)
    saturation, why_no_saturation = saturation_of_phase(contents, phase, cpu)
    contention, why_no_contention = contention_of_phase(contents, phase, cpu)
    client_requests, why_not_counted = client_requests_of_phase(contents, phase)
    hole = audit_hole(contents, phase)
    for figure, why in (
        ("audit", hole),
        ("client_requests", why_not_counted),
        ("reconciles", why_no_reconciles),
        ("workers", why_no_workers),
        ("saturation", why_no_saturation),
        ("contention", why_no_contention),
    ):
        if why:
            missing[figure] = why
    profiles, why_not_profiled = profiles_of_phase(contents, phase)
    missing |= why_not_profiled
    bottlenecks = bottlenecks_of_phase(
        contents, phase, indexes.traffic.requests(phase), hole=hole, cpu=cpu, saturation=saturation
    )
    if bottlenecks.missing:
        missing["bottlenecks"] = bottlenecks.missing
    milestones = milestones_of_phase(contents, phase, indexes.log, hole)
    api = api_rows(indexes.traffic.requests(phase), contents.opened.identities)
    rights = missing_rights(indexes.traffic.requests(phase), contents.opened.identities.get(OPERATOR, ""))
    return PhaseResult(
        name=phase.name,
        outcome=phase.ended.outcome if phase.ended is not None else "unfinished",
        message=_message(phase, rights),
        started=iso(phase.start),
        seconds=(end - phase.start) / 1e9,
        timeout_s=phase.started.timeout_ns / 1e9 if phase.started is not None else 0.0,
        hold_s=phase.started.hold_ns / 1e9 if phase.started is not None else 0.0,
        milestones=milestones,
        cpu=cpu,
        api=api,
        missing_rights=rights,
        traffic_source="audit" if not hole else "metrics" if client_requests else "",
        client_requests=client_requests,
        reconciles=reconciles,
        workers=workers,
        series=series_of(phase),
        saturation=saturation,
        contention=contention,
        audit_complete=not hole,
        identities_seen=indexes.traffic.identities_seen(phase),
        triggers=sum(count for _, count in triggers_of(contents, phase)),
        trigger_writes=None if hole else indexes.traffic.trigger_writes(phase),
        under_way=under_way(contents, phase),
        counts_no_reconciles=counts_none(contents, phase),
        written=indexes.traffic.written(phase) if triggers_of(contents, phase) else (),
        write_effects=None if hole else write_effects(contents, phase, indexes.traffic.requests(phase)),
        late=late_of_phase(phase),
        marks=marks_of_phase(contents, phase),
        incidents=incidents_of_phase(contents, phase, indexes.happened),
        disruptions=disruptions_of_phase(contents, phase, milestones, hole=hole),
        faults=faults_of_phase(contents, phase, milestones, indexes.faults, logged=not hole),
        profiled=contents.opened.profiled,
        profiles=profiles,
        bottlenecks=bottlenecks.rows,
        bottleneck=bottlenecks.line,
        idle_twin=idle_twin_of(contents, phase),
        missing=after_early_end(contents, phase, missing),
    )


def _message(phase: PhaseSpan, rights: Sequence[str]) -> str:
    """Return why a phase did not pass. A right that the operator lacks comes first: what is awaited depends on it."""
    if phase.ended is None:
        return ""
    is_cause = rights and phase.ended.outcome == "timeout"
    return f"{no_right(rights)}: {phase.ended.message}" if is_cause else phase.ended.message


def no_right(rights: Sequence[str]) -> str:
    """Return which rights the operator lacks, the first few; ``rights``: one or more, as of `missing_rights`."""
    return f"the operator has no right to {', '.join(rights[:_MAX_RIGHTS])}"


def series_of(phase: PhaseSpan) -> int | None:
    """Return how many series the operator served at a phase's end; None when it was not scraped then."""
    end = phase.scrape_end.get(OPERATOR)
    return None if end is None else end.served


def idle_twin_of(contents: Contents, phase: PhaseSpan) -> str:
    """Return the name of the phase that was recorded as this one's idle twin; empty without one."""
    twins = (other.name for other in contents.phases if other.started and other.started.twin_of == phase.name)
    return next(twins, "")


def late_of_phase(phase: PhaseSpan) -> tuple[LateResult, ...]:
    """Return the objects that kept a milestone of a phase from being met, in the recorder's order."""
    return tuple(
        LateResult(
            milestone=late.milestone,
            object=late.object,
            owner=late.owner,
            reason=late.reason,
            events=tuple(late.events),
        )
        for late in phase.late
    )


def marks_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[MarkResult, ...]:
    """Return the harness's actions in a phase; a begin and the next end of the same label are one entry."""
    end = contents.end_of(phase)
    marks = [mark for mark in contents.marks if phase.start <= mark.at <= end]
    return tuple(
        MarkResult(
            label=mark.label,
            started_s=(mark.at - phase.start) / 1e9,
            ended_s=_ended(marks[index + 1 :], mark, phase.start),
            detail=mark.detail,
            count=mark.count,
        )
        for index, mark in enumerate(marks)
        if mark.state != "end"
    )


def _ended(later: list[Mark], begin: Mark, start: int) -> float | None:
    if begin.state != "begin":
        return None
    end = next((mark for mark in later if mark.label == begin.label and mark.state == "end"), None)
    return None if end is None else (end.at - start) / 1e9


def iso(at: int) -> str:
    """Return ns since the epoch as ISO 8601, UTC, to the millisecond: ``2026-01-31T12:00:00.000Z``."""
    seconds, rest = divmod(at, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
