"""The rows of the time table: who was waited for, the contributing factors, and the line that sums them up."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...recording.records import Request
from ..api_requests import SYSTEM_ACCOUNTS, roles
from ..controller_result import Saturation
from ..cpu import API_SERVER, Demand, Window, api_server_seconds, demands, windows_of
from ..phase_result import BottleneckRow, CpuResult, Suspect
from ..recording_index import Contents, PhaseSpan
from ..result import OPERATOR
from .object_waits import Waits, arrived, waits_of_phase
from .operator_activity import (
    LIMITER,
    QUEUED,
    WORKERS,
    Activity,
    Sent,
    activity,
    backlog,
    limited_seconds,
    limited_shares,
    requests_of_client,
    sent,
    spans_of,
    without_limited,
)
from .rate_limit import Spell, limited_spells, shares_of
from .wait_graph import COLLECTOR, CONTROLLERS, MANAGER, SERVER, Taken, take_out, turns

WORDS: Mapping[Suspect, str] = {
    "operator-cpu": "operator using CPU",
    "operator-core-wait": "operator waiting for a core",
    "operator-queue": "work-queue wait (upper bound)",
    "operator-rate-limit": "operator held by its client-side rate limit",
    "operator-api": "operator waiting for its requests",
    "operator-idle": "operator idle while it was waited for",
    "api-server": "API server CPU-bound",
    "api-server-core-wait": "API server waiting for a core",
    "scheduler": "pods waiting for the scheduler",
    "scheduler-core-wait": "scheduler waiting for a core",
    "kwok": "pods waiting for the simulated kubelet (kwok)",
    "kwok-core-wait": "simulated kubelet (kwok) waiting for a core",
    "containers": "containers running (simulated)",
    "garbage-collector": "objects waiting for the garbage collector",
    "namespace-controller": "objects waiting for the namespace controller",
    "deployment-controller": "objects waiting for the Deployment controller",
    "replicaset-controller": "objects waiting for the ReplicaSet controller",
    "statefulset-controller": "objects waiting for the StatefulSet controller",
    "daemonset-controller": "objects waiting for the DaemonSet controller",
    "job-controller": "objects waiting for the Job controller",
    "cronjob-controller": "objects waiting for the CronJob controller",
    "endpointslice-controller": "objects waiting for the EndpointSlice controller",
    "workload-controllers": "objects waiting for Kubernetes' workload controllers",
    "controller-manager-core-wait": "controller manager waiting for a core",
    "machine": "machine saturated",
    "held": "held by the test after its milestones",
    "unattributed": "unattributed",
}

ACROSS: frozenset[Suspect] = frozenset({"operator-queue", "api-server", "machine"})
"""Contributing factors: they overlap with the rows that add up to the phase."""

AT_MOST: frozenset[Suspect] = frozenset({"operator-queue"})
"""Rows that are upper bounds."""

_SHOWN = 3

_ROLES: Mapping[str, Suspect] = {"kube-scheduler": "scheduler", "kwok": "kwok"}
"""Role of an identity → suspect. The controller manager's is one of several, by what it does or who of it does it."""

_USERS: Mapping[str, str] = {
    "system:kube-scheduler": "scheduler",
    "system:kube-controller-manager": MANAGER,
    f"{SYSTEM_ACCOUNTS}kwok-controller": "kwok",
    f"{SYSTEM_ACCOUNTS}generic-garbage-collector": COLLECTOR,
    f"{SYSTEM_ACCOUNTS}pod-garbage-collector": COLLECTOR,
    f"{SYSTEM_ACCOUNTS}namespace-controller": "namespace-controller",
    f"{SYSTEM_ACCOUNTS}deployment-controller": "deployment-controller",
    f"{SYSTEM_ACCOUNTS}replicaset-controller": "replicaset-controller",
    f"{SYSTEM_ACCOUNTS}statefulset-controller": "statefulset-controller",
    f"{SYSTEM_ACCOUNTS}daemon-set-controller": "daemonset-controller",
    f"{SYSTEM_ACCOUNTS}job-controller": "job-controller",
    f"{SYSTEM_ACCOUNTS}cronjob-controller": "cronjob-controller",
    f"{SYSTEM_ACCOUNTS}endpointslice-controller": "endpointslice-controller",
}
"""Default user names of the components and of the controller manager's controllers, where each of them has an identity
(``--use-service-account-credentials``) → actor."""

_CONTROLLER = re.compile(rf"{SYSTEM_ACCOUNTS}([\w-]+-controller|horizontal-pod-autoscaler|persistent-volume-binder)")
"""All such controllers: those without a row of their own share one."""

_OF_MANAGER: tuple[Suspect, ...] = (
    "garbage-collector",
    "namespace-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "endpointslice-controller",
    "workload-controllers",
)

