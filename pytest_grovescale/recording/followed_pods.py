"""Pods and other objects that are followed for a whole recording: their events are journaled as they happen.

Container restarts, pods that appear and disappear, and the Lease that replicas elect their leader by; each from a
watch with a selector.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from .protocol import IncidentSeen, PodsToFollow
from .record_writer import Ledger
from .records import Incident, IncidentKind

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
