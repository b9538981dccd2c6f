"""What an operator's start puts into the cluster, so that its removal takes out just that.

Everything put there carries ``grovescale.io/managed``. An object that is there without that label belongs to somebody
else: it is neither changed nor removed.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterable
from contextlib import aclosing

from ..errors import OperatorError
from ..kube.client import Client
from ..kube.errors import ApiError, NotFound
from ..kube.resources import Resource, UnknownResource
from .following import Followed, follow
from .manifests import Manifest, Object, title

MANAGED = "grovescale.io/managed"
OPERATOR = "grovescale.io/operator"
FIELD_MANAGER = "grovescale"

CREATE_DELAY_S = 2.0
_ESTABLISHED_S = 30.0
_GONE_S = 60.0


async def install(
    client: Client, manifests: Iterable[Manifest], *, operator: str, progress: Callable[[str], None]
) -> list[Object]:
    """Apply objects one after another, as ``kubectl apply`` would; return those that are ours to remove.

    Raises OperatorError with the object, its file and line, and the API server's reason.
    """
    ours: list[Object] = []
    for manifest in manifests:
        if await _install_one(client, manifest, operator):
            ours.append(manifest.object)
        else:
            progress(f"{title(manifest.object)} was there before and is left as it is")
    return ours


async def _install_one(client: Client, manifest: Manifest, operator: str) -> bool:
    obj = labelled(manifest.object, operator)
    try:
        resource = await client.resource(obj["kind"], obj["apiVersion"])
        if not await _is_ours(client, resource, obj["metadata"]):
            return False
        await client.apply(obj, field_manager=FIELD_MANAGER)
    except UnknownResource as error:
        raise OperatorError(
            f"{manifest.source}: {title(obj)}: {error.message}",
            next_step="Name the CRD's file under `crds:`; they are applied before `manifests:`.",
        ) from error
    except ApiError as error:
        details = "; ".join(error.causes)
        raise OperatorError(
            f"{manifest.source}: {title(obj)} was refused: {error.message}{f' ({details})' if details else ''}",
            next_step="Correct the file, or the rights of the identity that sets the cluster up.",
        ) from error
    return True


async def _is_ours(client: Client, resource: Resource, wanted: Object) -> bool:
    """Return whether the object is not there yet, or there with our label; ``wanted`` is its metadata.

    One that is on its way out, as after a removal a moment ago, is waited for: nothing can be made in its place.
    """
    namespace = wanted.get("namespace") or client.access.namespace
    try:
        found = (await client.get(resource, wanted["name"], namespace))["metadata"]
    except NotFound:
        return True
    if "deletionTimestamp" not in found:
        return bool((found.get("labels") or {}).get(MANAGED))
    await _wait_gone(client, resource, found)
    return True


async def _wait_gone(client: Client, resource: Resource, metadata: Object) -> None:
    changes = follow(client, resource, metadata.get("namespace"), field_selector=f"metadata.name={metadata['name']}")
    live = False
    try:
        async with asyncio.timeout(_GONE_S), aclosing(changes) as watched:
            async for change in watched:
                live = live or change.kind == "live"
                if live and metadata["uid"] not in change.present:
                    return
    except TimeoutError:
        finalizers = ", ".join(metadata.get("finalizers") or []) or "none"
        raise OperatorError(
            f"{resource.kind} {metadata['name']} is being deleted and still there after {_GONE_S:g} s "
            f"(finalizers: {finalizers})",
            next_step=f"kubectl get {resource.plural} {metadata['name']} -o yaml shows what it waits for.",
        ) from None


def labelled(obj: Object, operator: str) -> Object:
    """Return a copy that says who put it there."""
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), MANAGED: "true", OPERATOR: operator}
    return {**obj, "metadata": {**metadata, "labels": labels}}


async def remove(client: Client, objects: Iterable[Object]) -> None:
    """Delete objects, last first. One that is gone already, or whose kind is no longer served, is no error."""
    for obj in reversed(list(objects)):
        metadata = obj["metadata"]
        try:
            resource = await client.resource(obj["kind"], obj["apiVersion"])
            await client.delete(resource, metadata["name"], metadata.get("namespace") or client.access.namespace)
        except (NotFound, UnknownResource):
            continue


async def wait_established(client: Client, crds: Iterable[Object], *, timeout: float = _ESTABLISHED_S) -> None:
    """Wait until the API server serves each CustomResourceDefinition, found by watch. ``timeout`` in seconds.

    Raises OperatorError with those that are not served, and why, as far as their conditions say.
    """
    waiting = {crd["metadata"]["name"]: "not seen yet" for crd in crds}
    if not waiting:
        return
    resource = await client.resource("CustomResourceDefinition", "apiextensions.k8s.io/v1")
    try:
        async with asyncio.timeout(timeout), aclosing(follow(client, resource)) as changes:
            async for change in changes:
                found = change.object
                if found is None or found.metadata.name not in waiting:
                    continue
                reason = _not_established(found)
                if reason:
                    waiting[found.metadata.name] = reason
                else:
                    del waiting[found.metadata.name]
                if not waiting:
                    break
    except TimeoutError:
        names = "; ".join(f"{name}: {reason}" for name, reason in waiting.items())
        raise OperatorError(
            f"after {timeout:g} s the API server does not serve these CRDs: {names}",
            next_step="`kubectl describe crd NAME` shows all conditions.",
        ) from None


async def wait_settled(client: Client, crds: Iterable[Object]) -> None:
    """Wait until creates of these kinds are served without delay.

    kube-apiserver holds every create of a custom resource for two seconds while its CRD has been Established for less
    than that (apiextensions-apiserver, customresource_handler.go): the first phase would measure that.
    """
    names = [crd["metadata"]["name"] for crd in crds]
    if not names:
        return
    resource = await client.resource("CustomResourceDefinition", "apiextensions.k8s.io/v1")
    found = await asyncio.gather(*(client.get(resource, name) for name in names))
    newest = max(_established_at(crd) for crd in found)
    age = (datetime.datetime.now(datetime.UTC) - newest).total_seconds()
    # A cluster's clock may differ from ours: never wait for longer than the delay itself.
    await asyncio.sleep(min(max(0.0, CREATE_DELAY_S - age), CREATE_DELAY_S))


def _established_at(crd: Object) -> datetime.datetime:
    (condition,) = [found for found in crd["status"]["conditions"] if found["type"] == "Established"]
    return datetime.datetime.fromisoformat(condition["lastTransitionTime"])


def _not_established(crd: Followed) -> str:
    conditions = (crd.status or {}).get("conditions") or []
    by_type = {condition["type"]: condition for condition in conditions}
    if by_type.get("Established", {}).get("status") == "True":
        return ""
    refused = by_type.get("NamesAccepted", {})
    if refused.get("status") == "False":
        return f"{refused.get('reason')}: {refused.get('message')}"
    return "not Established"