_EVIDENCE: Mapping[Suspect, str] = {
    "scheduler": "pods until their binding was answered, by the audit log",
    "kwok": "objects until kwok's write to them was answered, by the audit log",
    "containers": "pods from their start until kwok wrote their end, by the audit log",
    **dict.fromkeys(_OF_MANAGER, "objects until the controller's write to them was answered, by the audit log"),
    "garbage-collector": "objects until the controller manager's deletion of them was answered, by the audit log",
    "workload-controllers": "objects until the controller manager had made or changed them, by the audit log",
}

_PROCESS_OF: Mapping[str, str] = dict.fromkeys(_OF_MANAGER, MANAGER)
"""Actor → the process that does its work, if others share it."""

_PROCESSES: Mapping[str, tuple[str, ...]] = {
    OPERATOR: (OPERATOR,),
    "scheduler": ("kube-scheduler",),
    "kwok": ("kwok",),
    MANAGER: (MANAGER,),
    SERVER: (API_SERVER, "etcd"),
}
"""Actor, or process that several share → the processes whose CPU clocks are its own."""

_CORE_WAITS: Mapping[str, Suspect] = {
    OPERATOR: "operator-core-wait",
    "scheduler": "scheduler-core-wait",
    "kwok": "kwok-core-wait",
    MANAGER: "controller-manager-core-wait",
    SERVER: "api-server-core-wait",
}

_LEAST_S = 0.005

_IN_LINE = 3

_LEAST_SHARE = 0.1


class Bottlenecks(NamedTuple):
    """A phase's table, largest row first, its summary line, and why rows are missing from it."""

    rows: tuple[BottleneckRow, ...] = ()
    line: str = ""
    missing: str = ""


def bottlenecks_of_phase(
    contents: Contents,
    phase: PhaseSpan,
    requests: Sequence[Request],
    *,
    hole: str,
    cpu: Sequence[CpuResult],
    saturation: Saturation | None,
) -> Bottlenecks:
    """Return the bottlenecks of a phase. ``requests``: the phase's; ``hole``: why the audit log does not cover it."""
    waits = waits_of_phase(contents, phase)
    if waits is None or contents.end_of(phase) <= phase.start:
        return Bottlenecks(missing="no milestone of the phase depends on objects")
    rows = [] if hole else attribution_rows(contents, phase, waits, requests)
    rows += contributing_factors(contents, phase, cpu, saturation)
    rows.sort(key=lambda one: (-one.seconds, one.suspect))
    missing = [f"attribution is undetermined: {hole}"] if hole else []
    missing += _without_source(rows, contents, hole=hole)
    return Bottlenecks(tuple(rows), line_of(rows, phase.name), "; ".join(missing))


def line_of(rows: Iterable[BottleneckRow], phase: str) -> str:
    """Return the largest rows in words: ``operator CPU-bound 58 % of deploy; API server CPU-bound 41 %``.

    Upper bounds come last, whatever their size.
    """
    parts: list[str] = []
    for one in sorted(rows, key=lambda row: (row.suspect in AT_MOST, -row.seconds, row.suspect)):
        if one.share >= _LEAST_SHARE and len(parts) < _IN_LINE:
            parts.append(f"{WORDS[one.suspect]} {one.share * 100:.0f} %" + ("" if parts else f" of {phase}"))
    return "; ".join(parts)


def _without_source(rows: Sequence[BottleneckRow], contents: Contents, *, hole: str) -> list[str]:
    """Return which rows are missing, with the source that each of them lacks."""
    have = {one.suspect for one in rows}
    lacking: list[str] = []
    if OPERATOR in contents.opened.identities:
        if not hole and "operator-cpu" not in have:
            lacking.append("operator-cpu: its CPU clock does not span the phase")
        if not hole and "operator-core-wait" not in have:
            lacking.append("operator-core-wait: the recording does not have how long its threads waited for a core")
        if not hole and "operator-rate-limit" not in have:
            lacking.append(
                f"operator-rate-limit: the operator's metrics have no {LIMITER}, and no flow of its requests is flat"
            )
        if "operator-queue" not in have:
            lacking.append(f"operator-queue: the operator's metrics lack {QUEUED} or {WORKERS}")
    if "api-server" not in have:
        lacking.append("api-server: its CPU clock does not span the phase")
    return lacking


