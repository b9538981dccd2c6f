"""The configuration that kind is given, and the patches of the control plane that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pytest_grovescale import procfs
from pytest_grovescale.cluster.definition import ApiServer, ClientLimits, ControllerManager, Scheduler, load_definition
from pytest_grovescale.cluster.kind import configuration

WANTED = configuration.KindCluster(
    name="mine",
    image="node:v1",
    addons=True,
    node_count=100,
    files=Path("/state/node"),
    audit=Path("/state/audit"),
    api_port=18001,
    metrics_ports={"etcd": 18002},
    own={},
)


def rendered(**changed: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(configuration.configuration(msgspec.structs.replace(WANTED, **changed)))
    return found


def patches(found: dict[str, Any]) -> list[Any]:
    return [yaml.safe_load(patch) for patch in found["kubeadmConfigPatches"]]


def test_one_node_with_the_files_the_log_and_the_ports() -> None:
    found = rendered()
    assert (found["kind"], found["apiVersion"], found["name"]) == ("Cluster", "kind.x-k8s.io/v1alpha4", "mine")
    assert found["networking"] == {"apiServerAddress": "127.0.0.1", "apiServerPort": 18001}
    assert found["nodes"] == [
        {
            "role": "control-plane",
            "image": "node:v1",
            "extraMounts": [
                {"hostPath": "/state/node", "containerPath": "/etc/grovescale", "readOnly": True},
                {"hostPath": "/state/audit", "containerPath": "/var/log/grovescale"},
            ],
            "extraPortMappings": [{"containerPort": 2381, "hostPort": 18002, "listenAddress": "127.0.0.1"}],
        }
    ]
    assert patches(found) == [{"kind": "InitConfiguration", "patches": {"directory": "/etc/grovescale/patches"}}]


def test_image_without_addons_does_without_them() -> None:
    found = rendered(addons=False)
    assert found["networking"]["disableDefaultCNI"] is True
    assert found["networking"]["kubeProxyMode"] == "none"
    assert patches(found)[0]["skipPhases"] == ["preflight", "addon/kube-proxy", "addon/coredns"]


@pytest.mark.parametrize(("count", "wide"), [(250, False), (251, True), (5000, True)])
def test_pod_network_has_room_for_every_node(count: int, wide: bool) -> None:
    assert ("podSubnet" in rendered(node_count=count)["networking"]) is wide


def test_users_own_configuration_is_merged_in() -> None:
    own = {
        "featureGates": {"X": True},
        "networking": {"podSubnet": "10.20.0.0/16"},
        "nodes": [
            {"role": "worker"},
            {"role": "control-plane", "extraMounts": [{"hostPath": "/a", "containerPath": "/b"}], "labels": {"a": "b"}},
        ],
        "kubeadmConfigPatches": ["kind: ClusterConfiguration"],
    }
    found = rendered(own=own, node_count=1000)
    assert found["featureGates"] == {"X": True}
    assert found["networking"]["podSubnet"] == "10.20.0.0/16"
    assert found["nodes"][0] == {"role": "worker", "image": "node:v1"}
    control_plane = found["nodes"][1]
    assert control_plane["labels"] == {"a": "b"}
    assert [mount["containerPath"] for mount in control_plane["extraMounts"]] == [
        "/b",
        "/etc/grovescale",
        "/var/log/grovescale",
    ]
    assert [patch["kind"] for patch in patches(found)] == ["InitConfiguration", "ClusterConfiguration"]


# ---- patches of the control plane


def given(name: str, files: dict[str, str]) -> list[str]:
    """Return the flags that a patch appends."""
    operations = yaml.safe_load(files[f"patches/{name}0+json.yaml"])
    assert {(op["op"], op["path"]) for op in operations} == {("add", "/spec/containers/0/command/-")}
    return [op["value"] for op in operations]


def test_limits_of_the_definition_are_in_force() -> None:
    definition = msgspec.structs.replace(
        load_definition("kind"),
        api_server=ApiServer(
            priority_and_fairness=False,
            max_requests_inflight=7,
            max_mutating_requests_inflight=3,
            gomaxprocs=5,
            gogc=150,
            memory_percent=25,
            extra_args={"v": "4"},
        ),
        controller_manager=ControllerManager(limits=ClientLimits(qps=11, burst=12), extra_args={"controllers": "*,-x"}),
        scheduler=Scheduler(limits=ClientLimits(qps=21, burst=22)),
    )
    files = configuration.files_in_node(definition)
    api = given("kube-apiserver", files)
    assert "--enable-priority-and-fairness=false" in api
    assert "--max-requests-inflight=7" in api
    assert "--max-mutating-requests-inflight=3" in api
    assert api[-1] == "--v=4"
    manager = given("kube-controller-manager", files)
    assert {"--kube-api-qps=11", "--kube-api-burst=12", "--concurrent-gc-syncs=40"} <= set(manager)
    assert "--controllers=*,-x" in manager
    bare = msgspec.structs.replace(definition, controller_manager=ControllerManager(), stages=[])
    assert not [
        flag for flag in given("kube-controller-manager", configuration.files_in_node(bare)) if "controllers" in flag
    ]
    scheduler = yaml.safe_load(files["scheduler.yaml"])
    assert scheduler["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 21, "burst": 22}
    environment = yaml.safe_load(files["patches/kube-apiserver1+strategic.yaml"])["spec"]["containers"][0]["env"]
    limit = procfs.machine_memory().total // 4
    assert limit > 0
    assert {one["name"]: one["value"] for one in environment} == {
        "GOMAXPROCS": "5",
        "GOGC": "150",
        "GOMEMLIMIT": str(limit),
    }


def test_audit_log_is_written_where_it_is_mounted() -> None:
    files = configuration.files_in_node(load_definition("kind"))
    api = given("kube-apiserver", files)
    flags = dict(one.partition("=")[::2] for one in api)
    assert flags["--audit-log-path"] == f"{configuration.AUDIT_IN_NODE}/audit.log"
    assert flags["--audit-policy-file"] == f"{configuration.IN_NODE}/audit-policy.yaml"
    assert yaml.safe_load(files["audit-policy.yaml"])["rules"] == [{"level": "Metadata"}]


def test_every_mount_of_a_component_has_its_volume() -> None:
    files = configuration.files_in_node(load_definition("kind"))
    strategic = [yaml.safe_load(text) for name, text in files.items() if name.endswith("+strategic.yaml")]
    assert len(strategic) == 2
    for patch in strategic:
        volumes = {volume["name"]: volume["hostPath"]["path"] for volume in patch["spec"]["volumes"]}
        for mount in patch["spec"]["containers"][0]["volumeMounts"]:
            assert volumes[mount["name"]] == mount["mountPath"]


def test_without_a_wish_the_environment_stays_as_it_is() -> None:
    definition = msgspec.structs.replace(load_definition("kind"), api_server=ApiServer())
    patch = yaml.safe_load(configuration.files_in_node(definition)["patches/kube-apiserver1+strategic.yaml"])
    assert "env" not in patch["spec"]["containers"][0]


def test_files_are_written_with_their_folders(tmp_path: Path) -> None:
    definition = load_definition("kind")
    configuration.write_files(definition, tmp_path / "node")
    for path, content in configuration.files_in_node(definition).items():
        assert (tmp_path / "node" / path).read_text() == content
