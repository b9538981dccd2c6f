"""Metric families that come with a library: nobody who writes an operator chose their names, or can change them.

`builtins.yaml` beside this file lists those of controller-runtime managers, from its sources and a running one, and
those that client libraries add by themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from ...exposition.families import MetricType

FILE = Path(__file__).with_name("builtins.yaml")

When = Literal["always", "initialised", "lazy", "opt-in", "never"]
"""``always``: registered and exposed; ``initialised``: when the controller or queue starts; ``lazy``: neither TYPE line
nor series until its first use, so that absent does not mean not built in; ``opt-in``: a manager asks for it; ``never``:
defined, and not registered."""

_WHEN: dict[str, When] = {"a": "always", "i": "initialised", "l": "lazy", "o": "opt-in", "x": "never"}


class Builtin(msgspec.Struct, frozen=True, kw_only=True):
    """One family as its library declares it."""

    name: str
    type: MetricType
    labels: tuple[str, ...]
    when: When
    origin: str
    """Group in the catalogue: ``controller_runtime``, ``workqueue``, ``client_go``, ``runtime``, ``libraries``."""
    values: dict[str, tuple[str, ...]] = {}
    """Label → all the values that it takes, where these are few and known."""
    buckets: int | None = None
    """Of a histogram, without the last (+Inf)."""
    native: bool = False
    """Whether it has exponential buckets too, where the scraper asks for them."""
    since: str = ""
    """First version of the library that has it; empty: older than any in use."""


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    type: MetricType
    labels: tuple[str, ...]
    when: Literal["a", "i", "l", "o", "x"]
    values: dict[str, tuple[str, ...]] = {}
    buckets: int | None = None
    native: bool = False
    since: str = ""
    max_priorities: int | None = None


@functools.cache
def builtins() -> Mapping[str, Builtin]:
    """Return name → built-in family, all that the catalogue has. Not to be changed: it is shared."""
    plain = yaml.load(FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    groups = msgspec.convert(plain, dict[str, list[_Row]])
    return {row.name: _builtin(row, origin) for origin, rows in groups.items() for row in rows}


def builtin(name: str) -> Builtin | None:
    """Return the built-in family of this name; None where no known library brings it."""
    return builtins().get(name)


def _builtin(row: _Row, origin: str) -> Builtin:
    return Builtin(
        name=row.name,
        type=row.type,
        labels=row.labels,
        when=_WHEN[row.when],
        origin=origin,
        values=row.values,
        buckets=row.buckets,
        native=row.native,
        since=row.since,
    )
