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
    # There are no other nodes: pods of any operator run there.
    assert pool.taints == []
    for beside in ("kind", "existing"):
        (taint,) = load_definition(beside).nodes[0].taints
        assert (taint.key, taint.value, taint.effect) == ("kwok.x-k8s.io/node", "fake", "NoSchedule")
    assert [Path(stage).stem for stage in default.stages] == [
        "node-initialize",
        "pod-ready",
        "pod-complete",
        "pod-delete",
        "claim-bound",
        "service-balanced",
    ]


CLAIMS = SMALL.replace("[node-initialize]", "[node-initialize, claim-bound]")
BINDER = "-persistentvolume-binder-controller"


@pytest.mark.parametrize(
    ("text", "controllers"),
    [
        (SMALL + "controller_manager: {controllers: ['*']}\n", "*"),
        (CLAIMS + "controller_manager: {controllers: ['*']}\n", f"*,{BINDER}"),
        (CLAIMS + f"controller_manager: {{controllers: ['*', {BINDER}]}}\n", f"*,{BINDER}"),
        (CLAIMS + "controller_manager: {controllers: [job-controller]}\n", "job-controller"),
        (
            CLAIMS + "controller_manager: {extra_args: {controllers: '*,-job-controller'}}\n",
            f"*,-job-controller,{BINDER}",
        ),
    ],
)
def test_claims_are_bound_by_a_stage_alone(tmp_path: Path, text: str, controllers: str) -> None:
    definition = load_definition(written(tmp_path, text))
    assert definition.controller_manager.names == controllers
    assert definition.simulates_claims == ("claim-bound" in text)


@pytest.mark.parametrize(
    ("there", "simulated"),
    [("extends: existing\n", False), ("extends: kind\nkind: {cluster: theirs}\n", False), ("extends: kind\n", True)],
)
def test_claims_and_balanced_services_of_a_cluster_that_is_there_are_its_own(
    tmp_path: Path, there: str, simulated: bool
) -> None:
    as_made = "" if simulated else "api_server: null\nscheduler: null\n"
    definition = load_definition(written(tmp_path, f"name: mine\n{there}{as_made}"))
    assert definition.simulates_claims == simulated
    stages = [Path(stage).stem for stage in definition.stages]
    assert ("node-initialize" in stages, "service-balanced" in stages) == (True, simulated)


@pytest.mark.parametrize(
    ("controllers", "lease_seconds"),
    [
        ("[garbage-collector-controller]", 0),
        ("[garbage-collector-controller, node-lifecycle-controller]", 40),
        ("[nodelifecycle]", 40),
        ("['*']", 40),
        ("['*', -node-lifecycle-controller]", 0),
    ],
)
def test_nodes_renew_leases_where_a_controller_looks_for_them(
    tmp_path: Path, controllers: str, lease_seconds: int
) -> None:
    text = f"{SMALL}controller_manager: {{controllers: {controllers}}}\n"
    assert load_definition(written(tmp_path, text)).kwok.lease_seconds == lease_seconds
    assert load_definition(written(tmp_path, text + "kwok: {lease_seconds: 9}\n")).kwok.lease_seconds == 9


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
        ("stages:", "api_server: {memory_percent: 101}\nstages:", "api_server.memory_percent"),
        ("stages:", "api_server: {max_requests_inflight: 0, max_mutating_requests_inflight: 0}\nstages:", "api_server"),
        (
            "stages:",
            "api_server:\n  extra_args:\n    secure-port: '1'\nstages:",
            "cluster.yaml:8: api_server.extra_args.secure-port",
        ),
        ("stages:", "kwok: {extra_args: {--x: '1'}}\nstages:", "kwok.extra_args"),
        ("stages:", "scheduler: {limits: {qps: 0}}\nstages:", "scheduler.limits"),
        ("stages:", "scheduler: {percentage_of_nodes_to_score: 101}\nstages:", "percentage_of_nodes_to_score"),
        ("stages:", "binaries: {etdc: /x}\nstages:", "cluster.yaml:6: binaries.etdc"),
        ("stages:", "binaries: {etcd: nonesuch}\nstages:", "cluster.yaml:6: binaries.etcd"),
        ("nodes:\n  - prefix: node\n    count: 3\n", "nodes: []\n", "cluster.yaml:3: nodes"),
        (
            "stages: [",
            "controller_manager: {controllers: [persistentvolume-binder]}\nstages: [claim-bound, ",
            "cluster.yaml:6: controller_manager.controllers",
        ),
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


