"""Which event triggers which controller, for which object: predicates and mappings.

An event that changes nothing a reconciler reads triggers nothing. Events that come in groups (the pods of a clique
becoming ready, the cliques of a set becoming available) trigger after a short delay, so that one reconcile handles all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from . import naming
from .caches import Caches
from .defects import HOT_LOOP, MISSED_DELETES, RESTLESS, WAKE_ALL, Defects
from .naming import compute
from .objects import Object, Pod, PodClique, PodCliqueSet, PodGang, ScalingGroup
from .store import Handler, Store
from .work_queue import WorkQueue

T = TypeVar("T", bound=Object)

POD_PROGRESS_S = 0.1
"""Delay for pods that become scheduled or ready, or end, s."""
CHILD_CHANGE_S = 0.2
"""Delay for events of the children of a set or of a scaling group, s."""
PER_REPLICA_S = 0.0004
"""Delay of a large set for each of its replicas, s. A reconcile of a set reads all replicas, and its events grow in
proportion to them, too: with a fixed delay the CPU time of a deployment grows with the square of its size."""

Wake = Callable[[str], None]


def connect(caches: Caches, sets: WorkQueue, cliques: WorkQueue, groups: WorkQueue, defects: Defects) -> None:
    """Connect the caches' changes to the controllers that they concern."""

    def wake(key: str) -> None:
        sets.add_after(key, set_delay(caches.sets.store.get(key)))

    _set_events(caches, sets, cliques, groups, status_wakes=HOT_LOOP in defects)
    _clique_events(caches, wake, cliques, groups, annotations_wake=RESTLESS in defects)
    _group_events(caches, wake, groups)
    _pod_events(caches, wake, cliques, wakes_all=WAKE_ALL in defects, misses_deletes=MISSED_DELETES in defects)
    _gang_events(caches, wake, cliques)
    infrastructure: tuple[Store[Any], ...] = (
        caches.services.store,
        caches.accounts.store,
        caches.roles.store,
        caches.bindings.store,
        caches.secrets.store,
        caches.autoscalers.store,
    )
    for store in infrastructure:
        _infrastructure_events(store, wake)


def set_delay(pcs: PodCliqueSet | None) -> float:
    """Return the seconds after which a change of its children triggers a set."""
    return CHILD_CHANGE_S if pcs is None else max(CHILD_CHANGE_S, pcs.spec.replicas * PER_REPLICA_S)


def _own_events(
    store: Store[T], queue: WorkQueue, changed: Callable[[T, T], bool], *, and_then: Handler[T] | None = None
) -> None:
    def handle(old: T | None, new: T | None) -> None:
        if new is not None and (old is None or changed(old, new)):
            queue.add(new.key)
        if and_then is not None:
            and_then(old, new)

    store.on_change(handle)


