"""How much of a foreign cluster a test's conditions may read.

A namespace of the test's own holds its own objects. All namespaces, or a cluster-scoped kind, hold the objects of all
users, however many: they are read through a selector or not at all.
"""

from __future__ import annotations

import msgspec

from ..cluster import nodes
from ..errors import UsageError
from ..recording.conditions import AllOf, AnyOf, Condition, Count, Timer, WatchSpec, watches

SINGLE_WATCHES = 32
"""Maximum number of single-object watches that a test may have open; each holds a connection of the recorder."""


def confined(condition: Condition, cluster: str) -> Condition:
    """Return a condition that reads no objects of all namespaces without a selector.

    Nodes are limited to those of ``cluster``; a cluster-scoped kind is narrowed to the object that the condition names.
    Raises UsageError where neither is possible.
    """
    match condition:
        case Timer():
            return condition
        case AllOf() | AnyOf():
            narrowed = msgspec.structs.replace(condition, of=tuple(confined(part, cluster) for part in condition.of))
            _refuse_many(narrowed)
            return narrowed
        case Count():
            return msgspec.structs.replace(condition, watch=_confined(condition, cluster))


def _confined(count: Count, cluster: str) -> WatchSpec:
    watch = count.watch
    if "/namespaces/" in watch.path or watch.label_selector or watch.field_selector:
        return watch
    if count.name:
        return msgspec.structs.replace(watch, field_selector=f"metadata.name={count.name}")
    if watch.resource == "nodes":
        return msgspec.structs.replace(watch, label_selector=nodes.selector(cluster))
    raise UsageError(
        f"all {watch.resource} of a cluster that others use would be watched",
        next_step=f'Say which: conditions.count("{watch.resource}", …, selector="grovescale.io/run=…"), or another'
        " label.",
    )


def _refuse_many(condition: Condition) -> None:
    single = {watch for watch in watches(condition) if watch.field_selector.startswith("metadata.name=")}
    if len(single) > SINGLE_WATCHES:
        raise UsageError(
            f"{len(single)} objects in no namespace would be watched one by one, at most {SINGLE_WATCHES} can be",
            next_step="Count them by a label that they have: conditions.count(KIND, 0,"
            ' selector="grovescale.io/run=…").',
        )
