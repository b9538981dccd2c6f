"""Each switch and each defect, proven by its own count of requests, reconciles or scans."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_grovescale.cluster.handle import Cluster

from .operator_process import Credentials, OperatorProcess
from .relay import Relay
from .workbench import PODS, REPLICAS, SET, Workbench

pytestmark = pytest.mark.cluster

Start = Callable[..., OperatorProcess]


def test_optimized(bench: Workbench, deployed: Start) -> None:
    operator = deployed()
    assert operator.counts()["components_at_once_max"] > 1
    cost = bench.cost_of_trigger(operator)
    assert cost["PATCH"] == cost["POST"] == cost["DELETE"] == 0
    assert cost["pods_scanned"] == REPLICAS * PODS
    assert cost["pod_selections"] == REPLICAS
    assert cost["podcliqueset_reads"] == REPLICAS


def test_baseline(bench: Workbench, deployed: Start) -> None:
    operator = deployed("--variant", "baseline")
    assert operator.counts()["components_at_once_max"] == 1
    cost = bench.cost_of_trigger(operator)
    assert cost["PATCH"] >= REPLICAS + 1
    assert cost["pods_scanned"] >= REPLICAS * REPLICAS * PODS * 2
    assert cost["podcliqueset_reads"] >= REPLICAS * 4


def test_switch_parallel_groups(deployed: Start) -> None:
    assert deployed("--switch", "parallel-groups=off").counts()["components_at_once_max"] == 1


def test_switch_narrow_selector(bench: Workbench, deployed: Start) -> None:
    cost = bench.cost_of_trigger(deployed("--switch", "narrow-selector=off"))
    assert cost["pods_scanned"] == REPLICAS * REPLICAS * PODS
    assert cost["pod_selections"] == REPLICAS


def test_switch_memoise(bench: Workbench, deployed: Start) -> None:
    cost = bench.cost_of_trigger(deployed("--switch", "memoise=off"))
    assert cost["podcliqueset_reads"] == REPLICAS * 4
    assert cost["pod_selections"] == REPLICAS * 3


def test_switch_skip_noop_status(bench: Workbench, deployed: Start) -> None:
    cost = bench.cost_of_trigger(deployed("--switch", "skip-noop-status=off"))
    assert cost["PATCH"] == cost["status_writes"] == REPLICAS + 1


def test_defect_noop_writes(bench: Workbench, deployed: Start) -> None:
    cost = bench.cost_of_trigger(deployed("--defect", "noop-writes"))
    assert cost["PATCH"] == REPLICAS
    assert cost["reconciles"] == 1


def test_defect_quadratic_select(bench: Workbench, deployed: Start) -> None:
    cost = bench.cost_of_trigger(deployed("--defect", "quadratic-select"))
    # Once per clique by the cliques' reconciles, once more by the set's.
    assert cost["pods_scanned"] == 2 * REPLICAS * REPLICAS * PODS
    assert cost["PATCH"] == 0


def test_defect_hot_loop(bench: Workbench, start: Start) -> None:
    operator = start("--defect", "hot-loop")
    bench.deploy(replicas=1, pods=1)
    bench.wait_deployed(1, 1)
    # Each of its status writes is an event that the next reconcile follows, without end.
    versions: set[str] = set()

    def goes_on(sets: list[dict[str, object]]) -> bool:
        versions.add(sets[0]["metadata"]["resourceVersion"])  # type: ignore[index]
        return len(versions) >= 5

    before = operator.reconciles("podcliqueset")
    bench.wait(SET, goes_on)
    assert operator.reconciles("podcliqueset") - before >= 3


def test_defect_orphan(bench: Workbench, deployed: Start) -> None:
    deployed("--defect", "orphan")
    bench.delete(SET, "pcs")
    bench.wait(SET, lambda found: not found)
    assert len(bench.find("services")) == REPLICAS
    bench.delete_all("services")
    bench.wait_empty()


def test_defect_crash(bench: Workbench, start: Start) -> None:
    operator = start("--defect", "crash=1")
    bench.deploy(replicas=1, pods=1)
    assert operator.died() == 70
    assert "crash after 1 pods" in operator.log.read_text()


@pytest.fixture
def relayed(credentials: Credentials, relay: Relay, cluster: Cluster, tmp_path: Path) -> Path:
    """A kubeconfig by which the operator reaches the API server through the relay."""
    path = tmp_path / "kubeconfig"
    path.write_text(credentials.kubeconfig.read_text().replace(cluster.server, relay.url))
    return path


def test_a_cut_watch_is_resumed(bench: Workbench, start: Start, relay: Relay, relayed: Path) -> None:
    operator = start(kubeconfig=relayed)
    bench.deploy(replicas=1, pods=1)
    bench.wait_deployed(1, 1)
    relay.cut()
    counts = operator.wait_counts(lambda c: c["watch_resumes"] == operator.counts()["lists"])
    assert counts["lists"] == counts["watch_cuts"]
    bench.scale(SET, "pcs", 2)
    bench.wait_deployed(2, 1)
    assert operator.counts()["lists"] == counts["lists"]


def test_defect_event_drop(bench: Workbench, start: Start, relay: Relay, relayed: Path) -> None:
    operator = start("--defect", "event-drop", kubeconfig=relayed)
    started = operator.counts()["watch_starts"]
    relay.cut()
    operator.wait_counts(lambda c: c["watch_cuts"] == started)
    bench.deploy(replicas=1, pods=1)
    bench.wait(SET, lambda sets: len(sets) == 1)
    operator.settle()
    counts = operator.counts()
    assert counts["watch_resumes"] == 0
    assert counts["watch_starts"] == started
    assert operator.reconciles("podcliqueset") == 0
