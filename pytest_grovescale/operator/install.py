"""What an operator's start puts into the cluster, so that its removal takes out just that.

The API server compares: a dry-run apply of the manifest shows the changes. So defaults and other spellings of a
quantity are no difference, and neither are additions by others.

All of them have the label ``grovescale.io/managed``. An existing object without it belongs to others: it is neither
changed nor removed. On a shared cluster, an owner label names the cluster whose tests use an object; with several
owners it stays until the last one has released it.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any

from ..cluster import ledger
from ..cluster.ledger import Owner
from ..errors import OperatorError
from ..kube import namespaces
from ..kube.client import Client
from ..kube.errors import ApiError, NotFound
from ..kube.informer import Followed, StillThere, follow, wait_gone
from ..kube.resources import Resource, UnknownResource
from ..kube.subresources import PODS
from .manifests import Manifest, Object, title

DEPLOYMENTS = Resource(group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True)

PODS_GONE_S = 90.0
"""Time limit for the operator's pods to end after the deletion of their Deployment, s."""

_SHOWN = 8
_LONGEST = 60
# Metadata about ownership and history, not content.
_NOT_CONTENT = ("apiVersion", "kind", "metadata", "status")


async def demand_same(client: Client, manifest: Manifest, there: Object, *, whose: str, next_step: str) -> None:
    """Raise OperatorError, with the differences, if applying a manifest would change an existing object.

    ``whose``: origin of the object for the message, as in "was there before". Raises ApiError if the API server would
    reject it.
    """
    wanted = await client.apply(manifest.object, dry_run=True)
    found = list(differences(_content(there), _content(wanted)))
    if not found:
        return
    lines = [f"  {line}" for line in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  … and {len(found) - _SHOWN} more")
    raise OperatorError(
        "\n".join([f"{manifest.source}: {title(manifest.object)} {whose}, and is another:", *lines]),
        next_step=next_step,
    )


def differences(there: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield each difference between two JSON values: ``spec.versions[v1].served: is true, wanted false``."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys([*there, *wanted]):
            where = f"{path}.{key}" if path else str(key)
            if key not in wanted:
                yield f"{where}: is there, not wanted"
            elif key not in there:
                yield f"{where}: is not there, wanted {_short(wanted[key])}"
            else:
                yield from differences(there[key], wanted[key], where)
    elif _named(there) and _named(wanted):
        before, after = _by_name(there), _by_name(wanted)
        for name in dict.fromkeys([*before, *after]):
            where = f"{path}[{name}]"
            if name not in after:
                yield f"{where}: is there, not wanted"
            elif name not in before:
                yield f"{where}: is not there, wanted"
            else:
                yield from differences(before[name], after[name], where)
    elif there != wanted:
        yield f"{path}: is {_short(there)}, wanted {_short(wanted)}"


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in _NOT_CONTENT}


def _named(value: Any) -> bool:
    """Return whether a value is a list of mappings with distinct names."""
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) and "name" in item for item in value):
        return False
    return len(_by_name(value)) == len(value)


def _by_name(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(item["name"]): item for item in items}


def _short(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


MANAGED = "grovescale.io/managed"
OPERATOR = "grovescale.io/operator"
FIELD_MANAGER = "grovescale"

CREATE_DELAY_S = 2.0
_ESTABLISHED_S = 30.0
_GONE_S = 60.0


async def install(
    client: Client,
    manifests: Iterable[Manifest],
    *,
    operator: str,
    owner: Owner | None = None,
    progress: Callable[[str], None],
) -> list[Object]:
    """Apply objects one after another, like ``kubectl apply``; return those to remove later.

    ``owner``: the owner for labels and ledger on a shared cluster. Raises OperatorError with the object, its file and
    line, and the API server's reason.
    """
    ours: list[Object] = []
    for manifest in manifests:
        if await _install_one(client, manifest, operator, owner):
            ours.append(manifest.object)
        else:
            progress(f"{title(manifest.object)} was there before and is left as it is")
    return ours


async def placed(client: Client, manifest: Manifest, namespace: str) -> Manifest:
    """Return an object with the operator's namespace, if it needs one and has none."""
    obj = manifest.object
    if obj["metadata"].get("namespace"):
        return manifest
    try:
        resource = await client.resource(obj["kind"], obj["apiVersion"])
    except UnknownResource:
        # The later apply reports the error with file and line.
        return manifest
    metadata = {**obj["metadata"], "namespace": namespace}
    return Manifest({**obj, "metadata": metadata}, manifest.source) if resource.namespaced else manifest


async def _install_one(client: Client, manifest: Manifest, operator: str, owner: Owner | None) -> bool:
    obj = labelled(manifest.object, operator, owner)
    try:
        resource = await client.resource(obj["kind"], obj["apiVersion"])
        there = await _there(client, resource, obj["metadata"])
        if there is not None and not await _may_have(client, manifest, there, owner):
            return False
        if owner is not None:
            owner.note([obj])
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
            next_step=f"It is {error.admission} of the cluster that does not let it through."
            if error.admission
            else "Correct the file, or the rights of the identity that sets the cluster up.",
        ) from error
    return True