def _spec_changed(old: Object, new: Object) -> bool:
    """Return whether spec (a deletion counts: it changes the generation) or finalizers changed."""
    return (
        old.metadata.generation != new.metadata.generation
        or old.metadata.finalizers != new.metadata.finalizers
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


def _triggered(old: Object, new: Object) -> bool:
    return old.metadata.annotations.get(naming.TRIGGER) != new.metadata.annotations.get(naming.TRIGGER)


def _part_of(obj: Object) -> Iterable[str]:
    name = obj.metadata.labels.get(naming.PART_OF)
    return (f"{obj.metadata.namespace}/{name}",) if name else ()


def _set_events(caches: Caches, sets: WorkQueue, cliques: WorkQueue, groups: WorkQueue, *, status_wakes: bool) -> None:
    def changed(old: PodCliqueSet, new: PodCliqueSet) -> bool:
        own_finalizer = naming.SET_FINALIZER in new.metadata.finalizers
        if own_finalizer and naming.SET_FINALIZER not in old.metadata.finalizers:
            # The reconcile that added it is still running; nothing else has changed.
            return old.metadata.generation != new.metadata.generation
        # Defect hot-loop: the status written by a reconcile triggers like any other event.
        return _spec_changed(old, new) or _triggered(old, new) or (status_wakes and old.status != new.status)

    def children(old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        """A trigger, and a template that replaces pods, concern the children too."""
        if old is None or new is None:
            return
        replaced = old.metadata.generation != new.metadata.generation and compute(old) != compute(new)
        if not replaced and not _triggered(old, new):
            return
        for clique in caches.cliques.store.by("part_of", new.key):
            cliques.add(clique.key)
        for group in caches.groups.store.by("part_of", new.key):
            groups.add(group.key)

    _own_events(caches.sets.store, sets, changed, and_then=children)


def _clique_events(
    caches: Caches, wake: Wake, cliques: WorkQueue, groups: WorkQueue, *, annotations_wake: bool
) -> None:
    def changed(old: PodClique, new: PodClique) -> bool:
        # Pods are made for the hash, which changes without the spec where labels of the template do.
        hashes = [one.metadata.labels.get(naming.TEMPLATE_HASH) for one in (old, new)]
        # Defect restless: the annotation written by a reconcile triggers the next one.
        return (
            _spec_changed(old, new)
            or hashes[0] != hashes[1]
            or (annotations_wake and old.metadata.annotations != new.metadata.annotations)
        )

    def owners(old: PodClique | None, new: PodClique | None) -> None:
        clique = new or old
        if clique is None or (old is None and new is not None and not new.status.observed_generation):
            return
        if old is not None and new is not None and old.status == new.status and not _spec_changed(old, new):
            return
        for key in _part_of(clique):
            wake(key)
        group = clique.metadata.labels.get(naming.SCALING_GROUP)
        if group is not None:
            groups.add_after(f"{clique.namespace}/{group}", CHILD_CHANGE_S)
        if new is not None and new.available and not (old is not None and old.available):
            _wake_later_cliques(caches, cliques, new)

    _own_events(caches.cliques.store, cliques, changed, and_then=owners)


def _wake_later_cliques(caches: Caches, cliques: WorkQueue, earlier: PodClique) -> None:
    gang = earlier.metadata.labels.get(naming.PODGANG, "")
    for clique in caches.cliques.store.by("gang", f"{earlier.namespace}/{gang}"):
        if earlier.name in clique.spec.starts_after:
            cliques.add(clique.key)


def _group_events(caches: Caches, wake: Wake, groups: WorkQueue) -> None:
    def owners(old: ScalingGroup | None, new: ScalingGroup | None) -> None:
        group = new or old
        if group is None or (old is not None and new is not None and old.status == new.status):
            return
        for key in _part_of(group):
            wake(key)

    _own_events(caches.groups.store, groups, _spec_changed, and_then=owners)


def _pod_events(caches: Caches, wake: Wake, cliques: WorkQueue, *, wakes_all: bool, misses_deletes: bool) -> None:
    doomed = caches.pods.store.doomed

    def handle(old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        # Defect wake-all.
        for other in caches.cliques.store if wakes_all else ():
            cliques.add(other.key)
        clique = pod.metadata.labels.get(naming.PODCLIQUE)
        # Defect missed-deletes.
        if clique is None or (misses_deletes and (new is None or doomed(new))):
            return
        key = f"{pod.namespace}/{clique}"
        if old is None or new is None or doomed(old) != doomed(new):
            # The number of pods has changed: concerns the clique, and the gang that lists them.
            cliques.add(key)
            for parent in _part_of(pod):
                wake(parent)
        elif old.finished != new.finished:
            cliques.add(key)
        elif old.ready != new.ready or old.scheduled != new.scheduled:
            cliques.add_after(key, POD_PROGRESS_S)

    caches.pods.store.on_change(handle)


def _gang_events(caches: Caches, wake: Wake, cliques: WorkQueue) -> None:
    def handle(old: PodGang | None, new: PodGang | None) -> None:
        if new is None:
            if old is not None:
                for key in _part_of(old):
                    wake(key)
            return
        listed = old is None or old.spec != new.spec
        if new.initialized and (listed or not (old is not None and old.initialized)):
            for group in new.spec.podgroups:
                cliques.add(f"{new.namespace}/{group.name}")
        if old is not None and listed and not new.terminating:
            for key in _part_of(new):
                wake(key)

    caches.gangs.store.on_change(handle)


def _infrastructure_events(store: Store[T], wake: Wake) -> None:
    def handle(old: T | None, new: T | None) -> None:
        """Ignores created objects, which are as written; handles deleted and changed ones, which may differ."""
        obj = new or old
        if obj is None or old is None:
            return
        if new is not None and _same_content(old, new):
            return
        for key in _part_of(obj):
            wake(key)

    store.on_change(handle)


def _same_content(old: Object, new: Object) -> bool:
    """Return whether two versions differ only in bookkeeping fields."""
    ours = (
        old.metadata.labels,
        old.metadata.deletion_timestamp,
        getattr(old, "spec", None),
        getattr(old, "rules", None),
    )
    return ours == (
        new.metadata.labels,
        new.metadata.deletion_timestamp,
        getattr(new, "spec", None),
        getattr(new, "rules", None),
    )
