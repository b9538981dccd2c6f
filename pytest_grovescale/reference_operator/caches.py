"""All watched kinds: for each its resource, its decoder and its store with the indexes that the reconcilers need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from . import naming, resources
from .objects import (
    Autoscaler,
    Object,
    Pod,
    PodClique,
    PodCliqueSet,
    PodGang,
    Role,
    ScalingGroup,
    Service,
)
from .resources import Resource
from .store import Indexer, Store

T = TypeVar("T", bound=Object)


class Cached(Generic[T]):
    """One kind."""

    def __init__(
        self, resource: Resource, kind: type[T], *, selector: str = naming.MANAGED_SELECTOR, **indexers: Indexer[T]
    ) -> None:
        self.resource = resource
        self.kind = kind
        self.selector = selector
        """Label selector of the watch; the cache holds no other objects."""
        self.store: Store[T] = Store(owner=owner, **indexers)
        self.decode = msgspec.json.Decoder(kind).decode

    def owned_by(self, obj: Object) -> list[T]:
        """Return the cached objects that ``obj`` controls."""
        return self.store.by("owner", obj.uid)


class Caches:
    """The stores of all kinds."""

    def __init__(self) -> None:
        self.sets = Cached(resources.PODCLIQUESET, PodCliqueSet, selector="")
        self.cliques = Cached(resources.PODCLIQUE, PodClique, part_of=part_of, gang=gang)
        self.groups = Cached(resources.SCALING_GROUP, ScalingGroup, part_of=part_of)
        self.gangs = Cached(resources.PODGANG, PodGang, part_of=part_of)
        self.pods = Cached(resources.POD, Pod, part_of=part_of, clique=clique, namespace=namespace)
        self.services = Cached(resources.SERVICE, Service, part_of=part_of)
        self.accounts = Cached(resources.SERVICE_ACCOUNT, Object, part_of=part_of)
        self.roles = Cached(resources.ROLE, Role, part_of=part_of)
        self.bindings = Cached(resources.ROLE_BINDING, Object, part_of=part_of)
        self.secrets = Cached(resources.SECRET, Object, part_of=part_of)
        self.autoscalers = Cached(resources.AUTOSCALER, Autoscaler, part_of=part_of)

    def __iter__(self) -> Iterator[Cached[Object]]:
        return iter(vars(self).values())


def owner(obj: Object) -> Iterable[str]:
    reference = obj.controller
    return (reference.uid,) if reference else ()


def part_of(obj: Object) -> Iterable[str]:
    """Return ``namespace/name`` of the PodCliqueSet in an object's labels."""
    name = obj.metadata.labels.get(naming.PART_OF)
    return (f"{obj.metadata.namespace}/{name}",) if name else ()


def clique(obj: Object) -> Iterable[str]:
    """Return ``namespace/name`` of the PodClique in a pod's labels."""
    name = obj.metadata.labels.get(naming.PODCLIQUE)
    return (f"{obj.metadata.namespace}/{name}",) if name else ()


def gang(obj: Object) -> Iterable[str]:
    """Return ``namespace/name`` of the PodGang in a clique's labels."""
    name = obj.metadata.labels.get(naming.PODGANG)
    return (f"{obj.metadata.namespace}/{name}",) if name else ()


def namespace(obj: Object) -> Iterable[str]:
    return (obj.metadata.namespace,)
