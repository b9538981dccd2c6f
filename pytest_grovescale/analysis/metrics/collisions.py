"""Families that use the name of a built-in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from ...exposition.families import Family, MetricType
from .history import TargetHistory
from .projection import measures


class Builtin(Protocol):
    """A family of the catalogue."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> MetricType: ...
    @property
    def labels(self) -> tuple[str, ...]: ...


class Collision(NamedTuple):
    """A family with the name of a built-in one."""

    family: str
    builtin: str
    why: str
    """The evidence that they differ."""


def collisions(target: TargetHistory, catalogue: Mapping[str, Builtin]) -> Iterator[Collision]:
    """Yield the families that have a built-in one's name without being it, or whose samples would have its name."""
    labels = {name: {label for one in of for label in one.values} for name, of in measures(target).items()}
    owners = {name: builtin for builtin in catalogue.values() for name in _names(builtin.name, builtin.type)}
    for name, family in sorted(target.families.items()):
        why = ""
        if builtin := catalogue.get(name):
            why = _unlike(family, labels.get(name, set()), builtin)
        elif builtin := next((owners[used] for used in _names(name, family.type) if used in owners), None):
            why = f"a {family.type}: samples, or its name in OpenMetrics, meet those of the built-in {builtin.type}"
        if builtin and why:
            yield Collision(name, builtin.name, why)


def _unlike(family: Family, labels: set[str], builtin: Builtin) -> str:
    """Return why a family is not the built-in one of its name; fewer labels mean an older version."""
    if family.type not in (builtin.type, "unknown"):
        return f"a {family.type}, the built-in one is a {builtin.type}"
    more = sorted(labels - set(builtin.labels))
    return f"with labels that the built-in one lacks: {', '.join(more)}" if more else ""


def _names(name: str, kind: MetricType) -> set[str]:
    """Return the names that a family occupies: its own, its samples', and the one that OpenMetrics gives it."""
    if kind in ("histogram", "summary"):
        return {name, *(name + suffix for suffix in ("_bucket", "_count", "_sum"))}
    return {name, name.removesuffix("_total")} if kind == "counter" else {name}
