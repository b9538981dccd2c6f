"""The creation of an operator's objects, and waiting until its Deployment is rolled out and its pods are ready.

A failure is reported as soon as it is certain.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Collection, Iterable
from contextlib import aclosing
from pathlib import Path

import msgspec

from ... import durations
from ...cluster.backend import backend
from ...cluster.handle import Cluster
from ...cluster.ledger import Owner
from ...errors import DefinitionError, OperatorError
from ...kube.client import Client
from ...kube.errors import ApiError
from ...kube.informer import Change, Followed, follow
from ...kube.portal import Portal
from ...kube.resources import Resource, UnknownResource
from ...kube.subresources import PODS
from .. import install, manifests
from ..command import filled, single_values
from ..handle import Progress, tail_text
from ..install import DEPLOYMENTS
from ..manifest_sources import OPTIONAL_ADDONS
from ..manifests import Manifest, Object
from ..operator_state import PROCESS, RunningPods
from ..placeholders import fill
from ..schema import OperatorDefinition
from . import state
from .definition import Changes, Chosen, choose, replicas
from .replicas import FollowedPod, Replica, replica_of

_CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
"""Toleration of the taint that keeps a workload's pods off a kind cluster's only real node."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The manifests, in the order of their creation."""

    crds: list[Manifest]
    first: list[Manifest]
    """Namespaces."""
    others: list[Manifest]
    chosen: Chosen
    webhooks: list[Manifest]
    """Last: without a running webhook server they would block the operator's own creation."""


def parts_of(definition: OperatorDefinition, owner: Owner) -> Parts:
    """Return an operator's manifests, rendered and grouped. Raises DefinitionError."""
    pod = definition.as_pod

    def wrong(name: str, message: str) -> DefinitionError:
        return DefinitionError(
            f"{definition.source}: pod.{name}: {message}", next_step="It was changed since it was checked."
        )

    found = definition.installation.manifests
    chosen = choose(found, pod, definition.identity.namespace, wrong)
    if (asked := replicas(definition)) is not None:
        chosen = msgspec.structs.replace(chosen, replicas=asked)
    named_crds = {one.object["metadata"]["name"]: one for one in found if _kind(one) == manifests.CRD}
    named_crds |= {one.object["metadata"]["name"]: one for one in definition.installation.crds}
    hooks = [
        Manifest(install.labelled(one.object, definition.name, owner), one.source)
        for one in found
        if _kind(one) in manifests.WEBHOOKS
    ]
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chosen.namespace}}
    named = [one for one in found if _kind(one) == "Namespace"]
    if all(one.object["metadata"]["name"] != chosen.namespace for one in named):
        named.append(Manifest(own, f"{definition.source}: pod"))
    apart = (manifests.CRD, "Namespace", *manifests.WEBHOOKS)
    others = [one for one in found if _kind(one) not in apart and one.object is not chosen.manifest.object]
    return Parts(crds=list(named_crds.values()), first=named, others=others, chosen=chosen, webhooks=hooks)


def _kind(manifest: Manifest) -> str:
    return str(manifest.object["kind"])


async def prepare(
    client: Client, definition: OperatorDefinition, parts: Parts, owner: Owner, progress: Progress
) -> list[Object]:
    """Create all objects but the Deployment and the webhooks; return those to remove later."""
    put = functools.partial(install.install, client, operator=definition.name, owner=owner, progress=progress)
    ours = await put(parts.crds)
    await install.wait_established(client, [crd.object for crd in parts.crds])
    ours += await put(parts.first)
    others = [one for one in parts.others if await _can_be_there(client, one, progress)]
    return ours + await put([await install.placed(client, one, parts.chosen.namespace) for one in others])


async def _can_be_there(client: Client, one: Manifest, progress: Progress) -> bool:
    """Return False for an object of an add-on that the cluster does not have, which is then left out."""
    obj = one.object
    if manifests.group(obj) not in OPTIONAL_ADDONS:
        return True
    try:
        await client.resource(obj["kind"], obj["apiVersion"])
    except UnknownResource:
        progress(f"{manifests.title(obj)} is left out: the cluster does not serve {manifests.group(obj)}")
        return False
    return True


