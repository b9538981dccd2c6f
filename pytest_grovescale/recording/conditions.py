"""Conditions as data: what a milestone waits for.

A scenario declares a condition; the recorder evaluates it in O(1) per event; the analysis evaluates it again from the
journal. Both use `evaluation.py` and give the same result.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Comparison = Literal["==", "!=", ">=", "<=", ">", "<"]


class WatchSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One LIST+WATCH and the fields kept of each object. Equal specs share one watch."""

    resource: str
    """Plural with group: ``pods``, ``podcliquesets.grove.io``."""
    path: str
    """Collection's URL path, ``/api/v1/namespaces/x/pods``."""
    label_selector: str = ""
    field_selector: str = ""
    fields: tuple[str, ...] = ()
    """Field paths to keep, sorted. ``status.phase``; ``status.conditions[type=Ready].status``;
    ``metadata.annotations["grove.io/trigger"]`` for a key that contains dots."""


class FieldTest(msgspec.Struct, frozen=True, kw_only=True):
    """Compares ``path`` with ``value``; a path that the object lacks is unequal to every value."""

    path: str
    op: Comparison = "=="
    value: str | int | float | bool | None = None


class Predicate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requirements on one object. All given parts must hold; without any, the object must exist."""

    tests: tuple[FieldTest, ...] = ()
    expression: str = ""
    """Python expression over ``fields`` (path → value, only those declared), e.g.
    ``fields["status.phase"] == "Running"``; no calls but len, min, max, sum, any, all, abs, str, int, float."""
    function: str = ""
    """``module:function``, called with the dict of declared fields; must be pure."""


class Count(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="count", tag_field="condition"):
    """Compares the number of objects in a watch that satisfy a predicate with ``n``.

    Also expresses "object X has status Y" (``name`` given, n = 1) and "object X is gone" (``name`` given, n = 0).
    """

    watch: WatchSpec
    name: str = ""
    """Counts only the object of this name (the watch's path fixes the namespace)."""
    where: Predicate = Predicate()
    op: Literal["==", ">=", "<="] = "=="
    n: int


class Timer(msgspec.Struct, frozen=True, kw_only=True, tag="timer", tag_field="condition"):
    """Holds from ``seconds`` after the start of the phase on."""

    seconds: float


class AllOf(msgspec.Struct, frozen=True, kw_only=True, tag="all", tag_field="condition"):
    """Holds while all conditions hold at the same time."""

    of: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, kw_only=True, tag="any", tag_field="condition"):
    """Holds while at least one condition holds."""

    of: tuple[Condition, ...]


Condition = Count | Timer | AllOf | AnyOf


def watches(condition: Condition) -> frozenset[WatchSpec]:
    """Return every watch that a condition reads."""
    match condition:
        case Count():
            return frozenset({condition.watch})
        case AllOf() | AnyOf():
            return frozenset().union(*(watches(part) for part in condition.of))
        case Timer():
            return frozenset()
