"""Pods and other objects that are followed for a whole recording: their events are journaled as they happen.

Container restarts, pods that appear and disappear, and the Lease that replicas elect their leader by; each from a
watch with a selector.

A test names the objects that it waits for. What else the operator makes (Services, ConfigMaps, its own kinds) shows in
the audit log only by name; whether such an object is left behind, who owns it, and whether a write changed it, only a
watch shows. So each kind's collection is watched from the first create on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from .. import redaction
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.informer import Change, Followed, follow
from ..kube.resources import Resource
from ..operator.pods.replicas import holder_host, holds
from .conditions import KEPT_PATHS, WatchSpec
from .object_cache import ObjectKey
from .protocol import IncidentSeen, PodsToFollow
from .record_writer import Ledger
from .records import OBJECTS, Incident, IncidentKind, Request
from .watch import Watch
from .watches import Watches

_REFUSED_S = 5.0
"""Delay before a refused watch is retried, s."""


class Following:
    """Follows objects until cancelled; journals a refusal once, as a failure of ``source``."""

    def __init__(self, client: Client, ledger: Ledger, source: str) -> None:
        self.answered = asyncio.Event()
        """Set when all existing objects were reported, or following was refused."""
        self._client = client
        self._ledger = ledger
        self._source = source

    async def run(self, resource: Resource, namespace: str, take: Callable[[Change], None], **selection: Any) -> None:
        """Pass each change to ``take``. ``selection``: selectors and shape, as for `operator.following.follow`."""
        reported = ""
        while True:
            try:
                async with aclosing(follow(self._client, resource, namespace, **selection)) as changes:
                    async for change in changes:
                        take(change)
                        if change.kind == "live":
                            self.answered.set()
            except ApiError as error:
                self.answered.set()
                if error.message != reported:
                    reported = error.message
                    self._ledger.failed(self._source, f"{resource.plural} cannot be followed: {reported}")
            await asyncio.sleep(_REFUSED_S)


PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", namespaced=True)

_ANSWER_S = 10.0


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class Lease(Followed, frozen=True):
    """The fields of a Lease that identify its holder."""

    spec: _LeaseSpec = _LeaseSpec()


class _Seen(NamedTuple):
    """The last known state of a pod."""

    running: bool
    restarts: dict[str, int]
    """Container → number of restarts."""


class FollowedPods:
    """The pods of one program, as last reported by the API."""

    def __init__(self, wanted: PodsToFollow, *, client: Client, ledger: Ledger) -> None:
        self.wanted = wanted
        source = f"pods:{wanted.name}"
        self._follows_pods = Following(client, ledger, source)
        self._follows_lease = Following(client, ledger, source) if wanted.lease else None
        self._ledger = ledger
        self._pods: dict[str, Followed] = {}
        self._seen: dict[str, _Seen] = {}
        self._live = False
        self._holder = ""

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        wanted = self.wanted
        async with asyncio.TaskGroup() as tasks:
            pods = self._follows_pods.run(PODS, wanted.namespace, self.take, label_selector=wanted.label_selector)
            tasks.create_task(pods)
            if self._follows_lease is not None:
                where, selector = wanted.lease_namespace or wanted.namespace, f"metadata.name={wanted.lease}"
                lease = self._follows_lease.run(LEASES, where, self.take_lease, field_selector=selector, shape=Lease)
                tasks.create_task(lease)

    async def answered(self) -> None:
        """Return when the initial state is known, or access was denied."""
        await self._follows_pods.answered.wait()
        if self._follows_lease is not None:
            await self._follows_lease.answered.wait()

    def leader(self) -> Followed | None:
        """Return the leader pod; None when there is none or it does not run.

        The holder of the Lease; without a Lease the oldest running pod.
        """
        running = [pod for pod in self._pods.values() if _running(pod)]
        if self.wanted.lease:
            return next((pod for pod in running if holds(pod.metadata.name, self._holder)), None)
        return min(running, key=lambda pod: (_started(pod), pod.metadata.name), default=None)

    def take(self, change: Change) -> None:
        """Process one change of the pods."""
        if change.kind == "live":
            self._live = True
            return
        pod = change.object
        if pod is None:
            return
        uid, name = pod.metadata.uid, pod.metadata.name
        if change.kind == "gone":
            self._pods.pop(uid, None)
            self._seen.pop(uid, None)
            self._happened("pod-gone", name)
            return
        known, now = self._seen.get(uid), _Seen(_running(pod), _restarts(pod))
        self._pods[uid], self._seen[uid] = pod, now
        if self._live and now.running and (known is None or not known.running) and not any(now.restarts.values()):
            self._happened("pod-started", name)
        for container, times in now.restarts.items():
            if known is not None and times > known.restarts.get(container, 0):
                self._happened("container-restart", f"{name}/{container}", _why(pod, container, times))

    def take_lease(self, change: Change) -> None:
        """Process one change of the Lease. A released Lease has no holder for a moment: no leader change yet."""
        lease = change.object
        holder = lease.spec.holder_identity if isinstance(lease, Lease) and change.kind == "present" else None
        if not holder or holder == self._holder:
            return
        before, self._holder = self._holder, holder
        if before:
            self._happened("leader-change", "", f"{holder_host(before)} → {holder_host(holder)}")

    def _happened(self, kind: IncidentKind, which: str, detail: str = "") -> None:
        subject, detail = "/".join(filter(None, (self.wanted.name, which))), redaction.text(detail)
        self._ledger.add(Incident(at=self._ledger.now(), kind=kind, subject=subject, detail=detail))
        self._ledger.tell(IncidentSeen(kind=kind, subject=subject, detail=detail))


class PodFollowers:
    """All followed pods of a recording, by the name of their program."""

    def __init__(self, client: Client, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self._followed: dict[str, FollowedPods] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, wanted: PodsToFollow) -> None:
        """Follow pods from here on; replaces those of the same name.

        Returns once subsequent events will be journaled, or after 10 s without an answer.
        """
        if (before := self._tasks.pop(wanted.name, None)) is not None:
            before.cancel()
        followed = FollowedPods(wanted, client=self._client, ledger=self._ledger)
        task = asyncio.create_task(followed.run(), name=f"pods of {wanted.name}")
        task.add_done_callback(lambda done: self._broke(wanted.name, done))
        self._followed[wanted.name], self._tasks[wanted.name] = followed, task
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(followed.answered(), _ANSWER_S)

    def leader(self, name: str) -> Followed | None:
        """Return the leader pod of a program; None when there is none or its pods are not followed."""
        followed = self._followed.get(name)
        return followed.leader() if followed is not None else None

    async def close(self) -> None:
        """Stop following all pods."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _broke(self, name: str, task: asyncio.Task[None]) -> None:
        # A bug here must not look like pods without events.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._ledger.failed(f"pods:{name}", f"{type(error).__name__}: {error}")


