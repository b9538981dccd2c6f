"""The build of an operator's program before its start."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import DefinitionError, OperatorError
from pytest_grovescale.operator import build
from pytest_grovescale.operator.definition import OperatorDefinition, load
from tests.golden import masked


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))


def operator(folder: Path, command: str) -> OperatorDefinition:
    file = folder / "mine.yaml"
    file.write_text(f"name: mine\nbuild: {command}\ncommand: [./mine]\nreadiness: {{url: 'http://127.0.0.1:1/'}}\n")
    return load(str(file), workdir=folder)


def test_it_runs_in_the_working_folder(tmp_path: Path) -> None:
    said: list[str] = []
    build.run(operator(tmp_path, "[touch, mine]"), tmp_path / "logs", progress=said.append)
    assert (tmp_path / "mine").exists()
    assert "touch mine" in said[0]


def crd(version: str) -> str:
    return (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: carts.example.com}\n"
        "spec: {group: example.com, names: {kind: Cart, plural: carts}, scope: Namespaced, versions: "
        f"[{{name: {version}, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}]}}\n"
    )


def test_crds_that_it_writes_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "crd.yaml").write_text(crd("v1"), encoding="utf-8")
    (tmp_path / "next.yaml").write_text(crd("v2"), encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nbuild: [cp, next.yaml, crd.yaml]\ncommand: [./mine]\ncrds: crd.yaml\n"
        "readiness: {url: 'http://127.0.0.1:1/'}\n"
    )
    before = load(str(tmp_path / "mine.yaml"), workdir=tmp_path)
    built = build.run(before, tmp_path / "logs", progress=lambda text: None)
    (found,) = built.installation.crds
    assert found.object["spec"]["versions"][0]["name"] == "v2"
    assert built == load(str(tmp_path / "mine.yaml"), workdir=tmp_path)


def test_without_one_nothing_happens(tmp_path: Path) -> None:
    build.run(operator(tmp_path, "[]"), tmp_path / "logs", progress=pytest.fail)
    assert not (tmp_path / "logs").exists()


def test_a_build_that_fails_shows_its_last_lines(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    definition = operator(tmp_path, "[sh, -c, 'echo main.go:3: undefined; exit 2']")
    with pytest.raises(OperatorError) as failed:
        build.run(definition, tmp_path / "logs", progress=lambda text: None)
    assert masked(str(failed.value), {tmp_path: "folder"}) == snapshot
    assert "main.go:3" in (tmp_path / "logs" / build.LOG).read_text()


def test_a_tool_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="no-such-tool") as failed:
        build.run(operator(tmp_path, "[no-such-tool]"), tmp_path / "logs", progress=lambda text: None)
    assert "PATH" in failed.value.next_step


def test_pods_have_no_build(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nbuild: [make]\npod: {manifests: [a.yaml]}\n")
    with pytest.raises(DefinitionError, match=r"mine\.yaml:2: build: "):
        load(str(file))
