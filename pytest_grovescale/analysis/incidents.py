"""Incidents of a phase, from journaled events, from processes and from metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..recording.records import IncidentKind
from .contents import Contents, PhaseSpan
from .metrics.counters import PROCESS_START, restarts
from .result import IncidentResult

_KINDS: dict[str, IncidentKind] = {"kube-apiserver": "api-server-restart", "containerd": "node-restart"}
"""Process → the kind of incident that its restart is. In a node that is a container, containerd runs the others: it
ends only with the node."""

_TOLD_WITHIN_NS = 5_000_000_000
"""The API reports a container's restart some time after its process has started: a kubelet looks once a second."""


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
            if before.pid != after.pid and not _told(contents, process, before.at, after.at):
                yield Happened(after.at, _kind(process), process, f"pid {before.pid} → {after.pid}")


def _of_targets(contents: Contents) -> Iterator[Happened]:
    """Yield each restart that only a target's metrics reveal, at the first scrape after it."""
    for before, after, name in restarts_in_metrics(contents):
        if not _told(contents, name, before, after):
            yield Happened(after, _kind(name), name, "by the time of its start in its metrics")


def restarts_in_metrics(contents: Contents) -> Iterator[tuple[int, int, str]]:
    """Yield each restart of a target whose process is not measured: last scrape before, first after, its name."""
    for name, target in contents.metrics.targets.items():
        if contents.reads.get(name) or PROCESS_START not in target.series:
            continue
        for scrape in sorted(restarts(target)):
            yield target.moments[scrape - 1].at, target.moments[scrape].at, name


def _told(contents: Contents, name: str, before: int, after: int) -> bool:
    """Return whether journaled events of a program's pods already explain the process change."""
    return any(
        one.subject.partition("/")[0] == name and before - _TOLD_WITHIN_NS <= one.at <= after + _TOLD_WITHIN_NS
        for one in contents.incidents
    )


def _kind(name: str) -> IncidentKind:
    return _KINDS.get(name, "process-restart")
