"""A namespace per test: created with the run's label, and removed with its content."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing

import msgspec

from ..cluster.namespace_cleanup import LEASE_LABEL
from ..errors import WorkloadError
from ..kube import namespaces
from ..kube.client import Client
from ..kube.errors import ApiError, Conflict, Forbidden, NotFound, ServerUnavailable
from ..kube.informer import Followed, follow
from ..kube.resources import Resource
from ..operator.install import MANAGED
from ..operator.manifests import Object
from .absence import account, shortened, wait_gone
from .actions import CONCURRENCY, Pace, delete, in_parallel
from .template import RUN_LABEL

TEST_ANNOTATION = "grovescale.io/test"

_NAME_LENGTH = 40
_OBJECTS_S = 300.0
_NAMESPACE_S = 60.0
_STRIPPED_S = 30.0

Progress = Callable[[str], None]


def name_for(test: str) -> str:
    """Return a unique namespace name that contains the test's name."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[:_NAME_LENGTH].strip("-")
    return f"{slug or 'test'}-{secrets.token_hex(3)}"


async def create(client: Client, *, test: str, run_id: str, lease_id: str = "", labels: Mapping[str, str] = {}) -> str:
    """Create a namespace for a test and return its name. The run's id is a label of it, the test's an annotation.

    ``lease_id``: of the cluster's lease under which the test runs; if its process dies, the namespace is removed.
    ``labels``: further labels, as the cluster's own, which identify all objects of the run on a shared cluster.
    """
    name = name_for(test)
    own = {RUN_LABEL: run_id, MANAGED: "true"} | ({LEASE_LABEL: lease_id} if lease_id else {})
    metadata = {"name": name, "labels": {**labels, **own}, "annotations": {TEST_ANNOTATION: test}}
    try:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    except ApiError as error:
        raise WorkloadError(
            f"no namespace for {test}: {error.message}",
            next_step=f"Let {error.admission} of the cluster take namespaces with the label {RUN_LABEL}."
            if error.admission
            else "The harness' identity needs `create` on namespaces.",
        ) from error
    return name


async def remove(
    client: Client,
    namespace: str,
    *,
    run_id: str = "",
    objects: Sequence[Object] = (),
    objects_timeout: float = _OBJECTS_S,
    timeout: float = _NAMESPACE_S,
    at_once: bool = False,
    progress: Progress = lambda text: None,
) -> list[str]:
    """Remove a test's namespace and return when it is gone; times in seconds, ``timeout`` since the last change.

    ``objects`` (the workload) are deleted first, while the operator runs and can remove their finalizers. If it does
    not, or other objects block the namespace, the finalizers of all remaining objects are removed: a run created the
    namespace, and so everything in it. Returns one line for each object whose finalizers were removed; empty if there
    were none. ``at_once``: do not wait for the namespace controller, which waits 5 s before it begins, but empty and
    finalize the namespace here. For clusters with one API server: with several, another one may not know yet that the
    namespace accepts no new objects. Raises WorkloadError for a namespace that no run (or not run ``run_id``) created,
    for one that stays, and if the API server does not answer.
    """
    with _answered(namespace):
        resource = await client.resource("Namespace", "v1")
        if not await _is_ours(client, resource, namespace, run_id):
            return []
        try:
            await delete(client, objects)
            await wait_gone(client, objects, timeout=objects_timeout)
        except WorkloadError as error:
            progress(f"namespace {namespace}: {error.message}")
        await _ask(client, resource, namespace)
        if at_once:
            await _finalise(client, resource, namespace)
        if await _gone(client, resource, namespace, timeout):
            return []
        freed = await _free(client, namespace)
        if freed:
            progress(f"namespace {namespace}: freed of their finalizers:\n{shortened(freed)}")
        if await _gone(client, resource, namespace, _STRIPPED_S):
            return freed
        raise WorkloadError(
            f"namespace {namespace} does not go:\n" + shortened(await _holders(client, resource, namespace)),
            next_step=f"kubectl get namespace {namespace} -o yaml shows what it waits for.",
        )


async def finish(client: Client, namespace: str, *, timeout: float = _NAMESPACE_S, at_once: bool = False) -> None:
    """Return when a namespace that is being deleted is gone; any other namespace is left unchanged.

    ``timeout``: seconds since its last change; ``at_once``: as in `remove`. Raises WorkloadError.
    """
    with _answered(namespace):
        resource = await client.resource("Namespace", "v1")
        try:
            found = await client.get(resource, namespace)
        except NotFound:
            return
        if "deletionTimestamp" not in found["metadata"]:
            return
        if at_once:
            await _finalise(client, resource, namespace)
        if not await _gone(client, resource, namespace, timeout):
            raise WorkloadError(
                f"namespace {namespace} does not go:\n" + shortened(await _holders(client, resource, namespace)),
                next_step=f"kubectl get namespace {namespace} -o yaml shows what it waits for.",
            )


