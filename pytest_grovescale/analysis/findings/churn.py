"""Objects that the operator makes and that are deleted again before anything else has changed.

Whatever made it change its mind was known when it made them: a hash computed from a template without its defaults, a
name that is drawn again at each reconcile, an owner reference that the garbage collector finds to be of no object
(https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents). Each costs an etcd write, an
Event, a scheduling and an image pull.

No false alarm: between two changes of the workload by the harness, from its first apply on and never after a deletion;
pods that ended by themselves are left out, and so is what only the namespace or a user deleted. Five objects, and a
tenth of the kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

from ..result import Finding
from .evidence import Life
from .observed import Observed

ID = "churn"

_LEAST = 5
_SHARE = 0.1
_SHARE_OF_SURPLUS = 0.05
_SHOWN = 3
_COLLECTOR = ("generic-garbage-collector", "kube-controller-manager")
"""Ends of the names of who collects garbage."""
_ENDED = ("Succeeded", "Failed")


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of which objects were made for nothing."""
    applied = seen.workload_applied
    if not seen.operator or not seen.log_whole or applied is None:
        return
    deleters = _deleters(seen)
    for resource, lives in sorted(seen.lives.items()):
        own = [life for life in lives if life.events[0].at >= applied and seen.made_by_operator(life)]
        gone = [life for life in own if _in_one_step(seen, life) and not _ended(life)]
        who = {life.uid: deleters.get((resource, life.name), deleters.get((resource, ""), "")) for life in gone}
        by_collector = [life for life in gone if seen.role(who[life.uid]).endswith(_COLLECTOR)]
        by_operator = [life for life in gone if who[life.uid] == seen.operator]
        for found, collected in ((by_collector, True), (by_operator, False)):
            if len(found) < _LEAST or len(found) < (_SHARE if collected else _SHARE_OF_SURPLUS) * len(own):
                continue
            why = "the garbage collector removed them, since their owner does not exist"
            yield Finding(
                id=ID,
                severity="defect" if collected else "waste",
                text=f"{len(found):,} of {len(own):,} {resource} that the operator made were deleted again while"
                f" nothing else changed: {why if collected else 'it deleted them itself'}",
                evidence=(_names(found),),
                check=f'api_requests(phase=…, verb="create", resource="{resource}", max=…)',
            )


def _deleters(seen: Observed) -> dict[tuple[str, str], str]:
    """Return (resource, name) → who deleted it first; under an empty name, who deleted a whole collection.

    A pod is deleted once more by its node, when its containers have ended.
    """
    deletions = [one for one in seen.all_requests if one.verb in ("delete", "deletecollection") and one.changes]
    return {(one.resource, one.name if one.verb == "delete" else ""): one.user for one in reversed(deletions)}


def _in_one_step(seen: Observed, life: Life) -> bool:
    gone = life.gone_at()
    if gone is None or gone >= seen.end:
        return False
    step = bisect_right(seen.workload_changes, life.events[0].at)
    deleted = seen.workload_deleted
    return step == bisect_right(seen.workload_changes, gone) and (deleted is None or gone < deleted)


def _ended(life: Life) -> bool:
    return any(event.fields.get("status.phase") in _ENDED for event in life.events)


def _names(lives: list[Life]) -> str:
    often, number = Counter((life.namespace, life.name) for life in lives).most_common(1)[0]
    if number > 1:
        return f"{'/'.join(often)}: {number:,} times".lstrip("/")
    shown = ", ".join(f"{life.namespace}/{life.name}".lstrip("/") for life in lives[:_SHOWN])
    return shown + (f" and {len(lives) - _SHOWN:,} more" if len(lives) > _SHOWN else "")
