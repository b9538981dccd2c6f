"""Fields that the definition of a custom resource promises, and no object ever has.

A client that waits for a new generation by ``observedGeneration`` (kubectl, Argo CD and Flux do by kstatus:
https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md) takes the status of the old one for it
where the field is missing. A HorizontalPodAutoscaler asks the scale subresource for a selector and a number of
replicas, and does nothing without them
(https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#scale-subresource);
a column of ``kubectl get`` whose path no object can have is always empty.

No false alarm: only kinds whose definition the recording has, and whose objects the operator works for, in a test whose
phases passed; of these, objects that existed for five seconds and are not being deleted. Fields that are there for some
cases, as messages of failures, are not looked at; numbers of ready things only of objects with Ready pods below them.
Conditions and phases that are never set are a note, as is a status that is no subresource: frameworks make both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...recording.records import Declared
from ..result import Finding
from .evidence import Life, form, listed, number_of
from .grouping import About, Aspect, Found
from .observed import Observed
from .premature_status import GENERATION

ID = "unset-field"

_LASTS_NS = 5_000_000_000
_STATUS = "status"
_OBSERVED = GENERATION[1].removeprefix("status.")
_READY = re.compile(r"((ready|available|updated|current)_?)?replicas|ready_?pods", re.IGNORECASE)
_STATES = ("conditions", "phase", "state")


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind and purpose for which fields are declared, and never set."""
    if any(span.phase.outcome != "passed" for span in seen.spans):
        return
    # Of several watches on a kind the first: they have one definition.
    openings = [story.opened for story in reversed(seen.stories)]
    declared = {one.spec.resource: one.declared for one in openings if one.declared is not None}
    for resource in sorted(declared):
        lives = seen.lives.get(resource, ())
        if objects := [life for life in lives if _worked_for(seen, life)]:
            written = {name for life in lives for event in life.events for name in event.written}
            yield from _of_kind(seen, declared[resource], objects, written)


def _worked_for(seen: Observed, life: Life) -> bool:
    """Return whether the operator had the time to write an object's status, and did something for it."""
    lasted = (life.marked_at or life.stays_until(seen.end)) - life.begun
    made = any(child.made_by_operator for child in seen.children.get(life.uid, ()))
    return lasted >= _LASTS_NS and (made or life.own_updates > 0)


def _of_kind(seen: Observed, declared: Declared, objects: Sequence[Life], written: set[str]) -> Iterator[Finding]:
    resource, number = objects[0].resource, len(objects)
    unset = [name for name in declared.status if name not in written]
    if len(unset) > 1 and len(unset) == len(declared.status):
        yield _found(
            seen,
            resource,
            _STATUS,
            f"status of {number_of(number, resource)} is never set: its definition declares {listed(unset)}",
        )
        return
    ready = any(pod.ready is not None for life in objects for pod in seen.pods_below.get(life.uid, ()))
    if _OBSERVED in unset:
        yield _found(
            seen,
            resource,
            GENERATION[1],
            f"{GENERATION[1]} of {number_of(number, resource)} is never set, although the definition declares it:"
            " who waits for a new generation takes the old status for its own",
        )
    for what, path in declared.scale.items():
        if _name(path) in unset and (what == "selector" or ready):
            yield _found(
                seen,
                resource,
                path,
                f"the scale subresource of {number_of(number, resource)} has no {what}: nothing sets {path}, and a"
                " HorizontalPodAutoscaler does nothing without it",
            )
    of_scale = set(map(_name, declared.scale.values()))
    if numbers := [name for name in unset if ready and name not in of_scale and _READY.fullmatch(name)]:
        yield _found(
            seen,
            resource,
            f"{_STATUS}.{numbers[0]}",
            f"{listed(numbers)} in the status of {number_of(number, resource)} {form(len(numbers), 'is', 'are')} never"
            " set, although pods below are Ready",
        )
    for name, path in declared.blank_columns.items():
        yield _found(
            seen,
            resource,
            "",
            f"the column {name} of kubectl get {resource} is always empty: its definition declares no {path}",
        )
    if states := [name for name in unset if name in _STATES]:
        yield _found(
            seen,
            resource,
            f"{_STATUS}.{states[0]}",
            f"{listed(states)} in the status of {number_of(number, resource)} {form(len(states), 'is', 'are')}"
            " declared and never set",
            is_note=True,
        )
    if not declared.subresource and resource in seen.status_written:
        yield _found(
            seen,
            resource,
            _STATUS,
            f"the status of {resource} is no subresource: each write of it raises metadata.generation, and can take"
            " back what users change in spec",
            is_note=True,
        )


def _found(seen: Observed, resource: str, field: str, text: str, *, is_note: bool = False) -> Finding:
    return Found(
        id=ID,
        severity="note" if is_note else "defect",
        about=About(aspect=Aspect.STATE, objects={life.key for life in seen.lives[resource]}, field=field),
        text=text,
        check="phase.milestone(…, workload.status(observedGeneration=…))" if field == GENERATION[1] else "",
    )


def _name(path: str) -> str:
    """Return the name of the field right below status that a path leads through; empty where it does not."""
    return path.split(".")[1] if path.startswith(f"{_STATUS}.") else ""
