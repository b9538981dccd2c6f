"""Disruptions of a phase: the control plane, the recorder, a source or the machine failed while it was measured.

A stopped operator counts, too: no program stops itself. A restarted one does not: the test or the operator itself
restarts it, which is part of the measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Literal, NamedTuple

from .. import durations
from ..recording.conditions import watches
from ..recording.records import WRITES, IncidentKind, Stalled, StallKind, WatchGap
from .api_requests import HARNESS
from .metrics.counters import PROCESS_START, restarts
from .phase_result import Disruption, DisruptionKind, IncidentResult, MilestoneResult
from .recording_index import Contents, PhaseSpan, WatchStory
from .result import OPERATOR, WatchResult

_CLOSED = {
    "controller-gone": "the test process ended before it closed the recording",
    "interrupted": "the recording was interrupted",
    "journal-full": "the recording ends early: the journal could not be written any more",
    "failed": "the recorder failed",
}


_ENDS_BEFORE = "the recording ends before the phase does"


def early_end(closed: str, message: str) -> str:
    """Return a sentence that a recording ends early since it could not be written, and why; empty for any other end.

    ``closed`` and ``message`` are those of its ``Closed`` record.
    """
    if closed != "journal-full":
        return ""
    return _CLOSED[closed] + (f": {message}" if message else "")


def after_early_end(contents: Contents, phase: PhaseSpan, missing: Mapping[str, str]) -> dict[str, str]:
    """Return figure → why it was not measured; first, if so, that the recording's early end truncated the phase.

    The other reasons mostly follow from it.
    """
    closed = contents.closed
    early = early_end(closed.reason, closed.message) if closed is not None and phase.ended is None else ""
    if not early:
        return dict(missing)
    return {figure: early if why == _ENDS_BEFORE else f"{early}; {why}" for figure, why in missing.items()}


def watch_results(contents: Contents) -> tuple[WatchResult, ...]:
    """Return a row per watch, in the order of their opening."""
    return tuple(
        WatchResult(
            watch=watch,
            resource=story.opened.spec.resource,
            objects=story.live.objects if story.live is not None else 0,
            events=story.events,
            cuts=len(story.cuts),
            cut_s=sum(cut.length_ns for cut in story.cuts) / 1e9,
            gaps=len(story.gaps),
            gap_s=sum(gap.length_ns for gap in story.gaps) / 1e9,
        )
        for watch, story in contents.watches.items()
    )


def audit_hole(contents: Contents, phase: PhaseSpan) -> str:
    """Return why the audit log does not cover a phase from end to end; empty when it does.

    The recorder reads the log up to a request of its own at each phase's end, and journals a failure when that request
    never shows up. So the absence of a failure means that all of the log was read.
    """
    if not contents.opened.audited:
        return "this cluster's audit log is no source of the recording"
    if phase.ended is None:
        return _ENDS_BEFORE
    for failure in contents.failures:
        if failure.source != "audit":
            continue
        after = failure.at > phase.ended.at and _read_up_to(contents, phase.ended.at, before=failure.at)
        mended = failure.at < phase.start and _read_again(contents, failure.at, phase.start)
        if not after and not mended:
            return f"the audit log broke off: {failure.message}"
    return ""


def warnings(contents: Contents) -> tuple[str, ...]:
    """Return all warnings that a reader of the figures needs, each once, in the order of the recording."""
    texts: list[str] = []
    if contents.closed is None:
        texts.append("the recording does not say how it ended: it is still running, or its recorder was killed")
    elif contents.closed.reason in _CLOSED:
        message = f": {contents.closed.message}" if contents.closed.message else ""
        texts.append(_CLOSED[contents.closed.reason] + message)
    texts += [
        f"{failure.source} broke off{_during(contents, failure.at)}: {failure.message}" for failure in contents.failures
    ]
    texts += [text for watch in contents.watches.values() for text in _gap_texts(contents, watch)]
    texts += [
        f"{process} (pid {gone.pid}) ended in {name}"
        for process, ends in contents.gone.items()
        for gone in ends
        if (name := contents.phase_at(gone.at))
    ]
    before = 0
    for step in contents.clock.steps:
        moved = (step.offset_ns - before) / 1e9
        before = step.offset_ns
        texts.append(
            f"the wall clock was set by {moved:+.3g} s{_during(contents, step.at)};"
            " server times close to it are that uncertain"
        )
    texts += contents.doubts
    return tuple(dict.fromkeys(texts))


def _gap_texts(contents: Contents, story: WatchStory) -> list[str]:
    resource = story.opened.spec.resource
    return [
        f"the watch on {resource} has a gap of {durations.text(gap.length_ns / 1e9)}"
        f"{_during(contents, gap.at)}: {gap.reason}"
        for gap in story.gaps
    ]


def _during(contents: Contents, at: int) -> str:
    name = contents.phase_at(at)
    return f" in {name}" if name else ""


def _read_up_to(contents: Contents, moment: int, *, before: int) -> bool:
    """Return whether the log had been read past a moment before another one."""
    offset = contents.clock.offset(moment)
    return any(
        request.received_wall - offset >= moment for request in reversed(contents.requests) if request.at < before
    )


def _read_again(contents: Contents, failed_at: int, by: int) -> bool:
    """Return whether the log was read again after a failure and before a moment."""
    return any(failed_at < request.at <= by for request in reversed(contents.requests))


_KINDS: dict[str, IncidentKind] = {"kube-apiserver": "api-server-restart", "containerd": "node-restart"}
"""Process → the kind of incident that its restart is. In a node that is a container, containerd runs the others: it
ends only with the node."""

_REPORTED_WITHIN_NS = 5_000_000_000
"""The API reports a container's restart some time after its process has started: a kubelet looks once a second."""

