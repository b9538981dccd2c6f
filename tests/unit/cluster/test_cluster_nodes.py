"""Simulated nodes as manifests, and the command lines of the components."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pytest_grovescale import procfs
from pytest_grovescale.cluster import kwok, ledger, nodes
from pytest_grovescale.cluster.definition import (
    POOL_LABEL,
    ApiServer,
    ClusterDefinition,
    Kwok,
    NodePool,
    Taint,
    load_definition,
)
from pytest_grovescale.cluster.launch import control_plane_limits, scheduler_configuration
from pytest_grovescale.cluster.local import components

TEMPLATE: dict[str, Any] = {
    "metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"a": "template", "b": "template"}},
    "status": {"capacity": {"cpu": 32, "pods": 110}, "nodeInfo": {"kubeletVersion": "simulated"}},
}


def test_pool_stands_over_the_template() -> None:
    pool = NodePool(
        prefix="gpu", count=2, capacity={"cpu": 64, "nvidia.com/gpu": 8}, labels={"b": "pool"}, taints=[Taint(key="t")]
    )
    made = nodes.node(TEMPLATE, pool, 1, cluster="mine")
    assert made["metadata"]["name"] == "gpu-1"
    assert made["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    own = {"kubernetes.io/hostname": "gpu-1", POOL_LABEL: "gpu", ledger.CLUSTER_LABEL: "mine"}
    assert made["metadata"]["labels"] == {"a": "template", "b": "pool", **own}
    assert made["spec"]["taints"] == [{"key": "t", "value": "", "effect": "NoSchedule"}]
    assert made["status"]["capacity"] == {"cpu": "64", "pods": "110", "nvidia.com/gpu": "8"}
    assert made["status"]["allocatable"] == made["status"]["capacity"]
    assert made["status"]["nodeInfo"] == {"kubeletVersion": "simulated"}


def test_template_is_not_changed() -> None:
    nodes.node(TEMPLATE, NodePool(prefix="a", count=1, labels={"c": "d"}), 0, cluster="mine")
    assert TEMPLATE["metadata"]["labels"] == {"a": "template", "b": "template"}


def test_all_pools_are_made_with_names_of_their_own() -> None:
    default = load_definition("default").with_nodes(3)
    second = msgspec.structs.replace(default.nodes[0], prefix="other", count=2)
    both = msgspec.structs.replace(default, nodes=[*default.nodes, second])
    names = [manifest["metadata"]["name"] for manifest in nodes.manifests(both, cluster="mine")]
    assert names == ["node-0", "node-1", "node-2", "other-0", "other-1"]


def test_beside_others_nodes_have_the_clusters_name_in_theirs() -> None:
    default = load_definition("default").with_nodes(2)
    made = list(nodes.manifests(default, cluster="mine", prefixes=nodes.prefixed(default, "mine")))
    assert [one["metadata"]["name"] for one in made] == ["mine-node-0", "mine-node-1"]
    assert [one["metadata"]["labels"]["kubernetes.io/hostname"] for one in made] == ["mine-node-0", "mine-node-1"]
    assert {one["metadata"]["labels"][POOL_LABEL] for one in made} == {"node"}


def start(definition: ClusterDefinition) -> components.Start:
    return components.Start(
        name="one",
        folder=Path("/state/clusters/one"),
        definition=definition,
        binaries={name: Path("/bin") / name for name in components.PORTS},
        ports={name: 18000 + number for number, name in enumerate(components.PORTS)},
    )


def test_limits_of_the_definition_reach_the_components() -> None:
    default = load_definition("default")
    api = ApiServer(
        priority_and_fairness=False,
        max_requests_inflight=0,
        max_mutating_requests_inflight=0,
        gomaxprocs=8,
        extra_args={"v": "2"},
    )
    definition = msgspec.structs.replace(default, api_server=api, kwok=Kwok(lease_seconds=40, pod_parallelism=3))
    plan = components.specs(start(definition))
    assert {
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--v=2",
    } <= set(plan["kube-apiserver"].argv)
    assert plan["kube-apiserver"].env["GOMAXPROCS"] == "8"
    assert "GOMAXPROCS" not in plan["etcd"].env
    assert "--node-lease-duration-seconds=40" in plan["kwok"].argv
    assert {"--kube-api-qps=5000", "--kube-api-burst=10000"} <= set(plan["kube-controller-manager"].argv)
    configuration = next(yaml.safe_load_all(kwok.configuration(definition)))
    assert configuration["options"]["podPlayStageParallelism"] == 3


def test_components_get_a_small_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://example.invalid")
    monkeypatch.setenv("KUBECONFIG", "/mine")
    monkeypatch.setenv("GOMAXPROCS", "1")
    for spec in components.specs(start(load_definition("unlimited"))).values():
        assert set(spec.env) <= {"PATH", "HOME", "TMPDIR"}


def test_the_api_servers_heap_growth_is_the_definitions() -> None:
    specs = components.specs(start(load_definition("default")))
    given = specs["kube-apiserver"].env
    assert (given["GOGC"], int(given["GOMEMLIMIT"])) == ("400", procfs.machine_memory().total // 2)
    others = [spec.env for name, spec in specs.items() if name != "kube-apiserver"]
    assert not [env for env in others if {"GOGC", "GOMEMLIMIT"} & {*env}]


@pytest.mark.parametrize(("name", "share", "spreads"), [("default", 5, False), ("production", 0, True)])
def test_the_scheduler_leaves_out_what_only_spreads_pods_unless_asked(name: str, share: int, spreads: bool) -> None:
    definition = load_definition(name)
    written = scheduler_configuration(definition, kubeconfig="k")
    assert written["percentageOfNodesToScore"] == share
    (profile,) = written["profiles"]
    constraints = [one["args"]["defaultConstraints"] for one in profile.get("pluginConfig", [])]
    assert constraints == ([] if spreads else [[]])
    assert {"name": "VolumeBinding"} in profile["plugins"]["multiPoint"]["disabled"]
    bare = scheduler_configuration(msgspec.structs.replace(definition, stages=[]), kubeconfig="k")
    assert "plugins" not in bare["profiles"][0]
    facts = control_plane_limits(definition, controllers="")
    assert facts["scheduler_default_spreading"] is spreads
    assert facts["scheduler_nodes_to_score"] == ("5 %" if share else "adaptive")


def test_no_one_listens_beyond_loopback() -> None:
    plan = components.specs(start(load_definition("default")))
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert "--bind-address=127.0.0.1" in plan[name].argv
    assert "--server-address=127.0.0.1:18003" in plan["kwok"].argv
    urls = [argument for argument in plan["etcd"].argv if "-urls=" in argument]
    assert all("=unix://" in url or "=http://127.0.0.1:" in url for url in urls)


def test_every_component_is_restarted_by_its_supervisor() -> None:
    assert all(spec.restart for spec in components.specs(start(load_definition("default"))).values())
