"""Parameters and limits in force in the runs of two variants: shared ones and differing ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from .result import Scalar

Facts = tuple[Scalar, ...]
"""Distinct values of a fact in the runs, in order of appearance."""

_MEASURED = frozenset({"api_server_ready_s", "nodes_ready_s", "start_s"})
"""Cluster facts that are durations of its start: they vary from start to start and affect no run."""


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters and limits of the runs that were compared, and facts about their clusters, by name."""

    shared: dict[str, Facts] = {}
    """The same in both variants; more than one value where both had all of them."""
    differing: dict[str, tuple[Facts, Facts]] = {}
    """A's and B's; an empty one where that variant has no such fact."""


def in_force(a: Sequence[Mapping[str, Scalar]], b: Sequence[Mapping[str, Scalar]]) -> InForce:
    """Return what was in force, from the facts of each run of A and of B."""
    shared: dict[str, Facts] = {}
    differing: dict[str, tuple[Facts, Facts]] = {}
    for name in dict.fromkeys(name for run in (*a, *b) for name in run if name not in _MEASURED):
        sides = _values(a, name), _values(b, name)
        if set(sides[0]) == set(sides[1]):
            shared[name] = sides[0]
        else:
            differing[name] = sides
    return InForce(shared=shared, differing=differing)


def _values(runs: Sequence[Mapping[str, Scalar]], name: str) -> Facts:
    return tuple(dict.fromkeys(run[name] for run in runs if name in run))
