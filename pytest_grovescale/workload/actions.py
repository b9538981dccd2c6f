"""Actions on a workload's objects: apply, trigger, scale, patch, delete, and the wait for their end.

Requests are concurrent, at a given rate. All raise WorkloadError, with the object and the API server's reason, at the
first failed request; requests in flight are finished, no others start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from ..errors import UsageError, WorkloadError
from ..kube import informer
from ..kube.client import CONCURRENCY, Client, in_parallel
from ..kube.errors import ApiError, Forbidden, NotFound, ServerUnavailable
from ..kube.informer import StillThere, described, shortened
from ..kube.resources import Resource, UnknownResource
from ..operator.manifests import Object, title

T = TypeVar("T")


class Pace:
    """Schedule in which the k-th start is due k/rate seconds after the first, however long requests take: no drift.

    ``clock`` returns seconds, ``sleep`` waits; tests replace both.
    """

    def __init__(
        self,
        rate: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if rate is not None and not rate > 0:
            raise UsageError(f"a rate of {rate} objects a second", next_step="Give a rate above 0, or None.")
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._first: float | None = None
        self._started = 0

    async def turn(self) -> None:
        """Return when the next start is due."""
        if self._rate is None:
            return
        now = self._clock()
        if self._first is None:
            self._first = now
        due = self._first + self._started / self._rate
        self._started += 1
        if due > now:
            await self._sleep(due - now)


Propagation = Literal["Background", "Foreground", "Orphan"]
Mode = Literal["apply", "create"]

_Action = Callable[[Resource, Object], Awaitable[None]]


async def apply(
    client: Client,
    objects: Sequence[Object],
    *,
    rate: float | None = None,
    concurrency: int = CONCURRENCY,
    mode: Mode = "apply",
    pace: Pace | None = None,
) -> None:
    """Create or update objects by server-side apply, or create them (``mode="create"``: they must not exist).

    At most ``concurrency`` requests at a time; with ``rate``, the k-th starts no earlier than k/rate seconds after the
    first. Unknown fields are an error, not dropped.
    """

    async def one(resource: Resource, obj: Object) -> None:
        placed = _placed(resource, obj)
        await (client.apply(placed) if mode == "apply" else client.create(placed))

    await _each(client, objects, one, "refused", concurrency=concurrency, pace=pace or Pace(rate))


async def trigger(
    client: Client,
    objects: Sequence[Object],
    key: str,
    value: str,
    *,
    part: Literal["annotations", "labels"] = "annotations",
    concurrency: int = CONCURRENCY,
) -> None:
    """Set an annotation or a label of each object, not its spec. ``value`` must differ from the last one."""
    await patch(client, objects, {"metadata": {part: {key: value}}}, concurrency=concurrency)


async def patch(
    client: Client, objects: Sequence[Object], body: Mapping[str, Any], *, concurrency: int = CONCURRENCY
) -> None:
    """Merge-patch each object."""

    async def one(resource: Resource, obj: Object) -> None:
        await client.patch(resource, *_key(obj), body=dict(body), kind="merge")

    await _each(client, objects, one, "could not be patched", concurrency=concurrency)


async def scale(client: Client, objects: Sequence[Object], replicas: int, *, concurrency: int = CONCURRENCY) -> None:
    """Set the replicas of each object: by its scale subresource if there is one, else ``spec.replicas``."""
    if replicas < 0:
        raise WorkloadError(f"{replicas} replicas are not possible", next_step="Scale to 0 or more.")

    async def one(resource: Resource, obj: Object) -> None:
        subresource = "scale" if "scale" in resource.subresources else ""
        await client.patch(resource, *_key(obj), body={"spec": {"replicas": replicas}}, subresource=subresource)

    await _each(client, objects, one, "could not be scaled", concurrency=concurrency)


async def delete(
    client: Client,
    objects: Sequence[Object],
    *,
    propagation: Propagation = "Background",
    grace_seconds: int | None = None,
    rate: float | None = None,
    concurrency: int = CONCURRENCY,
) -> None:
    """Request the deletion of each object; a missing one is no error. See `wait_gone`."""

    async def one(resource: Resource, obj: Object) -> None:
        try:
            await client.delete(resource, *_key(obj), propagation=propagation, grace_seconds=grace_seconds)
        except NotFound:
            return

    await _each(client, objects, one, "could not be deleted", concurrency=concurrency, pace=Pace(rate))


async def resources_of(client: Client, objects: Sequence[Object]) -> dict[tuple[str, str], Resource]:
    """Return (apiVersion, kind) → resource for all kinds among the objects.

    Raises WorkloadError for a kind that the cluster does not serve.
    """
    found: dict[tuple[str, str], Resource] = {}
    for obj in objects:
        pair = (obj["apiVersion"], obj["kind"])
        if pair in found:
            continue
        try:
            found[pair] = await client.resource(obj["kind"], obj["apiVersion"])
        except UnknownResource as error:
            raise WorkloadError(
                f"{title(obj)}: {error.message}; none of the workload's objects was touched", next_step=error.next_step
            ) from error
    return found


async def _each(
    client: Client,
    objects: Sequence[Object],
    action: _Action,
    failure: str,
    *,
    concurrency: int,
    pace: Pace | None = None,
) -> None:
    resources = await resources_of(client, objects)

    async def one(obj: Object) -> None:
        resource = resources[obj["apiVersion"], obj["kind"]]
        try:
            await action(resource, obj)
        except ApiError as error:
            raise _refused(obj, resource, failure, error) from error

    await in_parallel(objects, one, concurrency=concurrency, turn=pace.turn if pace is not None else None)


def _refused(obj: Object, resource: Resource, failure: str, error: ApiError) -> WorkloadError:
    causes = "".join(f"\n  {cause}" for cause in error.causes)
    return WorkloadError(f"{title(obj)} {failure}: {error.message}{causes}", next_step=_next_step(obj, resource, error))


def _next_step(obj: Object, resource: Resource, error: ApiError) -> str:
    if error.admission:
        return f"It is {error.admission} of the cluster that does not let it through: meet it, or have it exempted."
    if isinstance(error, NotFound):
        return "Apply the workload first; its namespace must be there too."
    if isinstance(error, Forbidden):
        return f"Allow it for the harness' identity: {resource.qualified} in {obj['metadata'].get('namespace')}."
    if isinstance(error, ServerUnavailable) and error.code == 0:
        return "Whether it was done is not known. See the API server's log in the cluster's folder."
    return f"Correct the template, or the parameters given to it. kubectl explain {resource.plural} shows the fields."


def _placed(resource: Resource, obj: Object) -> Object:
    """Return the object without namespace if its kind is cluster-scoped: rendering cannot know that."""
    if resource.namespaced:
        return obj
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "namespace"}}


def _key(obj: Object) -> tuple[str, str | None]:
    return obj["metadata"]["name"], obj["metadata"].get("namespace")


_WATCHES = 20
"""Maximum number of open watches, each with a connection. The others wait without loss: all objects must be gone."""


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of one kind in one namespace, and the names of those whose absence is awaited."""

    resource: Resource
    namespace: str
    """Empty for a cluster-scoped kind."""
    names: frozenset[str]