CONTROL_PLANE = (
    "kube-apiserver",
    "etcd",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "kubelet",
    "containerd",
)
"""Processes whose exit disrupts every measurement. In a node that is a container, containerd runs the others."""

RECORDER, MACHINE, AUDIT = "recorder", "machine", "audit log"

_STALLING = (*CONTROL_PLANE, RECORDER, MACHINE, OPERATOR, HARNESS)
"""Processes whose stalls count; a stopped Prometheus, for example, changes no figure."""

_RECOVERY_NS = 10_000_000_000
"""A server that stops answering this soon after its restart is still starting."""

SEEN_WITHIN_NS = 300_000_000
"""A read this soon after a stall of the recorder was due during the stall."""

_SPEAKS_FOR = {"etcd": ("etcd", "kube-apiserver")}
"""Process → processes whose answers show that it works; by default its own."""

_ALL = ("duration", "CPU", "API traffic", "reconciles", "samples")

_CLOCK_SLACK_NS = 1_000_000_000


class Happened(NamedTuple):
    """One incident, at a moment of the recorder's clock, ns."""

    at: int
    kind: IncidentKind
    subject: str
    detail: str = ""


def incidents_of(contents: Contents) -> list[Happened]:
    """Return all incidents of a recording, in order."""
    journaled = [Happened(one.at, one.kind, one.subject, one.detail) for one in contents.incidents]
    return sorted([*journaled, *_of_processes(contents), *_of_targets(contents)])


def incidents_of_phase(
    contents: Contents, phase: PhaseSpan, happened: Sequence[Happened]
) -> tuple[IncidentResult, ...]:
    """Return the incidents from a phase's start to its end; its last scrapes may still reveal some.

    ``happened``: all of the recording.
    """
    end = max(contents.end_of(phase), *(snapshot.at for snapshot in phase.scrape_end.values()), phase.start)
    return tuple(
        IncidentResult(kind=one.kind, subject=one.subject, detail=one.detail, after_s=(one.at - phase.start) / 1e9)
        for one in happened
        if phase.start <= one.at <= end
    )


def _of_processes(contents: Contents) -> Iterator[Happened]:
    """Yield each process that was measured under the name of an earlier one."""
    for process, reads in contents.reads.items():
        for before, after in pairwise(reads):
            if before.pid != after.pid and not _reported(contents, process, before.at, after.at):
                yield Happened(after.at, _kind(process), process, f"pid {before.pid} → {after.pid}")


def _of_targets(contents: Contents) -> Iterator[Happened]:
    """Yield each restart that only a target's metrics reveal, at the first scrape after it."""
    for before, after, name in restarts_in_metrics(contents):
        if not _reported(contents, name, before, after):
            yield Happened(after, _kind(name), name, "by the time of its start in its metrics")


def restarts_in_metrics(contents: Contents) -> Iterator[tuple[int, int, str]]:
    """Yield each restart of a target whose process is not measured: last scrape before, first after, its name."""
    for name, target in contents.metrics.targets.items():
        if contents.reads.get(name) or PROCESS_START not in target.series:
            continue
        for scrape in sorted(restarts(target)):
            yield target.moments[scrape - 1].at, target.moments[scrape].at, name


def _reported(contents: Contents, name: str, before: int, after: int) -> bool:
    """Return whether journaled events of a program's pods already explain the process change."""
    return any(
        one.subject.partition("/")[0] == name and before - _REPORTED_WITHIN_NS <= one.at <= after + _REPORTED_WITHIN_NS
        for one in contents.incidents
    )


def _kind(name: str) -> IncidentKind:
    return _KINDS.get(name, "process-restart")


