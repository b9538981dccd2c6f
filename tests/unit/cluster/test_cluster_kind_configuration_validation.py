"""Definitions of the backend kind, and the kind configurations that they name: what may not stand in them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.cluster.definition import Kind, load_definition
from pytest_grovescale.errors import DefinitionError, UsageError

SMALL = """\
name: small
backend: kind
nodes:
  - prefix: node
    count: 3
stages: [node-initialize]
kind:
  config: mine.yaml
"""

CONFIG = """\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
  - role: control-plane
  - role: worker
networking:
  podSubnet: 10.20.0.0/16
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(CONFIG)
    return tmp_path


def written(folder: Path, text: str = SMALL) -> str:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return str(path)


def error(folder: Path, text: str = SMALL) -> str:
    with pytest.raises(DefinitionError) as caught:
        load_definition(written(folder, text))
    return str(caught.value).replace(f"{folder}/", "")


def test_bundled_definition_is_the_default_one_on_kind() -> None:
    default, kind = load_definition("default"), load_definition("kind")
    assert kind.backend == "kind"
    (here,), (there,) = default.nodes, kind.nodes
    assert there == msgspec.structs.replace(here, taints=there.taints)
    assert (kind.stages, kind.api_server) == (default.stages, default.api_server)
    assert kind.kwok.lease_seconds == 40


def test_configuration_is_found_beside_the_definition(folder: Path) -> None:
    definition = load_definition(written(folder))
    assert definition.kind == Kind(config=str(folder / "mine.yaml"))


def test_nodes_have_leases_where_a_controller_looks_for_them(folder: Path) -> None:
    assert load_definition(written(folder)).kwok.lease_seconds == 40
    own = SMALL + "kwok: {lease_seconds: 120}\n"
    assert load_definition(written(folder, own)).kwok.lease_seconds == 120
    assert load_definition("default").kwok.lease_seconds == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("backend: kind", "backend: local", "cluster.yaml:7: kind: is for the backend kind; this one is local"),
        ("stages:", "existing: {context: x}\nstages:", "cluster.yaml:6: existing: is for the backend existing"),
        ("mine.yaml", "nonesuch.yaml", "cluster.yaml:8: kind.config: nonesuch.yaml: no such file"),
        ("stages:", "binaries: {etcd: /bin/sh}\nstages:", "cluster.yaml:6: binaries.etcd: is in the node image"),
        (
            "stages:",
            "controller_manager: {controllers: [namespace-controller]}\nstages:",
            "cluster.yaml:6: controller_manager.controllers: a kind cluster runs all controllers",
        ),
        ("config: mine.yaml", "engine: nerdctl", "cluster.yaml:8: kind.engine: invalid value"),
        ("config: mine.yaml", "kwok_image: x", "cluster.yaml:8: kind.kwok_image: kwok runs on this machine"),
        ("config:", "cluster: there\n  config:", "cluster.yaml:9: kind.config: cluster there is there already"),
        (
            "  config: mine.yaml",
            "  cluster: there\napi_server: {gogc: 5}",
            "cluster.yaml:9: api_server: cluster there is there already, and its control plane stays as it is",
        ),
    ],
)
def test_what_makes_no_sense_with_kind_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    assert old in SMALL
    assert said in error(folder, SMALL.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: Cluster", "kind: Config", "mine.yaml:1: is no kind configuration"),
        ("v1alpha4", "v1alpha3", "mine.yaml:1: is no kind configuration"),
        ("kind: Cluster", "kind: [", "mine.yaml:3: not YAML: expected"),
        ("networking:", "name: x\nnetworking:", "mine.yaml:6: name: the cluster is named as it is started"),
        (
            "podSubnet",
            "apiServerPort: 1\n  podSubnet",
            "mine.yaml:7: networking.apiServerPort: is chosen by the harness",
        ),
        ("role: worker", "role: control-plane", "mine.yaml:5: nodes[1]: 2 control planes: there is to be one"),
        ("role: control-plane", "role: worker", "mine.yaml:3: nodes: 0 control planes"),
        (
            "role: worker",
            "image: x\n    role: worker",
            "mine.yaml:5: nodes[1].image: belongs into the cluster definition",
        ),
        ("nodes:", "nodes: {}\nother:", "mine.yaml:3: nodes: is no list of nodes"),
        (
            "- role: control-plane",
            "- extraMounts: [{hostPath: /a, containerPath: /etc}]",
            "mine.yaml:4: nodes[0].extraMounts[0].containerPath: lies over /etc/grovescale",
        ),
        (
            "networking:",
            "kubeadmConfigPatches: [3]\nnetworking:",
            "mine.yaml:6: kubeadmConfigPatches: is no list of texts",
        ),
        ("networking:", "kubeadmConfigPatches: ['a: [']\nnetworking:", "kubeadmConfigPatches[0]: is no YAML"),
    ],
)
def test_what_contradicts_the_harness_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    assert old in CONFIG
    (folder / "mine.yaml").write_text(CONFIG.replace(old, new, 1))
    assert said in error(folder)


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (
            "{kind: ClusterConfiguration, apiServer: {extraArgs: {audit-log-path: x}}}",
            "apiServer.extraArgs: audit-log-path is set by the harness",
        ),
        (
            "{kind: ClusterConfiguration, apiServer: {extraArgs: [{name: max-requests-inflight, value: '1'}]}}",
            "apiServer.extraArgs: max-requests-inflight is set by the harness",
        ),
        (
            "{kind: ClusterConfiguration, scheduler: {extraArgs: [{name: config, value: x}]}}",
            "scheduler.extraArgs: config is set by the harness",
        ),
        (
            "{kind: ClusterConfiguration, controllerManager: {extraArgs: {kube-api-qps: '1'}}}",
            "controllerManager.extraArgs: kube-api-qps is set by the harness",
        ),
        ("{kind: InitConfiguration, patches: {directory: /x}}", "patches.directory is the harness's own"),
    ],
)
@pytest.mark.parametrize("of_node", [False, True])
def test_patches_of_what_the_harness_sets_are_refused(folder: Path, patch: str, said: str, of_node: bool) -> None:
    text = f'kubeadmConfigPatches: ["{patch}"]'
    new = CONFIG.replace("role: worker", f"role: worker\n    {text}") if of_node else CONFIG + text
    (folder / "mine.yaml").write_text(new)
    place = "mine.yaml:6: nodes[1].kubeadmConfigPatches[0]" if of_node else "mine.yaml:8: kubeadmConfigPatches[0]"
    assert f"{place}: {said}" in error(folder)


def test_other_flags_and_patches_are_the_users(folder: Path) -> None:
    patch = "{kind: ClusterConfiguration, apiServer: {extraArgs: [{name: v, value: '4'}]}}"
    (folder / "mine.yaml").write_text(CONFIG + f'kubeadmConfigPatches: ["{patch}", "{{kind: KubeletConfiguration}}"]\n')
    assert load_definition(written(folder)).kind is not None


@pytest.mark.parametrize("decides", ["image: mine:v1.35.1", "cluster: there"])
def test_version_is_not_chosen_where_something_else_decides_it(folder: Path, decides: str) -> None:
    definition = load_definition(written(folder, SMALL.replace("config: mine.yaml", decides)))
    with pytest.raises(UsageError, match="decides the Kubernetes version"):
        definition.with_version("1.35")
    assert load_definition("kind").with_version("1.35").kubernetes == "1.35.4"