async def _there(client: Client, resource: Resource, wanted: Object) -> Object | None:
    """Return the existing object, or None; ``wanted`` is its metadata.

    Waits for the end of an object that is being deleted: nothing can be created in its place.
    """
    namespace = wanted.get("namespace") or client.access.namespace
    try:
        found = await client.get(resource, wanted["name"], namespace)
    except NotFound:
        return None
    if "deletionTimestamp" not in found["metadata"]:
        return found
    await _wait_gone(client, resource, found["metadata"])
    return None


async def _may_have(client: Client, manifest: Manifest, there: Object, owner: Owner | None) -> bool:
    """Return whether an existing object is (co-)owned from now on; False: it belongs to others.

    Raises OperatorError if it differs from the manifest and may not be changed.
    """
    labels = there["metadata"].get("labels") or {}
    if not labels.get(MANAGED):
        if there.get("kind") == "CustomResourceDefinition":
            await demand_same(
                client,
                manifest,
                there,
                whose="was there before the tests",
                next_step="Test on a cluster without it, or install the version that the operator definition names.",
            )
        return False
    if owner is not None and (others := ledger.others(labels, owner)):
        await demand_same(
            client,
            manifest,
            there,
            whose=f"is needed by the tests of cluster {', '.join(others)} at this moment",
            next_step="Wait until they have ended: two versions of it cannot be there at once.",
        )
    return True


async def _wait_gone(client: Client, resource: Resource, metadata: Object) -> None:
    one = (metadata["name"],)
    try:
        await wait_gone(client, resource, metadata.get("namespace"), names=one, uid=metadata["uid"], timeout_s=_GONE_S)
    except StillThere:
        finalizers = ", ".join(metadata.get("finalizers") or []) or "none"
        raise OperatorError(
            f"{resource.kind} {metadata['name']} is being deleted and still there after {_GONE_S:g} s "
            f"(finalizers: {finalizers})",
            next_step=f"kubectl get {resource.plural} {metadata['name']} -o yaml shows what it waits for.",
        ) from None


def labelled(obj: Object, operator: str, owner: Owner | None = None) -> Object:
    """Return a copy with owner labels."""
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), MANAGED: "true", OPERATOR: operator}
    if owner is not None:
        labels[owner.label] = "true"
    return {**obj, "metadata": {**metadata, "labels": labels}}


async def remove(client: Client, objects: Iterable[Object], *, owner: Owner | None = None) -> None:
    """Delete objects, last first. A missing object, or a kind that is no longer served, is no error.

    ``owner``: on a shared cluster, objects with further owners stay.
    """
    for obj in reversed(list(objects)):
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or client.access.namespace
        try:
            resource = await client.resource(obj["kind"], obj["apiVersion"])
            if owner is None or not await _left_to_others(client, resource, metadata["name"], namespace, owner):
                await client.delete(resource, metadata["name"], namespace)
        except (NotFound, UnknownResource):
            continue


async def of_others(client: Client, crds: Iterable[Object]) -> list[Object]:
    """Return the CustomResourceDefinitions that have objects, which would be deleted with them."""
    kind = await client.resource("CustomResourceDefinition", "apiextensions.k8s.io/v1")
    found: list[Object] = []
    for crd in crds:
        try:
            spec = (await client.get(kind, crd["metadata"]["name"]))["spec"]
            version = next(one["name"] for one in spec["versions"] if one["served"])
            resource = await client.resource(spec["names"]["kind"], f"{spec['group']}/{version}")
            if await namespaces.holds(client, resource):
                found.append(crd)
        except (NotFound, UnknownResource):
            continue
    return found