def attribution_rows(
    contents: Contents, phase: PhaseSpan, waits: Waits, requests: Sequence[Request]
) -> list[BottleneckRow]:
    """Return a row for each actor that the phase's objects waited for.

    ``requests``: the phase's, from the audit log.
    """
    clocked = windows_of(contents, phase, OPERATOR)
    windows = clocked or windows_of(contents, phase, API_SERVER) or [Window(phase.start, contents.end_of(phase))]
    way = sent(requests, contents.opened.identities.get(OPERATOR, ""), contents.clock, requests_of_client(phase))
    actors = _actors(contents, {one.user for one in requests} | {wait.user for of in waits for wait in of})
    demand_of = _demands(contents, phase, windows)
    split = turns(waits, actors, _in_flight(contents, requests, actors, way), windows)
    limited_s = limited_seconds(phase)
    spells = limited_spells(contents, phase, requests, way.spans) if limited_s is None else []
    shares = limited_shares(split, limited_s) if limited_s is not None else shares_of(spells, windows)
    unlimited, limit = without_limited(split, shares)
    taken = take_out(unlimited, demand_of, _PROCESS_OF)
    rest = activity(
        taken.turns, requests_s=way.seconds, limited_s=None if limited_s is None else max(0.0, limited_s - limit)
    )
    known = limited_s is not None or bool(spells)
    mine = rest._replace(limited=limit + (rest.limited or 0.0) if known else None)
    length = sum(window.ns for window in windows) / 1e9
    rows = _of_operator(mine, taken, way, spells, length) if OPERATOR in contents.opened.identities else []
    rows += _core_waits(taken, demand_of, length)
    passed = phase.ended is not None and phase.ended.outcome == "passed"
    after_s = (contents.end_of(phase) - arrived(contents, phase)) / 1e9 if passed else 0.0
    return [*rows, *_of_others(taken, mine, length, contents, after_s)]


def _actors(contents: Contents, users: Iterable[str]) -> dict[str, str]:
    """Return user → actor, of a phase's users; a role that is no suspect keeps its name."""
    actors: dict[str, str] = {user: CONTROLLERS for user in users if _CONTROLLER.fullmatch(user)} | dict(_USERS)
    actors |= {user: _ROLES.get(role, role) for user, role in roles(contents.opened.identities).items()}
    return actors


def _demands(contents: Contents, phase: PhaseSpan, windows: Sequence[Window]) -> dict[str, list[Demand]]:
    """Return process of _PROCESSES → its demand in each window, where its CPU clocks span the phase."""
    by_actor: dict[str, list[Demand]] = {}
    for actor, processes in _PROCESSES.items():
        for process in processes:
            if windows_of(contents, phase, process):
                of_process = demands(contents.reads[process], windows)
                before = by_actor.get(actor)
                by_actor[actor] = [a.plus(b) for a, b in zip(before, of_process, strict=True)] if before else of_process
    return by_actor


def _in_flight(
    contents: Contents, requests: Sequence[Request], actors: Mapping[str, str], way: Sent
) -> dict[str, list[tuple[int, int]]]:
    """Return actor → when its requests were under way."""
    by_actor: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for user in {request.user for request in requests}:
        if (actor := actors.get(user, user)) != OPERATOR:
            by_actor[actor] += spans_of(requests, user, contents.clock)
    # One user for all controllers may be any of the two.
    of_all = by_actor.pop(MANAGER, [])
    by_actor[COLLECTOR] += of_all
    by_actor[CONTROLLERS] += of_all
    return {**by_actor, OPERATOR: way.spans}


def _of_operator(
    mine: Activity, taken: Taken, way: Sent, spells: Sequence[Spell], length: float
) -> list[BottleneckRow]:
    rows: list[BottleneckRow] = []
    if taken.cpu is not None:
        rows.append(
            bottleneck_row("operator-cpu", taken.cpu, of=length, evidence="its CPU clock while it was waited for")
        )
    evidence = _of_requests(mine, taken, way)
    rows.append(bottleneck_row("operator-api", mine.api, of=length, evidence=evidence))
    if mine.limited is not None:
        evidence = "; ".join(f"inferred: {spell.text}" for spell in spells) or f"{LIMITER} at the phase's edges"
        rows.append(bottleneck_row("operator-rate-limit", mine.limited, of=length, evidence=evidence))
    return rows


def _of_requests(mine: Activity, taken: Taken, way: Sent) -> str:
    text = f"{len(way.spans):,} requests in the audit log"
    if way.spans:
        text += f", {way.seconds / len(way.spans) * 1000:.1f} ms each"
    if way.beyond_s:
        text += f", of which {way.beyond_s * 1000:.1f} ms before and after it, by its client's histogram"
    return text + ("; its CPU time is subtracted" if taken.cpu is not None else "; its CPU time is unknown")