async def apply(
    client: Client, definition: OperatorDefinition, chosen: Chosen, obj: Object, owner: Owner, progress: Progress
) -> int:
    """Apply the Deployment and return its generation. Raises OperatorError if a foreign Deployment has its name."""
    manifest = Manifest(obj, chosen.manifest.source)
    if not await install.install(client, [manifest], operator=definition.name, owner=owner, progress=progress):
        raise OperatorError(
            f"{chosen.title} is there already, and is none of ours",
            next_step="Two of them would reconcile the same objects: remove it, or use a cluster of your own.",
        )
    found = await client.get(DEPLOYMENTS, chosen.name, chosen.namespace)
    return int(found["metadata"]["generation"])


async def changes_of(client: Client, definition: OperatorDefinition, cluster: Cluster, *, loaded: bool) -> Changes:
    """Return the changes to the Deployment; ``loaded``: grovescale loaded its image into the nodes."""
    pod = definition.as_pod
    values = {**single_values(definition), "namespace": definition.identity.namespace}
    env = {name: fill(text, values) for name, text in pod.env.items()}
    in_kind = backend(cluster.backend).pods_on_control_plane
    return Changes(
        image=fill(pod.image, values),
        loaded=loaded,
        arguments=filled(pod.arguments, definition, values),
        env={**(await _api_server(client) if in_kind else {}), **env},
        replicas=replicas(definition),
        tolerations=[_CONTROL_PLANE] if in_kind else [],
    )


async def _api_server(client: Client) -> dict[str, str]:
    """Return environment variables with the API server's own address: a kind cluster may lack working Services.

    The address is that of the endpoint of the Service ``kubernetes``; kubeadm includes it in the server's certificate.
    """
    slices = await client.resource("EndpointSlice", "discovery.k8s.io/v1")
    found = await client.get(slices, "kubernetes", "default")
    address, port = found["endpoints"][0]["addresses"][0], found["ports"][0]["port"]
    return {"KUBERNETES_SERVICE_HOST": str(address), "KUBERNETES_SERVICE_PORT": str(port)}


MAY_PASS_S = 15.0
"""Time for which an exceeded quota or an unschedulable pod counts as temporary, s."""

_EVENTS = Resource(group="", version="v1", plural="events", kind="Event", namespaced=True)
_MOST_EVENTS = 10


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _DeploymentSpec(msgspec.Struct, frozen=True):
    replicas: int = 1