async def _left_to_others(client: Client, resource: Resource, name: str, namespace: str, owner: Owner) -> bool:
    """Return whether an object has other owners; this owner's label is then removed."""
    found = (await client.get(resource, name, namespace))["metadata"]
    if not ledger.others(found.get("labels") or {}, owner):
        return False
    await client.patch(resource, name, namespace, body={"metadata": {"labels": {owner.label: None}}})
    return True


async def wait_established(client: Client, crds: Iterable[Object], *, timeout: float = _ESTABLISHED_S) -> None:
    """Wait by watch until the API server serves each CustomResourceDefinition. ``timeout`` in seconds.

    Raises OperatorError with those that are not served, and the reasons in their conditions.
    """
    waiting = {crd["metadata"]["name"]: "not seen yet" for crd in crds}
    if not waiting:
        return
    resource = await client.resource("CustomResourceDefinition", "apiextensions.k8s.io/v1")
    try:
        async with asyncio.timeout(timeout), asyncio.TaskGroup() as each:
            # One watch for each, by name: a shared cluster has hundreds of other CRDs, megabytes in total.
            for name in list(waiting):
                each.create_task(_wait_established(client, resource, name, waiting))
    except TimeoutError:
        names = "; ".join(f"{name}: {reason}" for name, reason in waiting.items())
        raise OperatorError(
            f"after {timeout:g} s the API server does not serve these CRDs: {names}",
            next_step="`kubectl describe crd NAME` shows all conditions.",
        ) from None
    except ExceptionGroup as group:
        # All requests are alike: one permission error holds for all.
        raise group.exceptions[0] from None


async def _wait_established(client: Client, resource: Resource, name: str, waiting: dict[str, str]) -> None:
    """Remove a CRD from ``waiting`` once it is served; until then store the reason there."""
    async with aclosing(follow(client, resource, field_selector=f"metadata.name={name}")) as changes:
        async for change in changes:
            if change.kind == "present" and change.object is not None:
                waiting[name] = _not_established(change.object)
            if not waiting[name]:
                del waiting[name]
                return


async def wait_settled(client: Client, crds: Iterable[Object]) -> None:
    """Wait until creates of these kinds are served without delay.

    kube-apiserver delays every create of a custom resource for two seconds while its CRD has been Established for less
    than that (apiextensions-apiserver, customresource_handler.go): the first phase would measure that delay.
    """
    names = [crd["metadata"]["name"] for crd in crds]
    if not names:
        return
    resource = await client.resource("CustomResourceDefinition", "apiextensions.k8s.io/v1")
    found = await asyncio.gather(*(client.get(resource, name) for name in names))
    newest = max(_established_at(crd) for crd in found)
    age = (datetime.datetime.now(datetime.UTC) - newest).total_seconds()
    # The cluster's clock may differ from this machine's: never wait longer than the delay itself.
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


async def remove_deployment(client: Client, namespace: str, name: str, *, operator: str) -> bool:
    """Delete a Deployment; its pods end after that. Return False if there is none, or one of another user."""
    try:
        metadata = (await client.get(DEPLOYMENTS, name, namespace))["metadata"]
        labels = metadata.get("labels") or {}
        if not labels.get(MANAGED) or labels.get(OPERATOR) != operator:
            return False
        await client.delete(DEPLOYMENTS, name, namespace, uid=metadata["uid"])
    except NotFound:
        return False
    return True


async def wait_pods_gone(client: Client, namespace: str, selector: str) -> None:
    """Return when no pod matches a selector. Raises OperatorError after the time limit."""
    try:
        await wait_gone(client, PODS, namespace, label_selector=selector, timeout_s=PODS_GONE_S)
    except StillThere as error:
        left = [pod.metadata.name for pod in error.objects]
        raise OperatorError(
            f"pods of the operator are still there {PODS_GONE_S:g} s after its Deployment was deleted: "
            f"{', '.join(left)}",
            next_step=f"See why: kubectl --namespace {namespace} describe pod {' '.join(left)}",
        ) from None