async def wait_gone(client: Client, objects: Sequence[Object], *, timeout: float) -> None:
    """Return when none of the objects exists any more. ``timeout`` in seconds, for all of them together.

    One watch for each kind and namespace; for a single object, and for each cluster-scoped one, a watch of only that
    object: the number of other objects of its kind is unknown. Raises WorkloadError with the remaining objects, their
    finalizers and whether their deletion was requested.
    """
    resources = await resources_of(client, objects)
    deadline = time.monotonic() + timeout
    late: list[str] = []

    async def wait(one: Collection) -> None:
        left_s = deadline - time.monotonic()
        try:
            await informer.wait_gone(client, one.resource, one.namespace or None, names=one.names, timeout_s=left_s)
        except StillThere as error:
            kind = one.resource.kind
            late.extend([described(kind, found) for found in error.objects] or [f"{kind} {', '.join(one.names)}"])

    await in_parallel(watched(objects, resources), wait, concurrency=_WATCHES)
    if late:
        raise WorkloadError(
            f"after {timeout:g} s there are still:\n" + shortened(late),
            next_step="A finalizer is taken off by the controller that set it: is the operator running?",
        )


def watched(objects: Sequence[Object], resources: Mapping[tuple[str, str], Resource]) -> list[Collection]:
    """Return the watches to open for objects; ``resources`` as of `resources_of`."""
    names: dict[tuple[Resource, str, str], set[str]] = {}
    for obj in objects:
        resource, metadata = resources[obj["apiVersion"], obj["kind"]], obj["metadata"]
        # Cluster-scoped objects have a watch each, by name.
        place = (metadata.get("namespace", ""), "") if resource.namespaced else ("", metadata["name"])
        names.setdefault((resource, *place), set()).add(metadata["name"])
    return [
        Collection(resource=resource, namespace=namespace, names=frozenset(those))
        for (resource, namespace, _), those in names.items()
    ]