def _status(pod: Followed) -> dict[str, Any]:
    return pod.status if isinstance(pod.status, dict) else {}


def _running(pod: Followed) -> bool:
    status = _status(pod)
    return status.get("phase") == "Running" and bool(status.get("podIP")) and not pod.metadata.deletion_timestamp


def _started(pod: Followed) -> str:
    return str(_status(pod).get("startTime") or "")


def _containers(pod: Followed) -> list[dict[str, Any]]:
    return [found for found in _status(pod).get("containerStatuses") or [] if isinstance(found, dict)]


def _restarts(pod: Followed) -> dict[str, int]:
    return {str(found.get("name", "")): int(found.get("restartCount") or 0) for found in _containers(pod)}


def _why(pod: Followed, container: str, times: int) -> str:
    """Return a container's termination reason and restart count: ``exit code 137 (OOMKilled), restart 2``."""
    found = next((one for one in _containers(pod) if one.get("name") == container), {})
    ended = (found.get("lastState") or {}).get("terminated") or {}
    reason = f" ({ended['reason']})" if ended.get("reason") else ""
    code = f"exit code {ended['exitCode']}{reason}, " if "exitCode" in ended else ""
    return f"{code}restart {times}"


MAX_FOLLOWED = 64
"""Collections that are followed, each with a watch of its own; that a further one is not, the recording says."""

_NAMESPACES = 4
"""Namespaces of the operator's making in which a kind is followed by itself; from then on it is in all together."""

LEASE_FIELDS = ("spec.leaseDurationSeconds",)

_LEASES = 4
"""Leases that are followed."""

_NOT_FOLLOWED = frozenset({"events", "endpointslices", "endpoints"})
"""Kinds without an owner that goes with the workload, or that controllers of Kubernetes make and remove themselves."""

_WORKLOADS = frozenset({"apps", "batch"})
"""API groups that are followed, as pods are, although controllers of Kubernetes make the objects for the operator's."""

_LOOK_S = 0.02

_QUIET_NS = 1_000_000_000
"""Time after the last change of any object for which an operator may still be catching up with it, ns."""


