"""Cluster definition files: what may be written, and what is said of what may not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import resources
from pytest_grovescale.cluster.definition import (
    ApiServer,
    ClusterDefinition,
    ControllerManager,
    Kwok,
    Scheduler,
    load_definition,
)
from pytest_grovescale.errors import DefinitionError, UsageError
from tests.golden import masked

SMALL = """\
name: small
kubernetes: "1.36"
nodes:
  - prefix: node
    count: 3
stages: [node-initialize]
"""


def written(folder: Path, text: str) -> str:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return str(path)


def error(folder: Path, text: str) -> str:
    with pytest.raises(DefinitionError) as caught:
        load_definition(written(folder, text))
    return masked(str(caught.value).replace(f"{folder}/", ""), {folder: "folder", resources.root(): "bundled"})


def test_bundled_default_is_what_workloads_expect() -> None:
    default = load_definition("default")
    assert (default.name, default.backend, default.kubernetes, default.node_count) == (
        "default",
        "local",
        "1.36.3",
        100,
    )
    pool = default.nodes[0]
    assert pool.labels == {"type": "kwok"}
    assert [(t.key, t.value, t.effect) for t in pool.taints] == [("kwok.x-k8s.io/node", "fake", "NoSchedule")]
    assert [Path(stage).stem for stage in default.stages] == ["node-initialize", "pod-ready", "pod-delete"]


def test_limits_are_those_of_production_unless_said_otherwise(tmp_path: Path) -> None:
    definition = load_definition(written(tmp_path, SMALL))
    assert definition.api_server == ApiServer(
        priority_and_fairness=True, max_requests_inflight=400, max_mutating_requests_inflight=200, gomaxprocs=0
    )
    assert definition.controller_manager == ControllerManager(concurrent_gc_syncs=40)
    assert (definition.scheduler, definition.kwok) == (Scheduler(), Kwok(pod_parallelism=16, node_parallelism=16))


@pytest.mark.parametrize("path", sorted((resources.root() / "fixtures/clusters").glob("*.yaml")), ids=lambda p: p.name)
def test_every_bundled_definition_is_valid(path: Path) -> None:
    assert load_definition(str(path)).node_count > 0


@pytest.mark.parametrize("path", sorted((resources.root() / "fixtures/stages").glob("*.yaml")), ids=lambda p: p.name)
def test_every_bundled_stage_is_one(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert (document["kind"], document["metadata"]["name"]) == ("Stage", path.stem)


def test_files_are_found_beside_the_definition_first(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("{kind: Stage}")
    definition = load_definition(written(tmp_path, SMALL.replace("[node-initialize]", "[mine.yaml, pod-ready]")))
    assert definition.stages[0] == str(tmp_path / "mine.yaml")
    assert definition.stages[1].endswith("fixtures/stages/pod-ready.yaml")


def test_node_count_can_be_changed_and_keeps_proportions(tmp_path: Path) -> None:
    text = SMALL.replace("stages:", "  - {prefix: big, count: 1}\n  - {prefix: gpu, count: 2}\nstages:")
    definition = load_definition(written(tmp_path, text))
    assert definition.node_count == 6
    assert [pool.count for pool in definition.with_nodes(600).nodes] == [300, 100, 200]
    assert [pool.count for pool in definition.with_nodes(1).nodes] == [0, 0, 1]
    assert definition.with_nodes(7).node_count == 7
    with pytest.raises(UsageError, match="0 nodes"):
        definition.with_nodes(0)


def test_version_can_be_changed_to_a_supported_one() -> None:
    default = load_definition("default")
    assert default.with_version("1.35").kubernetes == "1.35.4"
    assert default.with_version("v1.34.2").kubernetes == "1.34.2"
    with pytest.raises(UsageError, match=r"Kubernetes 1\.20 is not supported"):
        default.with_version("1.20")


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        ("count: 3", "cuont: 3", "cluster.yaml:5: nodes[0].cuont"),
        ("count: 3", "count: three", "cluster.yaml:5: nodes[0].count"),
        ("count: 3", "count: -1", "cluster.yaml:5: nodes[0].count"),
        ("prefix: node", "prefix: No de", "cluster.yaml:4: nodes[0].prefix"),
        ("name: small\n", "", "cluster.yaml:1: name"),
        ('"1.36"', '"1.20"', "cluster.yaml:2: kubernetes"),
        ("[node-initialize]", "[]", "cluster.yaml:6: stages"),
        ("[node-initialize]", "[nonesuch]", "cluster.yaml:6: stages[0]"),
        ("stages:", "backend: other\nstages:", "cluster.yaml:6: backend"),
        ("stages:", "name: again\nstages:", "cluster.yaml:6: name"),
        ("stages:", "kwok: {leases: 1}\nstages:", "cluster.yaml:6: kwok.leases"),
        ("count: 3", "count: 3\n    capacity: {cpu: lots}", "cluster.yaml:6: nodes[0].capacity.cpu"),
        ("count: 3", "count: 3\n    labels: {'a b': c}", "cluster.yaml:6: nodes[0].labels.a b"),
        ("count: 3", "count: 3\n    taints: [{key: 'a b'}]", "nodes[0].taints[0].key"),
        ("count: 3", "count: 3\n    template: nonesuch", "cluster.yaml:6: nodes[0].template"),
        ("stages:", "  - {prefix: node, count: 1}\nstages:", "nodes[1].prefix"),
        ("stages:", "api_server: {gomaxprocs: -1}\nstages:", "api_server.gomaxprocs"),
        ("stages:", "api_server: {max_requests_inflight: 0, max_mutating_requests_inflight: 0}\nstages:", "api_server"),
        (
            "stages:",
            "api_server:\n  extra_args:\n    secure-port: '1'\nstages:",
            "cluster.yaml:8: api_server.extra_args.secure-port",
        ),
        ("stages:", "kwok: {extra_args: {--x: '1'}}\nstages:", "kwok.extra_args"),
        ("stages:", "scheduler: {limits: {qps: 0}}\nstages:", "scheduler.limits"),
        ("stages:", "binaries: {etdc: /x}\nstages:", "cluster.yaml:6: binaries.etdc"),
        ("stages:", "binaries: {etcd: nonesuch}\nstages:", "cluster.yaml:6: binaries.etcd"),
        ("nodes:\n  - prefix: node\n    count: 3\n", "nodes: []\n", "cluster.yaml:3: nodes"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_path(
    tmp_path: Path, old: str, new: str, at: str, snapshot: SnapshotAssertion
) -> None:
    assert old in SMALL
    said = error(tmp_path, SMALL.replace(old, new))
    assert at in said
    assert said == snapshot


def test_stage_file_with_something_else_is_refused(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "other.yaml").write_text("kind: ConfigMap")
    said = error(tmp_path, SMALL.replace("node-initialize", "other.yaml"))
    assert said.startswith("cluster.yaml:6: stages[0]: other.yaml")
    assert said == snapshot


def test_unknown_definition_lists_the_bundled_ones(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"Known by name: default,"):
        load_definition("nonesuch", base=tmp_path)


def test_definition_travels_as_json() -> None:
    default = load_definition("default")
    assert msgspec.json.decode(msgspec.json.encode(default), type=ClusterDefinition) == default
