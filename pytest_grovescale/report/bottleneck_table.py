"""Time attribution: a line for each phase, and the table behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..analysis.bottlenecks.attribution import ACROSS
from ..analysis.controller_result import WorkerRow
from ..analysis.phase_result import BottleneckRow, PhaseResult, Suspect
from ..analysis.result import Evidence, StackGroup
from ..recording.records import STACKS
from .document import Block, Column, Heading, Item, Line, Table, Tone, cell
from .format import NONE, count, percent, seconds, three

NAMES: Mapping[Suspect, str] = {
    "operator-cpu": "operator, CPU used",
    "operator-core-wait": "operator, waiting for a core",
    "operator-api": "operator, waiting for its requests",
    "operator-idle": "operator, idle while it was waited for",
    "operator-rate-limit": "operator, client-side rate limit",
    "api-server-core-wait": "API server, waiting for a core",
    "scheduler": "scheduler",
    "scheduler-core-wait": "scheduler, waiting for a core",
    "kwok": "simulated kubelet (kwok)",
    "kwok-core-wait": "simulated kubelet (kwok), waiting for a core",
    "containers": "containers running, as simulated",
    "garbage-collector": "garbage collector",
    "namespace-controller": "namespace controller",
    "deployment-controller": "Deployment controller",
    "replicaset-controller": "ReplicaSet controller",
    "statefulset-controller": "StatefulSet controller",
    "daemonset-controller": "DaemonSet controller",
    "job-controller": "Job controller",
    "cronjob-controller": "CronJob controller",
    "endpointslice-controller": "EndpointSlice controller",
    "workload-controllers": "workload controllers",
    "controller-manager-core-wait": "controller manager, waiting for a core",
    "held": "held by the test after its milestones",
    "unattributed": "unattributed",
    "operator-queue": "work-queue wait (upper bound)",
    "api-server": "API server CPU-bound",
    "machine": "machine saturated",
}
"""Labels of the suspects, in display order."""

_SHOWN = 0.005
"""Rows with less than this share in every phase are left out."""


def answers(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield one line for each phase that has one."""
    for phase in phases:
        if phase.bottleneck:
            yield Line(f"Where the time of {phase.name} went: {phase.bottleneck}")


def bottlenecks(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield the attribution rows, which add up to each phase, and below them the contributing factors."""
    with_rows = [phase for phase in phases if phase.bottlenecks]
    if not with_rows:
        return
    rows = _rows(with_rows)
    yield Heading("Where the time went")
    columns = [Column("waited for"), *(Column(phase.name, figures=True) for phase in with_rows)]
    turns = [cells for suspect, cells in rows if suspect not in ACROSS]
    across = [cells for suspect, cells in rows if suspect in ACROSS]
    heading = [["contributing factors (overlapping)", *[""] * len(with_rows)]] if across else []
    tones: list[Tone] = ["" for _ in turns]
    tones += ["quiet" for _ in heading]
    tones += ["" for _ in across]
    yield Table(columns, [*turns, *heading, *across], tones)
    for why, names in _missing(with_rows).items():
        yield Item(f"{', '.join(names)}: {why}", "quiet")


def _rows(phases: Sequence[PhaseResult]) -> list[tuple[Suspect, list[str]]]:
    """Return (suspect, cells) for each suspect with time in some phase."""
    rows: list[tuple[Suspect, list[str]]] = []
    for suspect, name in NAMES.items():
        found = [next((row for row in phase.bottlenecks if row.suspect == suspect), None) for phase in phases]
        if any(row is not None and row.share >= _SHOWN for row in found):
            rows.append((suspect, [name, *map(_cell, found)]))
    return rows


def _cell(row: BottleneckRow | None) -> str:
    return NONE if row is None else f"{seconds(row.seconds)} ({percent(row.share)})"


def _missing(phases: Sequence[PhaseResult]) -> dict[str, list[str]]:
    """Return why → the phases that lack a row for it."""
    found: dict[str, list[str]] = {}
    for phase in phases:
        if why := phase.missing.get("bottlenecks"):
            found.setdefault(why, []).append(phase.name)
    return found


_BUSY_SHARE = 0.5
"""Rows with less are on the page only."""

_GROUPS_SHOWN = 5
"""Groups of equal stacks that are named; result.json has all."""

_HEADINGS = ("workers", "active", "ended", "cores each", "waiting", "longest", "blocked")


def workers(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield the controllers whose workers were busy half of the time or more, or blocked; nothing without any."""
    if busy := [
        (phase, row)
        for phase in phases
        for row in phase.workers
        if row.blocked or (row.active_share or 0.0) >= _BUSY_SHARE
    ]:
        yield Heading("Workers, where most were busy")
        yield from _workers(busy)


def all_workers(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield the workers of every controller, those that were blocked in words too; nothing where none are known."""
    if known := [(phase, row) for phase in phases for row in phase.workers]:
        yield Heading("Workers")
        for phase, row in known:
            if row.blocked:
                yield Line(
                    f"{row.controller}: its workers were blocked for {seconds(row.blocked_s)} of {phase.name}:"
                    " they waited inside reconciles while keys waited for a worker.",
                    "bad",
                )
        yield from _workers(known)
        for phase, row in known:
            if row.problem:
                yield Item(f"{row.controller} in {phase.name}: {row.problem}", "quiet")


def _workers(found: Sequence[tuple[PhaseResult, WorkerRow]]) -> Iterator[Block]:
    columns = [Column("phase"), Column("controller"), *(Column(name, figures=True) for name in _HEADINGS)]
    rows = [[phase.name, row.controller, *_cells(row)] for phase, row in found]
    yield Table(columns, rows, tones=["bad" if row.blocked else "" for _, row in found])
    yield Line(
        "active: share of the workers inside a reconcile; cores each: CPU for each second that a worker was busy;"
        " waiting: keys, at most",
        "quiet",
    )


def _cells(row: WorkerRow) -> list[str]:
    return [
        cell(row.workers, count),
        cell(row.active_share, percent),
        cell(row.finished_per_s, lambda rate: f"{three(rate)}/s"),
        cell(row.cores_per_worker, three),
        cell(row.depth_max, count),
        cell(row.longest_s, seconds),
        cell(None if row.problem else row.blocked_s, seconds),
    ]


def heading(evidence: Evidence) -> str:
    """Return the heading of lines or stacks: ``Stacks of operator in deploy``, ``log:operator in deploy``."""
    process = evidence.source.removeprefix(STACKS)
    what = f"Stacks of {process}" if process != evidence.source else evidence.source
    return what + (f" in {evidence.phase}" if evidence.phase else "")


def stack_lines(stacks: Sequence[StackGroup]) -> Iterator[str]:
    """Yield the places of most stacks of a dump: ``11 of 21 reconcile workers in recorder.RecordErrors (…)``."""
    for group in stacks[:_GROUPS_SHOWN]:
        several = "s" if group.of > 1 else ""
        where = "waiting for a key" if group.waits_for_key else f"in {group.function} ({group.place})"
        state = f", {group.state}" if group.state and not group.waits_for_key else ""
        yield f"{count(group.count)} of {count(group.of)} {group.kind}{several} {where}{state}"
    if rest := stacks[_GROUPS_SHOWN:]:
        number = sum(group.count for group in rest)
        yield f"{count(number)} more in {count(len(rest))} other {'place' if len(rest) == 1 else 'places'}"
