"""State of the operator's pods: which run, which is leader, what is wrong with one. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...kube.informer import Followed

_HOST_NAME = 63
"""The kernel's longest host name: the kubelet truncates a longer pod name to it."""


def holder_host(identity: str) -> str:
    """Return the host in a Lease's ``holderIdentity``: the pod's name, possibly truncated.

    client-go's programs build it from the host name, which is the pod's, and a UUID: ``<host>_<uuid>``.
    https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/leaderelection
    """
    return identity.partition("_")[0]


def holds(pod: str, identity: str) -> bool:
    """Return whether a pod is the holder with this identity."""
    host = holder_host(identity)
    return bool(host) and host in (pod, pod[:_HOST_NAME].rstrip("-."))


FATAL = (
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PostStartHookError",
)
"""Reasons of a waiting container that do not pass by themselves. Not ErrImagePull: the kubelet retries."""


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    container_id: str = msgspec.field(default="", name="containerID")


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Running(msgspec.Struct, frozen=True, rename="camel"):
    started_at: str = ""


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    ready: bool = False
    restart_count: int = 0
    container_id: str = msgspec.field(default="", name="containerID")
    state: _State = _State()
    last_state: _State = _State()


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []


class FollowedPod(Followed, frozen=True):
    """The fields of a pod that are read."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of the operator."""

    pod: str
    uid: str
    node: str = ""
    container_id: str = ""
    """Id of the operator's current or last container, without the runtime's name."""
    running: bool = False
    ready: bool = False
    going: bool = False
    """Whether it is being deleted."""
    started: str = ""
    """Start of its container, RFC 3339; empty: it does not run."""
    restarts: int = 0
    last_end: str = ""
    """Reason of its container's last end: ``OOMKilled, exit code 137``."""
    stuck: str = ""
    """Why it will not run by itself."""
    unscheduled: str = ""
    """Why it is not scheduled; may pass."""


def replica_of(pod: FollowedPod, container: str) -> Replica:
    """Return a pod as a replica; ``container``: the operator's container."""
    status = pod.status
    own = next((found for found in status.container_statuses if found.name == container), _ContainerStatus(container))
    running = own.state.running
    return Replica(
        pod=pod.metadata.name,
        uid=pod.metadata.uid,
        node=pod.spec.node_name,
        container_id=bare_id(own.container_id),
        running=running is not None,
        ready=own.ready,
        going=bool(pod.metadata.deletion_timestamp),
        started=running.started_at if running is not None else "",
        restarts=own.restart_count,
        last_end=_ending(own.state.terminated or own.last_state.terminated),
        stuck=_stuck(status),
        unscheduled=_unscheduled(status),
    )


def bare_id(container_id: str) -> str:
    """Return ``4f5c…`` for ``containerd://4f5c…``."""
    return container_id.rpartition("://")[2]


def leader(replicas: Iterable[Replica], holder: str | None) -> Replica | None:
    """Return the leader: the Lease's holder, or, without a Lease (None), the longest-running replica."""
    running = [replica for replica in replicas if replica.running]
    if holder is not None:
        return next((replica for replica in running if holds(replica.pod, holder)), None)
    return min(running, key=lambda replica: (replica.going, replica.started, replica.pod), default=None)


def _ending(ended: _Terminated | None) -> str:
    if ended is None:
        return ""
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
    return f"{ended.reason}, {how}" if ended.reason and ended.reason != "Error" else how


def _stuck(status: _PodStatus) -> str:
    for found in (*status.init_container_statuses, *status.container_statuses):
        waiting = found.state.waiting
        if waiting is not None and waiting.reason in FATAL:
            ended = _ending(found.last_state.terminated)
            why = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
            return f"container {found.name}: {why}" + (f" (it ended with {ended})" if ended else "")
    if status.phase == "Failed":
        # Evicted, or not admitted by the kubelet.
        return ": ".join(filter(None, [status.reason or "Failed", status.message]))
    return ""


def _unscheduled(status: _PodStatus) -> str:
    for condition in status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return ": ".join(filter(None, [condition.reason, condition.message]))
    return ""