class _DeploymentStatus(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    conditions: list[_Condition] = []


class FollowedDeployment(Followed, frozen=True):
    """The fields of a Deployment that are read."""

    spec: _DeploymentSpec = _DeploymentSpec()
    status: _DeploymentStatus = _DeploymentStatus()


class View(msgspec.Struct, frozen=True):
    """A Deployment and its pods at one point in time."""

    deployment: FollowedDeployment
    replicas: list[Replica]

    def rolled_out(self, generation: int) -> bool:
        """Return whether all pods are of this generation and available, and no others are left."""
        spec, status = self.deployment.spec, self.deployment.status
        counts = (status.replicas, status.updated_replicas, status.available_replicas)
        return (
            status.observed_generation >= generation
            and counts == (spec.replicas,) * 3
            and not any(replica.going for replica in self.replicas)
        )

    @property
    def stuck(self) -> str:
        """Why the rollout cannot succeed; empty: it may."""
        found = _grouped((replica.pod, replica.stuck) for replica in self.replicas)
        found += [
            f"{condition.reason}: {condition.message}"
            for condition in self.deployment.status.conditions
            if (condition.type, condition.status, condition.reason)
            == ("Progressing", "False", "ProgressDeadlineExceeded")
        ]
        return "; ".join(found)

    @property
    def hindered(self) -> str:
        """What blocks the rollout, and may pass."""
        found = _grouped((replica.pod, replica.unscheduled) for replica in self.replicas)
        found += [
            f"{condition.reason}: {condition.message}"
            for condition in self.deployment.status.conditions
            if condition.type == "ReplicaFailure" and condition.status == "True"
        ]
        return "; ".join(found)

    @property
    def text(self) -> str:
        """Progress of the rollout, as text."""
        spec, status = self.deployment.spec, self.deployment.status
        going = sum(replica.going for replica in self.replicas)
        text = f"{status.available_replicas} of {spec.replicas} pods available"
        return f"{text}, {going} still ending" if going else text


class RolloutFailed(Exception):
    """The rollout cannot succeed, or timed out."""


async def wait(client: Client, chosen: Chosen, generation: int, *, timeout: float, old: Collection[str] = ()) -> None:
    """Return when a Deployment is rolled out in this generation or a later one.

    ``old``: uids of pods that a restart replaces, whose errors do not count. Raises RolloutFailed, with the events of
    its pods, as soon as the rollout cannot succeed, and after ``timeout`` seconds.
    """
    state = _State(chosen, generation, old)
    follows = [
        asyncio.create_task(
            state.follow(client, DEPLOYMENTS, FollowedDeployment, field=f"metadata.name={chosen.name}")
        ),
        asyncio.create_task(state.follow(client, PODS, FollowedPod, label=chosen.selector)),
    ]
    verdict = asyncio.create_task(state.verdict(timeout))
    try:
        await asyncio.wait([*follows, verdict], return_when=asyncio.FIRST_COMPLETED)
        for followed in follows:
            if followed.done():
                # These tasks end with an error only.
                followed.result()
        if problem := await verdict:
            warned = await events(client, chosen.namespace, [replica.pod for replica in state.replicas()])
            raise RolloutFailed("\n".join([problem, *(f"  event: {event}" for event in warned)]))
    finally:
        for task in (*follows, verdict):
            task.cancel()
        await asyncio.gather(*follows, verdict, return_exceptions=True)


class _State:
    """State from the watches so far."""

    def __init__(self, chosen: Chosen, generation: int, old: Collection[str]) -> None:
        self._chosen = chosen
        self._generation = generation
        self._old = frozenset(old)
        self._deployment: FollowedDeployment | None = None
        self._pods: dict[str, FollowedPod] = {}
        self._live: set[type[Followed]] = set()
        self._changed = asyncio.Event()

    async def follow(
        self, client: Client, resource: Resource, shape: type[Followed], *, field: str = "", label: str = ""
    ) -> None:
        changes = follow(
            client, resource, self._chosen.namespace, field_selector=field, label_selector=label, shape=shape
        )
        async with aclosing(changes) as watched:
            async for change in watched:
                if change.kind == "live":
                    self._live.add(shape)
                self._take(change)
                self._changed.set()

    def _take(self, change: Change) -> None:
        match change.object:
            case FollowedDeployment() as found:
                self._deployment = found if change.kind == "present" else None
            case FollowedPod() as found if change.kind == "present":
                self._pods[found.metadata.uid] = found
            case FollowedPod() as found:
                self._pods.pop(found.metadata.uid, None)
            case _:
                pass

    def replicas(self) -> list[Replica]:
        return [replica_of(pod, self._chosen.container) for pod in self._pods.values()]

    async def verdict(self, timeout: float) -> str:
        """Return an empty string when rolled out, else the reason why it cannot be."""
        deadline = time.monotonic() + timeout
        hindered_at: float | None = None
        while True:
            self._changed.clear()
            view = self._view()
            now = time.monotonic()
            if view is not None and view.rolled_out(self._generation):
                return ""
            if view is not None and (stuck := self._without_old(view).stuck):
                return stuck
            hindered = view.hindered if view is not None else ""
            hindered_at = (hindered_at or now) if hindered else None
            until = deadline if hindered_at is None else min(deadline, hindered_at + MAY_PASS_S)
            if now >= until:
                seen = view.text if view is not None else "the Deployment is not there"
                return hindered or f"after {timeout:g} s: {seen}"
            try:
                await asyncio.wait_for(self._changed.wait(), until - now)
            except TimeoutError:
                continue

    def _view(self) -> View | None:
        """Return the current view, once the initial state is complete."""
        if self._deployment is None or len(self._live) < 2:
            return None
        return View(self._deployment, self.replicas())

    def _without_old(self, view: View) -> View:
        return msgspec.structs.replace(view, replicas=[one for one in view.replicas if one.uid not in self._old])


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    reason: str = ""
    message: str = ""


async def events(client: Client, namespace: str, pods: Iterable[str]) -> list[str]:
    """Return the last warning events about pods, as text."""
    found: list[tuple[str, str]] = []
    for pod in sorted(pods):
        listing = await client.list(
            _EVENTS, namespace, field_selector=f"involvedObject.kind=Pod,involvedObject.name={pod}", page=100
        )
        warnings = [event for item in listing.items if (event := msgspec.convert(item, _Event)).type == "Warning"]
        found += [(pod, f"{event.reason}: {event.message}") for event in warnings[-_MOST_EVENTS:]]
    return _grouped(found)


def _grouped(warned: Iterable[tuple[str, str]]) -> list[str]:
    """Return the texts about pods, each once with all its pods."""
    pods: dict[str, list[str]] = {}
    for pod, text in warned:
        if text and pod not in pods.setdefault(text, []):
            pods[text].append(pod)
    return [f"{'pods' if len(names) > 1 else 'pod'} {', '.join(names)}: {text}" for text, names in pods.items()]


SEEN_S = 20.0
"""Time limit for the keeper to see the API server's state, and the processes of running containers, s."""
_PROCESS_SEEN_S = 5.0
_LOOK_S = 0.05


def wait_kept(running: RunningPods) -> None:
    """Return when the keeper follows the pods. Raises OperatorError if it does not start."""
    deadline = time.monotonic() + SEEN_S
    while not (kept := state.read(Path(running.folder))).live:
        if time.monotonic() > deadline:
            why = kept.problem or "the process that keeps its pods does not start"
            raise OperatorError(
                f"operator {running.definition.name}: {why}",
                next_step=f"See {running.spec.log}.",
            )
        time.sleep(_LOOK_S)


def wait_rolled_out(
    portal: Portal,
    client: Client,
    running: RunningPods,
    generation: int,
    progress: Progress,
    *,
    old: Collection[str] = (),
) -> None:
    """Return when the Deployment is rolled out in this generation; ``old``: uids of pods that are to be replaced.

    Raises OperatorError as soon as the rollout cannot succeed, with the reason, events and the last lines of its log.
    """
    definition = running.definition
    began = time.monotonic()
    progress(f"operator {definition.name}: rolling out")
    timeout = durations.seconds(definition.as_pod.rollout_timeout)
    try:
        portal.run(wait(client, running.deployment, generation, timeout=timeout, old=old))
    except (RolloutFailed, ApiError) as error:
        raise OperatorError(
            f"operator {definition.name}: {running.deployment.title} is not rolled out: {error}{tail_text(running)}",
            next_step="Correct its manifests or image, or raise pod.rollout_timeout; its log is above.",
        ) from None
    progress(f"operator {definition.name}: rolled out after {time.monotonic() - began:.1f} s")


def wait_seen(running: RunningPods, *, old: Collection[str] = ()) -> None:
    """Return when the keeper knows the leader: from here on readers of its files find it.

    ``old``: uids of pods that were to be replaced. Raises OperatorError without a leader, for example if no pod holds
    the Lease.
    """
    folder = Path(running.folder)
    deadline = time.monotonic() + SEEN_S
    while True:
        kept = state.read(folder)
        if kept.leader and not any(one.going or one.uid in old for one in kept.replicas.values()):
            break
        if time.monotonic() > deadline:
            raise _not_seen(running, kept)
        time.sleep(_LOOK_S)
    deadline = time.monotonic() + _PROCESS_SEEN_S
    # Only if the engine runs on this host, which the presence of processes shows.
    while state.task(folder).node and PROCESS not in state.processes(folder) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _not_seen(running: RunningPods, kept: state.Kept) -> OperatorError:
    name, log = running.definition.name, running.spec.log
    if kept.problem or not kept.replicas:
        return OperatorError(
            f"operator {name}: {kept.problem or 'its pods are not seen by who keeps them'}", next_step=f"See {log}."
        )
    return OperatorError(
        f"operator {name} is rolled out, but none of its pods holds its Lease {kept.lease or '(none was found)'}",
        next_step="Name it in the definition, `pod: {lease: NAMESPACE/NAME}`; see also what the operator's log says.",
    )