class FollowedKinds:
    """The collections that objects of the operator and the workload are in, and which objects those are.

    ``operator`` and ``harness``: their user names in the audit log; without one for the operator nothing is followed.
    ``recorder``: its own.
    """

    def __init__(self, watches: Watches, ledger: Ledger, *, operator: str, harness: str, recorder: str) -> None:
        self._watches = watches
        self._ledger = ledger
        self._operator = operator
        self._harness = harness
        self._recorder = recorder
        self._followed: dict[str, Watch] = {}
        self._made: dict[str, set[ObjectKey]] = defaultdict(set)
        """Collection → the objects that the operator has made in it, of those that the log names; `_workload`, the
        harness."""
        self._workload: dict[str, set[ObjectKey]] = defaultdict(set)
        self._own_namespaces: set[str] = set()
        """Those that the operator has made."""
        self._leases: set[ObjectKey] = set()
        self._cut: set[str] = set()
        """What is not followed since there is too much of it: ``collections``, ``Leases``."""
        self._began = False

    def begin(self) -> None:
        """Note that a phase begins. What was made before the first is no workload, and part of the operator itself.

        A Lease, say, or a Secret with its certificate.
        """
        if not self._began:
            self._began = True
            self._made.clear()

    def created(self, request: Request, path: str) -> None:
        """Take in a request that made an object in the collection at ``path``; follow that, if it is not followed.

        Of Leases only those that the operator renews are followed, each by itself.
        """
        if request.resource == "leases":
            self._lease(request, path)
            return
        by_operator = request.user == self._operator
        by_harness = request.user == self._harness and self._began
        made_for_others = request.group in _WORKLOADS or request.qualified == "pods"
        in_between = made_for_others and request.user not in (self._harness, self._recorder)
        wanted = by_operator or by_harness or in_between
        if not self._operator or request.resource in _NOT_FOLLOWED or not wanted:
            return
        if by_operator and request.qualified == "namespaces":
            self._own_namespaces.add(request.name)
        path = self._collection(request, path)
        if path not in self._followed:
            if len(self._followed) >= MAX_FOLLOWED:
                self._not_followed("collections", MAX_FOLLOWED, path)
                return
            spec = WatchSpec(resource=request.qualified, path=path, fields=KEPT_PATHS)
            self._followed[path] = self._watches.follow(spec)
        if request.name and (by_operator or by_harness):
            (self._made if by_operator else self._workload)[path].add((request.namespace, request.name))

    def _collection(self, request: Request, path: str) -> str:
        """Return the collection to follow for an object: that of all namespaces, where the operator makes many.

        One that may not be watched in all is followed in each.
        """
        if path in self._followed or request.namespace not in self._own_namespaces:
            return path
        prefix, _, kind = path.partition(f"/namespaces/{request.namespace}/")
        wide = f"{prefix}/{kind}"
        if (watch := self._followed.get(wide)) is not None:
            return path if watch.refused else wide
        followed = sum(f"{prefix}/namespaces/{name}/{kind}" in self._followed for name in self._own_namespaces)
        return wide if followed >= _NAMESPACES else path

    def _lease(self, request: Request, path: str) -> None:
        key = request.namespace, request.name
        if request.user == self._operator and request.name and key not in self._leases:
            if len(self._leases) >= _LEASES:
                self._not_followed("Leases", _LEASES, request.name)
                return
            self._leases.add(key)
            selector = f"metadata.name={request.name}"
            self._watches.follow(
                WatchSpec(resource=request.qualified, path=path, field_selector=selector, fields=LEASE_FIELDS)
            )

    def _not_followed(self, what: str, most: int, first: str) -> None:
        """Say once of a kind that there are more than are followed: what they would show is missing, not zero."""
        if what not in self._cut:
            self._cut.add(what)
            message = f"no more than {most} {what} are followed; findings see nothing of the others, first {first}"
            self._ledger.failed(OBJECTS, message)

    async def settled(self, timeout: float) -> None:
        """Return when the workload is gone, and with it all that the operator has made.

        Not what is to go with an owner that still exists; what has lost its owner, the garbage collector is to delete.
        And a second after the last change: only then what the operator serves can be held against what is there. Or
        after ``timeout`` seconds: what is there then, the operator has left behind.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while loop.time() < deadline:
            if not self._unsettled() and self._watches.quiet_ns() >= _QUIET_NS and not self._uncollected():
                return
            await asyncio.sleep(_LOOK_S)

    def _unsettled(self) -> bool:
        return any(self._followed[path].holds(keys) for path, keys in self._workload.items()) or any(
            self._followed[path].holds(keys, unowned=True) for path, keys in self._made.items()
        )

    def _uncollected(self) -> bool:
        """Return whether something exists that the garbage collector is to delete, since its owner is gone."""
        gone = set[str]().union(*(watch.gone for watch in self._followed.values()))
        return any(self._followed[path].owners(keys) & gone for path, keys in self._made.items())
