"""The operator ends in the middle, or with everything in place, and another one takes over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .operator_process import OperatorProcess
from .workbench import CLIQUE, GANG, SET, Workbench

pytestmark = pytest.mark.cluster

Start = Callable[..., OperatorProcess]


def test_after_a_crash_in_the_middle_of_a_deployment(bench: Workbench, start: Start) -> None:
    first = start("--defect", "crash=5")
    bench.deploy(replicas=5, pods=2)
    assert first.died() == 70
    assert len(bench.find("pods")) >= 5
    second = start()
    bench.wait_deployed(5, 2)
    assert len(bench.find("pods")) == 10
    assert second.counts()["pods_created"] <= 5


def test_after_a_stop_in_the_middle_of_a_deployment(bench: Workbench, start: Start) -> None:
    first = start()
    bench.deploy(replicas=10, pods=2)
    bench.wait("pods", lambda pods: len(pods) >= 3)
    assert first.stop() == 0
    start()
    bench.wait_deployed(10, 2)
    assert len(bench.find("pods")) == 20


def test_with_everything_in_place_it_writes_nothing(bench: Workbench, start: Start) -> None:
    first = start()
    bench.deploy(replicas=3, pods=2)
    bench.wait_deployed(3, 2)
    bench.settle(first)
    first.stop()
    second = start()
    bench.settle(second, more_than=0)
    assert second.writes() == 0
    assert second.counts()["pods_created"] == 0


def test_what_happened_while_no_one_looked(bench: Workbench, start: Start) -> None:
    first = start()
    bench.deploy(replicas=2, pods=2)
    bench.wait_deployed(2, 2)
    first.stop()
    bench.delete_all("pods")
    bench.delete(GANG, "pcs-1")
    bench.scale(SET, "pcs", 3)
    start()
    bench.wait_deployed(3, 2)
    assert len(bench.find(CLIQUE)) == 3


def test_two_of_them_elect_one(bench: Workbench, start: Start) -> None:
    elect = ("--leader-elect", "--leader-election-namespace", bench.namespace)
    first = start(*elect)
    second = OperatorProcess(first.kubeconfig, first.log.with_suffix(".second"), elect)
    try:
        second.wait_healthy()
        bench.deploy(replicas=1, pods=1)
        bench.wait_deployed(1, 1)
        assert second.reconciles("podcliqueset") == 0
        assert first.stop() == 0
        second.wait_ready()
        bench.scale(SET, "pcs", 2)
        bench.wait_deployed(2, 1)
    finally:
        second.stop()
