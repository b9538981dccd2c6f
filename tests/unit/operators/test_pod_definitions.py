"""A definition of an operator that runs as pods: what it says, and every mistake with its file, line and path."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import DefinitionError, UsageError
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.pods import definition as checking
from tests.golden import masked

DEPLOYMENT = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: robots}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: robot, namespace: robots}
spec:
  selector: {matchLabels: {app: robot, tier: back}}
  template:
    metadata: {labels: {app: robot, tier: back}}
    spec:
      serviceAccountName: robot
      containers:
        - name: main
          image: robot:1
          ports: [{name: metrics, containerPort: 9090}]
"""

GOOD = """\
name: sample
pod:
  manifests: [manifests]
  image: "robot:{tag}"
  replicas: "{replicas}"
  arguments: ["--tag={tag}", {for: defect, arguments: ["--defect={defect}"]}]
  env: {WHERE: "{namespace}"}
  metrics: {port: metrics, interval: 2s}
  pprof: {port: 6060, path: /debug/pprof}
values:
  tag: a
  replicas: 1
  defect: []
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.yaml").write_text(DEPLOYMENT)
    return tmp_path


def write(folder: Path, text: str) -> str:
    path = folder / "sample.yaml"
    path.write_text(text)
    return str(path)


def test_good_one_is_good(folder: Path) -> None:
    definition = load(write(folder, GOOD), values={"replicas": "2"})
    assert definition.user == "system:serviceaccount:robots:robot"
    assert definition.pod is not None
    assert definition.pod.metrics is not None
    assert definition.pod.metrics.number == 9090
    assert checking.replicas(definition) == 2


def test_bundled_one_is_good(snapshot: SnapshotAssertion) -> None:
    definition = load("reference-pod")
    assert definition.user == snapshot
    assert definition.user.endswith(":grove-reference-operator")
    assert set(load("reference").values) <= set(definition.values)


@pytest.mark.parametrize(
    ("old", "new", "line", "place"),
    [
        ("name: sample\n", "name: sample\ncommand: [x]\n", 3, "pod"),
        ("name: sample\n", "name: sample\nenv: {A: b}\n", 2, "env"),
        ("name: sample\n", "name: sample\nmetrics: {url: 'http://a:1/'}\n", 2, "metrics"),
        ("name: sample\n", "name: sample\nlimits: {memory: 1Gi}\n", 2, "limits"),
        ("name: sample\n", "name: sample\nidentity: {service_account: x}\n", 2, "identity.service_account"),
        ("[manifests]", "[]", 3, "pod.manifests"),
        ("[manifests]", "[elsewhere]", 3, "pod.manifests[0]"),
        ("  image:", "  archive: x.tar\n  dockerfile: D\n  image:", 5, "pod.dockerfile"),
        ("  image:", "  context: .\n  image:", 4, "pod.context"),
        ('  image: "robot:{tag}"\n', "  dockerfile: D\n", 4, "pod.dockerfile"),
        ('  image: "robot:{tag}"', '  image: "robot:{tga}"', 4, "pod.image"),
        ("--tag={tag}", "--tag={kubeconfig}", 6, "pod.arguments[0]"),
        ("--tag={tag}", "--tag={defect}", 6, "pod.arguments[0]"),
        ("{for: defect,", "{for: deffect,", 6, "pod.arguments[1].for"),
        ("port: metrics,", "port: metricks,", 8, "pod.metrics.port"),
        ("port: 6060", "port: 0", 9, "pod.pprof.port"),
        ("path: /debug", "path: debug", 9, "pod.pprof.path"),
        ("port: 6060,", "port: 6060, token: true,", 9, "pod.pprof.token"),
        ("port: 6060,", "port: 6060, via: forward,", 9, "pod.pprof.via"),
        ("port: 6060,", "port: 6060, ca_file: x, scheme: https,", 9, "pod.pprof.ca_file"),
        ("port: metrics,", "", 8, "pod.metrics"),
        ("port: metrics,", "service: {name: a, port: 1}, scheme: https,", 8, "pod.metrics.scheme"),
        ("interval: 2s", "interval: soon", 8, "pod.metrics.interval"),
        ("  env:", "  deployment: other\n  env:", 7, "pod.deployment"),
        ("  env:", "  container: side\n  env:", 7, "pod.container"),
        ("  env:", "  roll_timeout: 5s\n  env:", 7, "pod.roll_timeout"),
    ],
)
def test_mistakes(folder: Path, old: str, new: str, line: int, place: str, snapshot: SnapshotAssertion) -> None:
    assert old in GOOD
    path = write(folder, GOOD.replace(old, new, 1))
    with pytest.raises(DefinitionError) as raised:
        load(path)
    said = str(raised.value)
    assert f"{path}:{line}: {place}: " in said
    assert masked(said, {folder: "folder"}) == snapshot


@pytest.mark.parametrize(("name", "value"), [("replicas", "0"), ("replicas", "many")])
def test_wrong_values(folder: Path, name: str, value: str) -> None:
    with pytest.raises(UsageError, match=r"pod\.replicas"):
        load(write(folder, GOOD), values={name: value})


def test_archive_is_looked_for_before_anything_starts(folder: Path) -> None:
    text = GOOD.replace("  image:", '  archive: "{file}"\n  image:').replace("values:\n", 'values:\n  file: ""\n')
    path = write(folder, text)
    assert checking.archive(load(path)) is None
    with pytest.raises(UsageError, match=r"pod\.archive: no such file"):
        load(path, values={"file": str(folder / "no.tar")})
    (folder / "yes.tar").touch()
    assert checking.archive(load(path, values={"file": str(folder / "yes.tar")})) == folder / "yes.tar"


def test_neither_process_nor_pod(tmp_path: Path) -> None:
    path = write(tmp_path, "name: sample\n")
    with pytest.raises(DefinitionError, match="command: missing") as raised:
        load(path)
    assert "pod:" in str(raised.value)


def test_several_deployments_have_to_be_distinguished(folder: Path, snapshot: SnapshotAssertion) -> None:
    second = DEPLOYMENT.split("---\n")[1].replace("name: robot, namespace: robots", "name: other, namespace: others")
    (folder / "manifests" / "more.yaml").write_text(second)
    with pytest.raises(DefinitionError) as caught:
        load(write(folder, GOOD))
    assert masked(str(caught.value), {folder: "folder"}) == snapshot
    assert "robots/robot" in caught.value.message
    definition = load(write(folder, GOOD.replace("  env:", "  deployment: others/other\n  env:")))
    assert definition.user == "system:serviceaccount:others:robot"


def test_wrong_manifest_is_reported_with_its_own_line(folder: Path) -> None:
    (folder / "manifests" / "all.yaml").write_text(DEPLOYMENT.replace("kind: ServiceAccount\n", ""))
    with pytest.raises(DefinitionError, match=r"all\.yaml:1: kind: missing"):
        load(write(folder, GOOD))


def test_objects_without_a_namespace_are_in_the_definitions_own(folder: Path) -> None:
    (folder / "manifests" / "all.yaml").write_text(DEPLOYMENT.replace(", namespace: robots", ""))
    definition = load(write(folder, GOOD.replace("name: sample\n", "name: sample\nidentity: {namespace: mine}\n")))
    assert definition.user == "system:serviceaccount:mine:robot"
