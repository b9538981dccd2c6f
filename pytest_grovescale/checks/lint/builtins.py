"""Families whose name and labels promise what a built-in family says already.

A name misleads in both ways, which is why values are compared where they can be. What is left is asked for as much as a
name can prove: the built-in must be there to be used instead, and the family have no label that it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ...exposition.families import MetricType
from ..metrics.catalogue import builtin, builtins
from .labels import UNBOUNDED
from .problem import Problem
from .served import Served


class _Saying(NamedTuple):
    """What names say that mean a built-in."""

    pattern: re.Pattern[str]
    """Of the whole name; what stands before it is whoever's it is."""
    types: tuple[MetricType, ...]
    builtin: str
    select: str = ""
    """Labels that choose the part of the built-in that is meant."""


def _saying(pattern: str, types: str, name: str, select: str = "") -> _Saying:
    kinds: dict[str, MetricType] = {"c": "counter", "g": "gauge", "h": "histogram", "s": "summary"}
    return _Saying(re.compile(f"(?:.*_)?(?:{pattern})"), tuple(kinds[kind] for kind in types), name, select)


_RECONCILE = r"reconcil(?:e|es|ed|er|iation|iations|ing)"
_IN_FLIGHT = r"in_?flight|active|running|concurrent|current|ongoing"
_LENGTH = r"duration|time|latency|seconds"

_SAYINGS = (
    _saying(
        rf"{_RECONCILE}(?:_(?:loop|process|processing))?_(?:{_LENGTH})(?:_seconds)?(?:_total)?",
        "hs",
        "controller_runtime_reconcile_time_seconds",
    ),
    _saying(rf"{_RECONCILE}_(?:errors?|failures?|failed)_total", "c", "controller_runtime_reconcile_errors_total"),
    _saying(rf"failed_{_RECONCILE}_total", "c", "controller_runtime_reconcile_errors_total"),
    _saying(rf"{_RECONCILE}_panics?_total", "c", "controller_runtime_reconcile_panics_total"),
    _saying(rf"{_RECONCILE}_timeouts?_total", "c", "controller_runtime_reconcile_timeouts_total"),
    _saying(
        rf"(?:{_RECONCILE}_)?(?:requeues?|requeued)_total",
        "c",
        "controller_runtime_reconcile_total",
        '{result=~"requeue.*"}',
    ),
    _saying(rf"{_RECONCILE}(?:_(?:count|runs|loops|calls))?_total", "c", "controller_runtime_reconcile_total"),
    _saying(
        rf"{_RECONCILE}(?:_workers)?_(?:{_IN_FLIGHT})|(?:{_IN_FLIGHT})_(?:{_RECONCILE}|reconcilers|workers)",
        "g",
        "controller_runtime_active_workers",
    ),
    _saying(
        r"max_concurrent_reconciles|workers?_(?:max|limit|total)", "g", "controller_runtime_max_concurrent_reconciles"
    ),
    _saying(r"(?:work_?)?queue_(?:depth|length|size)", "g", "workqueue_depth"),
    _saying(r"(?:work_?)?queue_adds?_total", "c", "workqueue_adds_total"),
    _saying(r"(?:work_?)?queue_retries_total", "c", "workqueue_retries_total"),
    _saying(rf"(?:work_?)?queue_(?:wait_)?(?:{_LENGTH})(?:_seconds)?", "hs", "workqueue_queue_duration_seconds"),
    _saying(r"(?:kube_?|k8s_|api_?server_|rest_)(?:api_|client_)?requests_total", "c", "rest_client_requests_total"),
    _saying(r"is_leader|leader|leader_election_status", "g", "leader_election_master_status"),
    _saying(r"goroutines", "g", "go_goroutines"),
    _saying(r"cpu_seconds_total", "c", "process_cpu_seconds_total"),
    _saying(r"(?:resident_memory|rss|memory)_bytes", "g", "process_resident_memory_bytes"),
    _saying(r"(?:process_)?start_time_seconds", "g", "process_start_time_seconds"),
)
"""The first that fits counts. The reviewed proposal of metrics.md had four of these."""

_NO_REFINEMENT = frozenset({"instance", "job", "service", "component", *UNBOUNDED})
"""Labels that tell nothing more worth having: who serves, as the scraper says anyway, and what must go in any case."""


def problems(families: Iterable[Served], names: Collection[str]) -> Iterator[Problem]:
    """Yield families that promise what a built-in says; ``names`` are those of all families of the endpoint."""
    origins = {found.origin for name in names if (found := builtin(name)) is not None}
    for served in families:
        if served.builtin is None and (duplicate := _duplicate(served, names, origins)) is not None:
            yield duplicate


def _duplicate(served: Served, names: Collection[str], origins: Collection[str]) -> Problem | None:
    saying = next((one for one in _SAYINGS if one.pattern.fullmatch(served.name)), None)
    known = builtins()[saying.builtin] if saying is not None else None
    if saying is None or known is None or served.family.type not in (*saying.types, "unknown"):
        return None
    # A lazy family is absent until its first use; what else its library serves tells that it is built in.
    if known.name not in names and known.origin not in origins:
        return None
    if not served.series or not set(served.labels()) <= {*known.labels, *_NO_REFINEMENT}:
        return None
    return Problem(
        family=served.name,
        rule="builtin-duplicate",
        says=f"its name promises what {known.name}{saying.select} says already",
        fix=f"take it away, and read {known.name}{saying.select}",
    )