class _Span(NamedTuple):
    """An interval, ns of the recorder's clock; ``end`` None: it lasted beyond the recording."""

    start: int
    end: int | None
    kind: DisruptionKind
    subject: str
    how: StallKind | Literal[""] = ""
    """Kind of a stall; empty for all others."""
    length_ns: int = 0


def disruptions_of_phase(
    contents: Contents, phase: PhaseSpan, milestones: Sequence[MilestoneResult], *, hole: str
) -> tuple[Disruption, ...]:
    """Return the disruptions of a phase, from its first edge to its last, in order.

    ``hole``: why the audit log does not cover it, as `recording_gaps.audit_hole`.
    """
    first = min([phase.start, *(read.at for read in phase.cpu_start.values())])
    last = max([contents.end_of(phase), *(snapshot.at for snapshot in phase.scrape_end.values())])
    outages = list(_outages(contents))
    spans = [*outages, *_stalls(contents, outages), *_gaps(contents, phase)]
    overlapping = [span for span in spans if span.start <= last and (span.end is None or span.end >= first)]
    disruptions = [
        _disruption(span, phase, milestones, last) for span in sorted(overlapping, key=lambda span: span.start)
    ]
    if contents.opened.audited and hole and phase.ended is not None:
        disruptions.append(_audit_gap(contents, phase, hole))
    return tuple(disruptions)


def _outages(contents: Contents) -> Iterator[_Span]:
    """Yield the outages of control plane components, from each exit of a process to its next start."""
    for process in CONTROL_PLANE:
        lives: dict[int, list[int]] = {}
        for read in contents.reads.get(process, ()):
            lives.setdefault(read.pid, []).append(read.at)
        ends = {gone.pid: gone.at for gone in contents.gone.get(process, ())}
        pids = list(lives)
        for pid, following in zip_longest(pids, pids[1:]):
            if following is not None:
                began = lives[following][0]
                yield _Span(min(ends.get(pid, lives[pid][-1]), began), began, "component-restart", process)
            elif pid in ends:
                yield _Span(ends[pid], None, "component-exit", process)
    for one in contents.incidents:
        if one.kind in ("api-server-restart", "node-restart"):
            yield _Span(one.at, one.at, "component-restart", one.subject)
    yield from _restarts_in_metrics(contents)


def _restarts_in_metrics(contents: Contents) -> Iterator[_Span]:
    """Yield restarts of components without processes on this machine, by the start time that they serve."""
    for before, after, name in restarts_in_metrics(contents):
        if name in CONTROL_PLANE:
            yield _Span(before, after, "component-restart", name)


def _stalls(contents: Contents, outages: Sequence[_Span]) -> Iterator[_Span]:
    """Yield stalls, except those that a stop or a restart explains.

    It explains stalls of the same process and, where etcd is stopped, of the API server, which forwards requests to
    etcd.
    """
    stalls = [one for one in contents.stalls.values() if one.process in _STALLING]
    stopped = [(one.process, one.began, _end(one)) for one in stalls if one.kind == "stopped"]
    down = [(one.subject, one.start, None if one.end is None else one.end + _RECOVERY_NS) for one in outages]
    for one in stalls:
        explained = (
            name in _SPEAKS_FOR.get(one.process, (one.process,))
            and began <= _end(one)
            and (ended is None or one.began <= ended)
            for name, began, ended in (*stopped, *down)
        )
        if one.kind == "silent" and any(explained):
            continue
        kind: DisruptionKind = "busy-recorder" if one.kind == "busy" else "stall"
        yield _Span(one.began, _end(one), kind, one.process, one.kind, one.length_ns)


def _end(stall: Stalled) -> int:
    # The recorder's clock does not count the time in which the machine is suspended.
    return stall.at if stall.kind == "suspended" else stall.began + stall.length_ns


def _gaps(contents: Contents, phase: PhaseSpan) -> Iterator[_Span]:
    """Yield the gaps of watches that may have hidden events that a milestone of the phase waited for.

    A milestone met before the gap is not affected.
    """
    for story in contents.watches.values():
        for gap in story.gaps:
            start = gap.at - gap.length_ns
            waiting = any(
                story.opened.spec.same_objects(spec)
                for name, declared in phase.declared.items()
                if (met := phase.met.get(name)) is None or met.at >= start
                for spec in watches(declared.condition)
            )
            if waiting and _may_have_missed(contents, phase, story, gap):
                yield _Span(start, gap.at, "watch-gap", story.opened.spec.resource, "", gap.length_ns)


def _may_have_missed(contents: Contents, phase: PhaseSpan, story: WatchStory, gap: WatchGap) -> bool:
    """Return whether objects may have changed during a watch's gap: yes, unless a complete audit log shows no write."""
    if audit_hole(contents, phase):
        return True
    resource = story.opened.spec.resource
    offset = contents.clock.offset(gap.at)
    low, high = gap.at - gap.length_ns - _CLOCK_SLACK_NS, gap.at + _CLOCK_SLACK_NS
    return any(
        request.verb in WRITES
        and 200 <= request.code < 300
        and request.qualified == resource
        and request.received_wall - offset <= high
        and request.completed_wall - offset >= low
        for request in contents.requests
    )


