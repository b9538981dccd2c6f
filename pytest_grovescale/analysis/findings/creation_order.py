"""Pods that were made before what they cannot start without, or without it at all.

A kubelet that does not find a ConfigMap, a Secret or a claim tries again, with a delay that grows to minutes; a
simulated node starts the pod all the same, so that a test passes and a real cluster waits.
(https://kubernetes.io/docs/concepts/configuration/configmap/#using-configmaps: a reference that is not optional has to
exist before the pod starts)

No false alarm: only references that are not optional, of pods or templates that the operator made itself. What came
later has to be made by the operator, too, by the API server's own order of writes, where no object of that name was
there before; what is not there at all counts for kinds whose objects a watch without a gap shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from ..audit_times import namespace_of
from ..result import Finding
from .evidence import Life, shown
from .observed import Observed

ID = "creation-order"

_LEAST = 3


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of which objects were made too early, and each kind that was missing to them."""
    if not seen.operator:
        return
    late: dict[tuple[str, str], list[tuple[float, Life]]] = defaultdict(list)
    never: dict[tuple[str, str], list[tuple[str, Life]]] = defaultdict(list)
    for resource, lives in sorted(seen.lives.items()):
        for life in lives:
            first = life.events[0]
            if not first.needs or first.initial or not seen.made_by_operator(life):
                continue
            for need in first.needs:
                kind, _, name = need.partition("/")
                those = seen.of_name.get((kind, (life.namespace, name)), ())
                if not those and _is_shown(seen, kind, life):
                    never[resource, kind].append((name, life))
                elif those and all(_came_after(one, life) for one in those) and seen.made_by_operator(those[0]):
                    late[resource, kind].append(((those[0].begun - life.begun) / 1e9, life))
    for (resource, kind), found in late.items():
        if len(found) >= _LEAST:
            seconds = median(after for after, _ in found)
            yield Finding(
                id=ID,
                severity="defect",
                text=f"the operator made {len(found):,} {resource} before the {kind} that they cannot start without"
                f" ({seconds * 1e3:,.0f} ms before, median): a kubelet that does not find them tries again later",
                evidence=(shown(found[0][1].object),),
            )
    for (resource, kind), missing in never.items():
        if len(missing) >= _LEAST:
            name, life = missing[0]
            yield Finding(
                id=ID,
                severity="defect",
                text=f"{len(missing):,} {resource} that the operator made need {kind} that do not exist: {name} for"
                f" {life.name}",
                evidence=("simulated nodes start such pods; a kubelet does not",),
            )


def _is_shown(seen: Observed, kind: str, life: Life) -> bool:
    """Return whether a watch shows each object of a kind in a namespace, at least up to the end of an object."""
    return any(
        story.opened.spec.resource == kind
        and namespace_of(story.opened.spec) in ("", life.namespace)
        and story.complete_since(life.gone_at() or seen.end)
        for story in seen.stories
    )


def _came_after(one: Life, life: Life) -> bool:
    first, other = one.events[0], life.events[0]
    return not first.initial and int(first.resource_version or 0) > int(other.resource_version or 0) > 0