def test_an_extending_file_changes_some_fields(tmp_path: Path) -> None:
    definition = load_definition(
        written(tmp_path, "name: mine\nextends: default\napi_server: {gogc: 300}\nstages: [node-initialize.yaml]\n")
    )
    default = load_definition("default")
    assert (definition.name, definition.description, definition.extends) == ("mine", "", "")
    assert definition.api_server == msgspec.structs.replace(default.api_server, gogc=300)
    assert definition.nodes == default.nodes
    assert [Path(stage).stem for stage in definition.stages] == ["node-initialize"]


def test_null_leaves_out_what_an_extended_file_says(tmp_path: Path) -> None:
    definition = load_definition(written(tmp_path, "name: mine\nextends: default\napi_server: {gogc: null}\n"))
    assert (definition.api_server.gogc, definition.api_server.gomaxprocs) == (0, 8)
    definition = load_definition(written(tmp_path, "name: mine\nextends: default\napi_server: null\n"))
    assert definition.api_server == ApiServer()


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    """Over two levels, by name and by path; a ``<<`` counts as if its fields were written out."""
    for folder in ("fixtures/clusters", "team", "mine"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "team/stage.yaml").write_text("{kind: Stage}")
    (tmp_path / "team/etcd").write_text("")
    (tmp_path / "team/base.yaml").write_text(
        "name: base\nextends: default\nstages: [stage.yaml]\nbinaries: {etcd: etcd}\n"
        "scheduler: &s {limits: {qps: 7}}\ncontroller_manager: {<<: *s, concurrent_gc_syncs: 5}\n"
    )
    (tmp_path / "mine/node.yaml").write_text("{kind: Node}")
    (tmp_path / "mine/kwok").write_text("")
    text = (
        "name: mine\nextends: ../team/base.yaml\nnodes: [{prefix: a, count: 1, template: node.yaml}]\n"
        "binaries: {kwok: kwok}\ncontroller_manager: {limits: {burst: 9}}\n"
    )
    (tmp_path / "mine/cluster.yaml").write_text(text)
    definition = load_definition(str(tmp_path / "mine/cluster.yaml"))
    assert definition.stages == [str(tmp_path / "team/stage.yaml")]
    assert definition.nodes[0].template == str(tmp_path / "mine/node.yaml")
    assert definition.binaries == {"etcd": str(tmp_path / "team/etcd"), "kwok": str(tmp_path / "mine/kwok")}
    assert definition.scheduler.limits.qps == 7
    manager = definition.controller_manager
    assert (manager.limits.qps, manager.limits.burst, manager.concurrent_gc_syncs) == (7, 9, 5)


BASE = """\
name: base
kubernetes: "1.20"
nodes:
  - {prefix: node, count: 3}
  - {prefix: node, cuont: 3}
stages: [node-initialize, nonesuch]
api_server:
  gogc: -1
"""


@pytest.mark.parametrize(
    ("base", "text", "at"),
    [
        ("", "name: mine\nextends: nonesuch\n", ["cluster.yaml:2: extends: nonesuch"]),
        ("", "name: mine\nextends: defualt\n", ["Did you mean default?"]),
        ("", "name: mine\nextends: [default]\n", ["cluster.yaml:2: extends"]),
        ("", "extends: default\n", ["cluster.yaml:1: name: missing"]),
        ("", "name: mine\nextends: cluster.yaml\n", ["cluster.yaml extends cluster.yaml"]),
        ("extends: cluster\n", "name: mine\nextends: base\n", ["base.yaml:1: extends: is a circle"]),
        ("{", "name: mine\nextends: base\n", ["base.yaml:2: not YAML"]),
        ("- a\n", "name: mine\nextends: base\n", ["base.yaml:1: the file"]),
        ("name: base\nname: base\n", "name: mine\nextends: base\n", ["base.yaml:2: name: is there twice"]),
        ("name: base\nkubernetes: !x 1\n", "name: mine\nextends: base\n", ["base.yaml:2: could not determine"]),
        pytest.param(
            BASE, "name: mine\nextends: base\n", ["base.yaml:5: nodes[1].cuont", "cluster.yaml extends"], id="field"
        ),
        pytest.param(
            BASE.replace("cuont", "count"),
            "name: mine\nextends: base\nstages: [other]\n",
            [
                "base.yaml:2: kubernetes",
                "base.yaml:5: nodes[1].prefix",
                "cluster.yaml:3: stages[0]",
                "base.yaml:8: api",
            ],
            id="several",
        ),
        (
            "extends: default\napi_server: {gogc: 5}\n",
            "name: mine\nextends: base\nbackend: existing\n",
            ["base.yaml:2: api_server: is set by the creator"],
        ),
    ],
)
def test_a_mistake_is_where_the_wrong_value_stands(
    tmp_path: Path, base: str, text: str, at: list[str], snapshot: SnapshotAssertion
) -> None:
    (tmp_path / "base.yaml").write_text(base)
    said = error(tmp_path, text)
    assert [part for part in at if part not in said] == []
    assert said == snapshot
