"""A status that contradicts what is there, while nothing changes.

Users, autoscalers and other controllers act on a status. ``observedGeneration`` behind ``metadata.generation`` says
that the newest spec was not looked at (Kubernetes' API conventions, "Typical status properties":
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md);
``readyReplicas`` that is not the number of Ready pods sends traffic nowhere, or holds a rollout. An event that was
missed stays missed until the next resync.

No false alarm: at the end of two idle seconds or more, of objects that are not being deleted and have not changed in
them, and of kinds whose status the operator itself writes. Numbers of pods are held only against pods that the object
owns directly, and only under their usual names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ...recording.conditions import READY_PATH
from ..result import Finding
from .observed import Life, Observed, Window

ID = "stale-status"

_GENERATION = ("metadata.generation", "status.observedGeneration")
_LONG_S = 5.0
_SHOWN = 3


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind and field of the status that is wrong in the longest idle window."""
    written = {
        one.resource for one in seen.requests if one.changes and (one.subresource == "status" or one.verb == "update")
    }
    found: dict[tuple[str, str], tuple[Window, list[str]]] = {}
    for window in seen.idle_windows:
        pods = _pods(seen, window)
        for resource in sorted(written & set(seen.lives)):
            for field, wrong in _wrong(seen, resource, window, pods).items():
                found.setdefault((resource, field), (window, wrong))
    for (resource, field), (window, wrong) in found.items():
        yield Finding(
            id=ID,
            severity="defect" if window.seconds >= _LONG_S else "waste",
            text=f"{field} of {len(wrong):,} {resource} is wrong while nothing changes for {window.seconds:.1f} s of"
            f" {window.phase}: {wrong[0]}",
            evidence=tuple(wrong[1:_SHOWN]),
            check=f"phase.milestone(…, workload.status({field.rpartition('.')[2]}=…))",
        )


def _pods(seen: Observed, window: Window) -> dict[str, list[Life]]:
    """Return owner → its pods at the end of a window."""
    found: dict[str, list[Life]] = defaultdict(list)
    for life in seen.lives.get("pods", ()):
        if life.exists(window.end) and life.owner and not life.deleting(window.end):
            found[life.owner].append(life)
    return found


def _wrong(seen: Observed, resource: str, window: Window, pods: dict[str, list[Life]]) -> dict[str, list[str]]:
    wrong: dict[str, list[str]] = defaultdict(list)
    for life in seen.lives[resource]:
        if not life.exists(window.end) or life.deleting(window.end) or life.changed_in(window.start, window.end):
            continue
        numbers = life.numbers(window.end)
        wanted, observed = (numbers.get(path) for path in _GENERATION)
        if isinstance(wanted, int) and isinstance(observed, int) and 0 < observed < wanted:
            wrong[_GENERATION[1]].append(f"{life.name} has {observed}, and generation {wanted}")
        own = pods.get(life.uid, [])
        if not own or any(pod.changed_in(window.start, window.end) for pod in own):
            continue
        there = {
            "status.readyReplicas": sum(pod.field(READY_PATH, window.end) == "True" for pod in own),
            "status.replicas": len(own),
        }
        for path, number in there.items():
            if path in numbers and numbers[path] != number:
                what = "Ready pods" if path == "status.readyReplicas" else "pods"
                wrong[path].append(f"{life.name} has {numbers[path]}, and {number} {what}")
    return wrong