def _core_waits(taken: Taken, demand_of: Mapping[str, Sequence[Demand]], length: float) -> list[BottleneckRow]:
    seconds: dict[Suspect, float] = {}
    evidence: dict[Suspect, str] = {}
    for actor, suspect in _CORE_WAITS.items():
        if actor in taken.waiting:
            whole = sum(demand.waiting_s or 0.0 for demand in demand_of[actor])
            while_waited_for = "requests were under way" if actor == SERVER else "it was waited for"
            seconds[suspect] = seconds.get(suspect, 0.0) + taken.waiting[actor]
            evidence[suspect] = f"while {while_waited_for}; its threads waited {whole:.2f} s in the phase, all together"
    return [bottleneck_row(suspect, seconds[suspect], of=length, evidence=evidence[suspect]) for suspect in seconds]


def _of_others(taken: Taken, mine: Activity, length: float, contents: Contents, after_s: float) -> list[BottleneckRow]:
    """``after_s``: time from the last milestone to the end of the phase, s; no object is waited for in it."""
    # Without its CPU clock, an operator that makes no request may still be working.
    known = taken.cpu is not None
    others: defaultdict[str, float] = defaultdict(float, mine.passed_on if known else {})
    for turn in taken.turns:
        for actor, seconds in turn.others.items():
            others[actor] += seconds
    suspects: set[Suspect] = {_ROLES[role] for role in contents.opened.identities if role in _ROLES}
    suspects |= {"garbage-collector"} if MANAGER in contents.opened.identities else set()
    suspects |= {suspect for suspect in _EVIDENCE if others.get(suspect)}
    rows = [
        bottleneck_row(suspect, others[suspect], of=length, evidence=_EVIDENCE[suspect]) for suspect in sorted(suspects)
    ]
    if known and OPERATOR in contents.opened.identities:
        evidence = "it was waited for, used no CPU and had no request under way: a delay, a sleep, a lock, a lost event"
        rows.append(bottleneck_row("operator-idle", mine.still, of=length, evidence=evidence))
    idle = sum(turn.idle for turn in taken.turns)
    held = min(idle, after_s)
    parts = {"no object waited": idle - held}
    parts |= {f"{actor} was waited for": others[actor] for actor in sorted(others) if actor not in _EVIDENCE}
    left_out = 0.0 if known else mine.still + sum(mine.passed_on.values())
    return [
        *rows,
        bottleneck_row("held", held, of=length, evidence="from its last milestone to its end, as by phase.hold"),
        bottleneck_row("unattributed", sum(parts.values()), of=length, evidence=_unattributed(parts, left_out)),
    ]


def _unattributed(parts: Mapping[str, float], left_out: float) -> str:
    texts = [f"{what} {seconds:.2f} s" for what, seconds in parts.items() if seconds >= _LEAST_S]
    if left_out >= _LEAST_S:
        texts.append(f"{left_out:.2f} s of the operator's turns are left out: its CPU clock was not read")
    return "; ".join(texts) or "no gap"


def contributing_factors(
    contents: Contents, phase: PhaseSpan, cpu: Sequence[CpuResult], saturation: Saturation | None
) -> list[BottleneckRow]:
    """Return the rows of the operator's work queue, the API server's CPU and the machine, as far as measured."""
    length = (contents.end_of(phase) - phase.start) / 1e9
    rows: list[BottleneckRow] = []
    if (queue := backlog(phase)) is not None:
        evidence = (
            f"upper bound of the time that keys of {queue.controller} waited for one of its {queue.workers} workers"
        )
        rows.append(bottleneck_row("operator-queue", queue.seconds, of=length, evidence=evidence))
    if (bound := api_server_seconds(contents, phase)) is not None:
        used = next((f"{one.cores:.2f} cores" for one in cpu if one.process == API_SERVER), "")
        rows.append(
            bottleneck_row("api-server", bound, of=length, evidence=f"its share of the CPU that others left it: {used}")
        )
    if saturation is not None and (seconds := _saturated(saturation, length)) is not None:
        rows.append(
            bottleneck_row("machine", seconds, of=length, evidence=_users_of(cpu, contents.opened.machine.cores))
        )
    return rows


def _saturated(saturation: Saturation, length: float) -> float | None:
    """Return the saturated seconds of the 1 s timeline; without one, all of the phase or None."""
    if saturation.saturated_s is not None:
        return saturation.saturated_s
    return length if saturation.saturated else None


def _users_of(cpu: Sequence[CpuResult], cores: int) -> str:
    total = sum(one.seconds for one in cpu)
    parts = [f"{one.process} {one.seconds / total * 100:.0f} %" for one in cpu[:_SHOWN] if total > 0]
    return f"seconds with 95 % of {cores} cores in use; of the CPU {', '.join(parts)}"


def bottleneck_row(suspect: Suspect, seconds: float, *, of: float, evidence: str) -> BottleneckRow:
    """Return a row; ``of``: seconds of the phase, the maximum of any row."""
    seconds = min(of, max(0.0, seconds))
    return BottleneckRow(suspect=suspect, seconds=seconds, share=seconds / of, evidence=evidence)