@contextlib.contextmanager
def _answered(namespace: str) -> Iterator[None]:
    """Turn a missing answer of the API server into an error that says what happens to the namespace."""
    try:
        yield
    except ServerUnavailable as error:
        raise WorkloadError(
            f"namespace {namespace} is not removed, since the API server does not answer: {error.message}",
            next_step="It goes at the cluster's end, if that answers by then; see `grovescale status`, and clear what "
            "is left with: grovescale down --all",
        ) from error


async def _is_ours(client: Client, resource: Resource, namespace: str, run_id: str) -> bool:
    """Return whether the namespace needs removal; raises WorkloadError if it belongs to others."""
    try:
        found = await client.get(resource, namespace)
    except NotFound:
        return False
    label = found["metadata"].get("labels", {}).get(RUN_LABEL)
    if label is None or (run_id and label != run_id):
        raise WorkloadError(
            f"namespace {namespace} was not made by {f'run {run_id}' if run_id else 'a run'}; it stays as it is",
            next_step="Remove it by hand if it is yours.",
        )
    return True


async def _ask(client: Client, resource: Resource, namespace: str) -> None:
    try:
        await client.delete(resource, namespace)
    except (NotFound, Conflict):
        # Conflict: its deletion was requested before.
        return


async def _finalise(client: Client, resource: Resource, namespace: str) -> None:
    """Do the namespace controller's work if no objects with finalizers or grace period are left."""
    held = await _held_kinds(client, namespace)
    for kind in held:
        if "deletecollection" in kind.verbs:
            await namespaces.clear(client, kind, namespace)
    for kind in held:
        if await namespaces.holds(client, kind, namespace):
            return
    try:
        found = await client.get(resource, namespace)
        found["spec"] = {"finalizers": []}
        path = resource.path(name=namespace, subresource="finalize")
        await client.request("PUT", path, body=msgspec.json.encode(found))
    except (NotFound, Conflict, Forbidden):
        # The namespace controller was faster, or only it has the permission.
        return


async def _gone(client: Client, resource: Resource, namespace: str, patience: float) -> bool:
    """Return whether a namespace is gone; False after ``patience`` seconds without a change.

    Its status contains the number of remaining objects: a large namespace may take as long as that decreases.
    """
    changes = follow(client, resource, field_selector=f"metadata.name={namespace}")
    live = False
    async with aclosing(changes) as watched:
        while True:
            try:
                change = await asyncio.wait_for(anext(watched), patience)
            except TimeoutError:
                return False
            live = live or change.kind == "live"
            if live and not change.present:
                return True


async def _free(client: Client, namespace: str) -> list[str]:
    """Remove the finalizers of all objects in a namespace; return a line for each object that had some."""
    freed: list[str] = []
    for kind in await _held_kinds(client, namespace):

        async def free(found: Followed, kind: Resource = kind) -> None:
            freed.append(account(kind.kind, found))
            with contextlib.suppress(NotFound):
                await client.patch(kind, found.metadata.name, namespace, body={"metadata": {"finalizers": None}})

        async for page in namespaces.objects(client, kind, namespace, Followed):
            stuck = [found for found in page if found.metadata.finalizers]
            await in_parallel(stuck, free, concurrency=CONCURRENCY, pace=Pace(None))
    return freed


async def _held_kinds(client: Client, namespace: str) -> list[Resource]:
    """Return every kind with objects in a namespace, as far as permissions allow."""
    held: list[Resource] = []

    async def look(kind: Resource) -> None:
        with contextlib.suppress(Forbidden, NotFound):
            if await namespaces.holds(client, kind, namespace):
                held.append(kind)

    await in_parallel(await namespaces.kinds(client), look, concurrency=CONCURRENCY, pace=Pace(None))
    return held


async def _holders(client: Client, resource: Resource, namespace: str) -> list[str]:
    """Return what blocks a namespace's deletion, from its conditions and content."""
    try:
        found = await client.get(resource, namespace)
    except NotFound:
        return []
    conditions = found.get("status", {}).get("conditions", [])
    lines = [f"{c['type']}: {c.get('message', '')}" for c in conditions if c.get("status") == "True"]
    for kind in await _held_kinds(client, namespace):
        async for page in namespaces.objects(client, kind, namespace, Followed):
            lines += [account(kind.kind, item) for item in page]
    return lines or ["nothing is left in it: does the namespace controller (kube-controller-manager) run?"]
