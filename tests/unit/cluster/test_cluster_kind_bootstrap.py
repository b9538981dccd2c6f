"""kwok as a pod: on the real node's network, with its own certificate, and nothing of the cluster's needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pytest_grovescale.cluster.definition import Kind, load_definition
from pytest_grovescale.cluster.kind import bootstrap
from pytest_grovescale.cluster.kind.container_engine import Engine
from pytest_grovescale.kube.access import Access

ACCESS = Access(server="https://127.0.0.1:18001", ca_pem="ca", client_cert_pem="certificate", client_key_pem="key")


def manifests(cluster: str = "mine") -> dict[str, Any]:
    found = bootstrap.kwok_manifests(load_definition("kind"), cluster=cluster, image="kwok:1", access=ACCESS)
    return {str(obj["kind"]): obj for obj in found}


def test_pod_speaks_to_the_api_server_of_its_node_as_kwok() -> None:
    found = manifests()
    document = yaml.safe_load(found["Secret"]["stringData"]["kubeconfig"])
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["hostNetwork"]
    assert pod["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}
    assert [pod["tolerations"][0]["key"]] == list(pod["nodeSelector"])
    flags = dict(one.partition("=")[::2] for one in pod["containers"][0]["args"])
    assert flags["--manage-nodes-with-label-selector"] == "grovescale.io/cluster=mine"
    assert flags["--manage-all-nodes"] == "false"


def test_stages_come_with_it() -> None:
    documents = list(yaml.safe_load_all(manifests()["Secret"]["stringData"]["kwok.yaml"]))
    assert [document["kind"] for document in documents] == ["KwokConfiguration"] + 6 * ["Stage"]


def test_namespace_is_found_again_at_the_end() -> None:
    namespace = manifests(cluster="a.b_c")["Namespace"]["metadata"]
    assert namespace == {"name": "grovescale-kwok-a-b-c", "labels": {"grovescale.io/cluster": "a.b_c"}}


def test_image_is_the_definitions_or_one_built_here_or_the_published_one(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    engine = Engine(name="docker", executable=str(program), version="1", cgroup_version="2", rootless=False)
    assert bootstrap.kwok_image(Kind(kwok_image="mine:1"), engine) == "mine:1"
    assert bootstrap.kwok_image(Kind(), engine) == "registry.k8s.io/kwok/kwok:v0.8.0"
    program.write_text("#!/bin/sh\nexit 0\n")
    assert bootstrap.kwok_image(Kind(), engine) == "grovescale-kwok:0.8.0"
    assert manifests()["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"] == "kwok:1"