def _audit_gap(contents: Contents, phase: PhaseSpan, hole: str) -> Disruption:
    at = next((failure.at for failure in contents.failures if failure.source == "audit"), phase.start)
    return Disruption(
        kind="audit-gap",
        subject=AUDIT,
        from_s=(at - phase.start) / 1e9,
        text=f"in {phase.name}, {hole}",
        uncertain=("API traffic", "milestones by the API server's clock"),
    )


def _disruption(span: _Span, phase: PhaseSpan, milestones: Sequence[MilestoneResult], last: int) -> Disruption:
    over = span.end is not None and span.end <= last
    kind = "component-exit" if span.kind == "component-restart" and not over else span.kind
    return Disruption(
        kind=kind,
        subject=span.subject,
        from_s=(span.start - phase.start) / 1e9,
        to_s=(span.end - phase.start) / 1e9 if over and span.end is not None else None,
        text=_text(span, phase, over=over),
        uncertain=_uncertain(span, phase, milestones, last),
    )


def _text(span: _Span, phase: PhaseSpan, *, over: bool) -> str:
    before = span.start < phase.start
    into = f"{_seconds(max(0, span.start - phase.start))} into {phase.name}"
    match span.kind:
        case "component-restart" | "component-exit" if before and span.end is not None and over:
            return f"{span.subject} was not running for the first {_seconds(span.end - phase.start)} of {phase.name}"
        case "component-restart" | "component-exit" if before:
            return f"{span.subject} was not running in {phase.name}"
        case "component-restart" if over:
            return f"{span.subject} was restarted {into}"
        case "component-restart" | "component-exit":
            return f"{span.subject} ended {into}, and was not started again in it"
        case "watch-gap":
            where = "that began before" if before else into
            return f"the watch on {span.subject} missed what happened in {_seconds(span.length_ns)}, {where}"
        case _:
            where = f"before and in {phase.name}" if before else into
            return f"{stall_text(span.subject, span.how)} for {_seconds(span.length_ns)}, {where}"


def stall_text(process: str, kind: StallKind | Literal[""]) -> str:
    """Return a process's stall in words: ``kube-apiserver did not answer``."""
    subject = f"the {process}" if process in (RECORDER, MACHINE, OPERATOR, HARNESS) else process
    match kind:
        case "late":
            return f"{subject} did not run"
        case "busy":
            return f"{subject} was late, busy or without a core,"
        case "stopped":
            return f"{subject} was stopped"
        case "suspended":
            return f"{subject} was suspended"
        case _:
            return f"{subject} did not answer"


def _uncertain(span: _Span, phase: PhaseSpan, milestones: Sequence[MilestoneResult], last: int) -> tuple[str, ...]:
    """Return the figures of the phase that a disruption may have changed."""
    end = last if span.end is None else span.end
    if span.kind == "watch-gap":
        return tuple(f"milestone {milestone.name}" for milestone in _late(span, phase, milestones))
    if span.subject != RECORDER:
        return (*(f"milestone {milestone.name}" for milestone in _late(span, phase, milestones)), *_ALL)
    figures = []
    for milestone in milestones:
        if milestone.observed_s is None or not _within(phase.start + milestone.observed_s * 1e9, span.start, end):
            continue
        name = f"milestone {milestone.name} as the recorder saw it"
        if milestone.server_s is not None:
            name += f" ({milestone.observed_s:.3g} s; {milestone.server_s[1]:.3g} s by the API server's clock stands)"
        figures.append(name)
    if phase.ended is not None and any(_within(read.at, span.start, end) for read in phase.cpu_end.values()):
        figures += ["duration", "CPU at its end"]
    if any(_within(read.at, span.start, end) for read in phase.cpu_start.values()):
        figures.append("CPU at its start")
    low, high = max(0.0, (span.start - phase.start) / 1e9), max(0.0, (min(end, last) - phase.start) / 1e9)
    return (*figures, f"samples from {low:.1f} s to {high:.1f} s")


def _late(span: _Span, phase: PhaseSpan, milestones: Sequence[MilestoneResult]) -> list[MilestoneResult]:
    """Return the milestones that were not met before a disruption began."""
    return [m for m in milestones if m.observed_s is None or phase.start + m.observed_s * 1e9 >= span.start]


def _within(at: float, start: int, end: int) -> bool:
    return start < at <= end + SEEN_WITHIN_NS


def _seconds(length_ns: int) -> str:
    return f"{length_ns / 1e9:.1f} s"
