"""The objects of an operator's manifests: order and changes of their creation in the cluster."""

from __future__ import annotations

import functools

import msgspec

from ...cluster.backend import backend
from ...cluster.handle import Cluster
from ...cluster.ledger import Owner
from ...errors import DefinitionError, OperatorError
from ...kube.client import Client
from .. import install, manifests
from ..command import filled, single_values
from ..handle import Progress
from ..install import DEPLOYMENTS
from ..manifests import Manifest, Object
from ..placeholders import fill
from ..schema import OperatorDefinition
from . import deployment
from .definition import replicas
from .deployment import Changes, Chosen

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
    chosen = deployment.choose(found, pod, definition.identity.namespace, wrong)
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
    return ours + await put([await install.placed(client, one, parts.chosen.namespace) for one in parts.others])


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
