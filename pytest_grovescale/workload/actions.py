"""Actions on a workload's objects: apply, trigger, scale, patch, delete; concurrently, at a given rate.

All raise WorkloadError, with the object and the API server's reason, at the first failed request; requests in flight
are finished, no others start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from ..errors import UsageError, WorkloadError
from ..kube.client import Client
from ..kube.errors import ApiError, Forbidden, NotFound, ServerUnavailable
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


async def in_parallel(
    items: Iterable[T], action: Callable[[T], Awaitable[None]], *, concurrency: int, pace: Pace
) -> None:
    """Run ``action`` for each item, started in order, at most ``concurrency`` at a time.

    The first exception is raised after all running actions have ended; no others start.
    """
    if concurrency < 1:
        raise UsageError(f"a concurrency of {concurrency}", next_step="Give 1 or more.")
    waiting = iter(items)
    turn = asyncio.Lock()
    failed: list[Exception] = []

    async def worker() -> None:
        while not failed:
            async with turn:
                item = next(waiting, _END)
                if item is _END:
                    return
                await pace.turn()
            try:
                await action(item)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 raised again below, once the others have ended
                failed.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    if failed:
        raise failed[0]


_END = object()


Propagation = Literal["Background", "Foreground", "Orphan"]
Mode = Literal["apply", "create"]

CONCURRENCY = 20

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
    """Request the deletion of each object; a missing one is no error. See ``absence.wait_gone``."""

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

    await in_parallel(objects, one, concurrency=concurrency, pace=pace or Pace(None))


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
