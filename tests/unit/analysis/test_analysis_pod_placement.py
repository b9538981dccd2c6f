"""Where pods were placed: known from watches that keep it, and only where a cluster has other nodes."""

from __future__ import annotations

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse, simulated
from pytest_grovescale.analysis.phase_result import PodPlaces, StrayPod
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec

from .simulated import Simulation

NODE = "spec.nodeName"
PODS = WatchSpec(resource="pods", path="/api/v1/namespaces/t/pods", fields=(NODE,))


def places(nodes: dict[str, str], *, made: dict[str, int], spec: WatchSpec = PODS) -> PodPlaces | None:
    sim = Simulation()
    at, number, opened = sim.items[0]
    assert isinstance(opened, rec.Opened)
    sim.items[0] = (at, number, msgspec.structs.replace(opened, simulated_nodes=made))
    sim.watch(spec, 1)
    for name, node in nodes.items():
        bound = {NODE: node} if node else {}
        seen = rec.ObjectSeen(at=sim.at(5), watch="w0", change="added", name=name, namespace="t", uid=name)
        sim.add(seen)
        sim.add(msgspec.structs.replace(seen, change="modified", fields=bound))
    return analyse(sim.records()).pod_places


def test_pods_are_distinguished_by_their_node() -> None:
    found = places({"a": "sim-0", "b": "sim-99", "c": "worker-1", "d": ""}, made={"sim": 100})
    assert found == PodPlaces(simulated=2, elsewhere=1, strays=(StrayPod(pod="t/c", node="worker-1"),))


def test_no_more_than_ten_strays_are_named() -> None:
    found = places({f"p{n}": "worker" for n in range(30)}, made={"sim": 1})
    assert found is not None
    assert (found.elsewhere, len(found.strays)) == (30, 10)


def test_nothing_is_reported_where_all_nodes_are_simulated_or_no_watch_keeps_it() -> None:
    assert places({"a": "worker-1"}, made={}) is None
    assert places({"a": "worker-1"}, made={"sim": 1}, spec=msgspec.structs.replace(PODS, fields=())) is None


@pytest.mark.parametrize(
    ("node", "ours"),
    [("sim-0", True), ("sim-99", True), ("sim-100", False), ("sim-007", False), ("sim", False), ("sim-x-1", False)],
)
def test_a_node_is_one_of_those_that_were_made(node: str, ours: bool) -> None:
    assert simulated(node, {"sim": 100}) is ours
