"""A namespace per test: created with the run's label, and removed with its content."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import msgspec

from ..cluster.namespace_cleanup import LEASE_LABEL
from ..errors import WorkloadError
from ..kube import namespaces
from ..kube.client import Client, in_parallel
from ..kube.errors import ApiError, Forbidden, NotFound, ServerUnavailable
from ..kube.informer import shortened
from ..kube.resources import Resource
from ..operator.install import MANAGED
from ..operator.manifests import Object
from .actions import delete, resources_of, wait_gone
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

    ``objects`` (the workload) are deleted first, while the operator runs and can remove their finalizers; what belongs
    to those of no namespace goes with them, wherever it is. If the operator does not, or other objects block the
    namespace, the finalizers of all remaining objects are removed: a run created the
    namespace, and so everything in it. Returns one line for each object whose finalizers were removed; empty if there
    were none. ``at_once``: do not wait for the namespace controller, which waits 5 s before it begins, but empty and
    finalize the namespace here. For clusters with one API server: with several, another one may not know yet that the
    namespace accepts no new objects. Raises WorkloadError for a namespace that no run (or not run ``run_id``) created,
    for one that stays, and if the API server does not answer.
    """
    with _answered(namespace):
        if not await _is_ours(client, namespace, run_id):
            return []
        try:
            await delete(client, objects)
            await wait_gone(client, objects, timeout=objects_timeout)
            await _remove_dependents(client, objects, timeout=objects_timeout, at_once=at_once)
        except WorkloadError as error:
            progress(f"namespace {namespace}: {error.message}")
        await namespaces.delete(client, namespace)
        if at_once:
            await namespaces.finalize(client, namespace)
        if await namespaces.is_gone(client, namespace, patience_s=timeout):
            return []
        freed = await namespaces.free(client, namespace)
        if freed:
            progress(f"namespace {namespace}: freed of their finalizers:\n{shortened(freed)}")
        await _wait_gone(client, namespace, _STRIPPED_S)
        return freed


async def finish(client: Client, namespace: str, *, timeout: float = _NAMESPACE_S, at_once: bool = False) -> None:
    """Return when a namespace that is being deleted is gone; any other namespace is left unchanged.

    ``timeout``: seconds since its last change; ``at_once``: as in `remove`. Raises WorkloadError.
    """
    with _answered(namespace):
        try:
            found = await client.get(await client.resource("Namespace", "v1"), namespace)
        except NotFound:
            return
        if "deletionTimestamp" not in found["metadata"]:
            return
        if at_once:
            await namespaces.finalize(client, namespace)
        await _wait_gone(client, namespace, timeout)


class _Owner(msgspec.Struct, frozen=True):
    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    name: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Group, kind and name: it may be named in another version."""
        return self.api_version.rpartition("/")[0], self.kind, self.name


class _Owned(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    owners: tuple[_Owner, ...] = msgspec.field(name="ownerReferences", default=())


class _Dependent(msgspec.Struct, frozen=True):
    metadata: _Owned


async def _remove_dependents(client: Client, objects: Sequence[Object], *, timeout: float, at_once: bool) -> None:
    """Return when nothing has an owner among those of ``objects`` that are of no namespace and gone by now.

    The garbage collector deletes what they own; its namespaces are emptied here, where that is allowed (``at_once``).
    The next test may have objects of the same names, whose operator would find what still goes, with owners that are no
    more. On a cluster of others (not ``at_once``) it is looked for among what is of no namespace either.
    """
    resources = await resources_of(client, objects)
    owners = {
        _Owner(obj["apiVersion"], obj["kind"], obj["metadata"]["name"]).key
        for obj in objects
        if not resources[obj["apiVersion"], obj["kind"]].namespaced
    }

    async def empty(name: str) -> None:
        await namespaces.delete(client, name)
        await namespaces.finalize(client, name)

    deadline = time.monotonic() + timeout
    while owners and (held := await _dependents(client, owners, everywhere=at_once)):
        if at_once:
            await in_parallel([one["metadata"]["name"] for one in held if one["kind"] == "Namespace"], empty)
        await wait_gone(client, held, timeout=deadline - time.monotonic())


async def _dependents(client: Client, owners: Set[tuple[str, str, str]], *, everywhere: bool) -> list[Object]:
    """Return what has one of ``owners`` (`_Owner.key`), as apiVersion, kind and name.

    ``everywhere``: what is in a namespace, too.
    """
    found: list[Object] = []

    async def look(kind: Resource) -> None:
        with contextlib.suppress(Forbidden, NotFound):
            async for page in namespaces.objects(client, kind, None, _Dependent):
                found.extend(
                    {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": msgspec.to_builtins(one.metadata)}
                    for one in page
                    if any(owner.key in owners for owner in one.metadata.owners)
                )

    kinds = await namespaces.kinds(client, cluster_scoped=True)
    await in_parallel([kind for kind in kinds if everywhere or not kind.namespaced], look)
    return found


async def _wait_gone(client: Client, namespace: str, patience_s: float) -> None:
    if not await namespaces.is_gone(client, namespace, patience_s=patience_s):
        raise WorkloadError(
            f"namespace {namespace} does not go:\n" + shortened(await namespaces.holders(client, namespace)),
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


async def _is_ours(client: Client, namespace: str, run_id: str) -> bool:
    """Return whether the namespace needs removal; raises WorkloadError if it belongs to others."""
    try:
        found = await client.get(await client.resource("Namespace", "v1"), namespace)
    except NotFound:
        return False
    label = found["metadata"].get("labels", {}).get(RUN_LABEL)
    if label is None or (run_id and label != run_id):
        raise WorkloadError(
            f"namespace {namespace} was not made by {f'run {run_id}' if run_id else 'a run'}; it stays as it is",
            next_step="Remove it by hand if it is yours.",
        )
    return True
