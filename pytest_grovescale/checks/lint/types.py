"""Families with more than one TYPE line: each reader takes another of them for true."""

from __future__ import annotations

from collections.abc import Iterator

from ...exposition.families import Exposition
from .problem import Problem


def problems(exposition: Exposition) -> Iterator[Problem]:
    """Yield the families that an answer gives a type twice. Prometheus takes the last, others refuse the answer."""
    for name, types in sorted(exposition.retyped.items()):
        yield Problem(
            family=name,
            rule="duplicate",
            says=f"it has {len(types)} TYPE lines: {', '.join(types)}",
            fix="describe each family once, above its samples",
        )
