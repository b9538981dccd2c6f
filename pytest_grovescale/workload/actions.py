"""Actions on a workload's objects: apply, trigger, scale, patch, delete; concurrently, at a given rate.

All raise WorkloadError, with the object and the API server's reason, at the first failed request; requests in flight
are finished, no others start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from ..errors import WorkloadError
from ..kube.client import Client
from ..kube.errors import ApiError, Forbidden, NotFound, ServerUnavailable
from ..kube.resources import Resource, UnknownResource
from ..operator.manifests import Object, title
from .pace import Pace, in_parallel

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
