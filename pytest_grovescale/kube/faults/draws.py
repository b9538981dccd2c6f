"""Which requests and events meet a fault: decided by the seed and their order, for each verb and resource apart.

So the number of requests of one kind does not shift what happens to another, and a second run with as many hits the
same ones.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

from .request_path import Target
from .settings import FaultKind, Faults

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_REVIEWS = ("tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews")


class Decision(NamedTuple):
    """What happens to one request."""

    delay_s: float
    kind: FaultKind | None = None
    variant: float = 0.0
    """From 0 to 1: decides between the forms of one kind, as 500 and 503."""


PASS = Decision(0.0)


class Draws:
    """The decisions of one setting, from its beginning on."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self._random: dict[str, random.Random] = {}
        self._again: dict[tuple[str, ...], tuple[FaultKind, int]] = {}
        """Request that was hit → the kind, and how often it will be again."""
        self.injected: Counter[FaultKind] = Counter()

    def request(self, target: Target, name: str) -> Decision:
        """Return what happens to a request. ``name``: of its object, for a create that of its body."""
        faults = self.faults
        if not faults.any or not target.about(faults.resources) or target.resource in _REVIEWS:
            return PASS
        numbers = self._numbers(target.stream)
        # Always as many numbers for a request: what follows does not depend on what is asked for.
        latency, hit, variant = numbers.random(), numbers.random(), numbers.random()
        delay = faults.latency_s + (2 * latency - 1) * faults.jitter_s
        identity = (target.stream, target.namespace, name)
        if identity in self._again:
            kind, left = self._again.pop(identity)
            if left > 1:
                self._again[identity] = kind, left - 1
            return Decision(delay, kind, variant)
        for kind, share in self._applicable(target):
            if hit < share:
                if faults.in_a_row > 1 and kind != "lost-answer":
                    self._again[identity] = kind, faults.in_a_row - 1
                return Decision(delay, kind, variant)
            hit -= share
        return Decision(delay)

    def event(self, target: Target) -> tuple[FaultKind | None, float]:
        """Return what happens before an event of a watch, and the variant."""
        faults = self.faults
        if not (faults.watch_cut or faults.watch_expired) or not target.about(faults.resources):
            return None, 0.0
        numbers = self._numbers(f"event {target.qualified}")
        hit, variant = numbers.random(), numbers.random()
        if hit < faults.watch_cut:
            return "watch-cut", variant
        return ("watch-expired" if hit < faults.watch_cut + faults.watch_expired else None), variant

    def _applicable(self, target: Target) -> list[tuple[FaultKind, float]]:
        faults = self.faults
        found: list[tuple[FaultKind, float]] = [("throttled", faults.throttled), ("error", faults.error)]
        if target.verb in _WRITES:
            found.append(("lost-answer", faults.lost_answer))
        if target.verb in ("update", "patch"):
            found.append(("conflict", faults.conflict))
        return found

    def _numbers(self, stream: str) -> random.Random:
        if stream not in self._random:
            self._random[stream] = random.Random(f"{self.faults.seed} {stream}")
        return self._random[stream]
