"""Defect noop-cpu-10: repeated work in no-op reconciles, proven by its own count; the API server sees none of it."""

from __future__ import annotations

from collections.abc import Callable
from math import floor

import pytest

from pytest_grovescale.reference_operator.podclique.reconciler import REPEATED_SHARE

from .operator_process import OperatorProcess
from .workbench import Workbench

pytestmark = pytest.mark.cluster

REPLICAS, PODS, TRIGGERS = 7, 2, 3


def _of_triggers(bench: Workbench, operator: OperatorProcess) -> dict[str, int]:
    """Return what some triggers cost: counts, requests, reconciles."""

    def now() -> dict[str, int]:
        reconciles = {name: operator.reconciles(name) for name in ("podcliqueset", "podclique")}
        requests = operator.requests("GET", "POST", "PUT", "PATCH", "DELETE")
        return {**operator.counts(), **reconciles, "requests": requests}

    before = now()
    for number in range(TRIGGERS):
        done = operator.reconciles("podcliqueset")
        bench.trigger(f"noop-{number}")
        bench.settle(operator, more_than=done)
    after = now()
    return {name: after[name] - before[name] for name in after}


@pytest.fixture
def cost(bench: Workbench, start: Callable[..., OperatorProcess]) -> Callable[..., dict[str, int]]:
    """Return what triggers cost an operator with the arguments given; ``total``: repeats since it started."""

    def measure(*arguments: str) -> dict[str, int]:
        operator = start(*arguments)
        bench.deploy(replicas=REPLICAS, pods=PODS)
        bench.wait_deployed(REPLICAS, PODS)
        bench.settle(operator)
        found = _of_triggers(bench, operator)
        counts = operator.counts()
        assert counts["clique_passes_repeated"] in (0, floor(counts["clique_passes_unchanged"] * REPEATED_SHARE))
        return found

    return measure


def test_a_share_of_the_passes_is_made_again(cost: Callable[..., dict[str, int]]) -> None:
    found = cost("--defect", "noop-cpu-10")
    passes = REPLICAS * TRIGGERS
    assert found["clique_passes_unchanged"] == passes
    assert abs(found["clique_passes_repeated"] - passes * REPEATED_SHARE) < 1
    # The work is real: parent and pods are read once more for each.
    assert found["podcliqueset_reads"] == passes + found["clique_passes_repeated"]
    assert found["pod_selections"] == passes + found["clique_passes_repeated"]
    assert found["requests"] == 0
    assert (found["podcliqueset"], found["podclique"]) == (TRIGGERS, passes)


def test_without_the_defect_none_is(cost: Callable[..., dict[str, int]]) -> None:
    found = cost()
    assert found["clique_passes_unchanged"] == REPLICAS * TRIGGERS
    assert found["clique_passes_repeated"] == 0
    assert found["podcliqueset_reads"] == found["pod_selections"] == REPLICAS * TRIGGERS
    assert found["requests"] == 0
