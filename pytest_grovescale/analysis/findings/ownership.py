"""Owner references that do not do what they are for.

An owner in another namespace counts as absent, and the garbage collector deletes the object
(https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/). A pod whose owners are no
controller of it counts as unmanaged: `kubectl drain` refuses it, a PodDisruptionBudget does not count it, and the
cluster autoscaler does not remove its node.

No false alarm: only pods need a controller; owners are judged where both were watched.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..result import Finding
from .observed import Life, Observed

ID = "ownership"


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for pods without a controller, and for each kind with owners in another namespace."""
    if not seen.operator:
        return
    places = {life.uid: life.namespace for lives in seen.lives.values() for life in lives}
    for resource, lives in sorted(seen.lives.items()):
        own = [life for life in lives if life.owner and seen.made_by_operator(life)]
        apart = [life for life in own if places.get(life.owner or "", "") not in ("", life.namespace)]
        if apart:
            yield _finding(
                apart, f"{len(apart):,} {resource} have an owner in another namespace, which counts as absent"
            )
        loose = [life for life in own if life.controlled is False]
        if loose and resource == "pods":
            yield _finding(loose, f"{len(loose):,} pods have an owner, but no controller")


def _finding(lives: list[Life], text: str) -> Finding:
    return Finding(id=ID, severity="defect", text=text, evidence=(f"{lives[0].namespace}/{lives[0].name}",))
