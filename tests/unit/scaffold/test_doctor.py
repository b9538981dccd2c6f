"""``grovescale doctor``: what a machine lacks, with the next step, and the exit code that a script can use."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import cli
from pytest_grovescale.errors import ExitCode
from pytest_grovescale.scaffold import build_tools, doctor
from pytest_grovescale.scaffold.doctor import Finding, Ways


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))


def found(name: str) -> Finding:
    (one,) = [finding for finding in doctor.examine() if finding.name == name]
    return one


def test_every_finding_that_is_not_ok_has_a_next_step_and_nothing_is_left(tmp_path: Path) -> None:
    findings = doctor.examine()
    assert {
        "platform",
        "python",
        "go",
        "cores",
        "memory",
        "reports",
        "state",
        "open files",
        "py-spy",
        "kind clusters",
    } <= {finding.name for finding in findings}
    assert not [finding for finding in findings if finding.status != "ok" and not finding.next_step]
    assert list(tmp_path.iterdir()) == []


def test_the_exit_code_and_the_document_agree(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    missing = [finding["name"] for finding in document["findings"] if finding["status"] == "missing"]
    assert document["can_run"] == (not missing)
    assert code == (ExitCode.INFRASTRUCTURE if missing else ExitCode.PASSED)


def test_another_platform_cannot_run_scale_tests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert cli.main(["doctor"]) == ExitCode.INFRASTRUCTURE
    assert capsys.readouterr().out == snapshot


@pytest.mark.parametrize(
    ("ways", "status"),
    [
        (Ways(download="", build=""), "ok"),
        (Ways(download="dl.k8s.io: no answer", build=""), "ok"),
        (Ways(download="dl.k8s.io: no answer", build="no Go toolchain on PATH"), "missing"),
    ],
)
def test_a_missing_binary_is_no_obstacle_where_it_can_be_had(
    ways: Ways, status: str, snapshot: SnapshotAssertion
) -> None:
    finding = doctor.missing_binaries(["etcd", "kwok"], ways)
    assert finding.status == status
    assert list(doctor.lines((finding,))) == snapshot


def test_a_folder_that_cannot_be_written_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "file" / "state"))
    state = found("state")
    assert state.status == "missing"
    assert "GROVESCALE_STATE_DIR" in state.next_step


def test_few_open_files_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 512))
    assert found("open files").status == "note"


def test_one_core_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert found("cores").status == "note"


def test_a_machine_without_go_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    go = found("go")
    assert go.status == "note"
    assert "go.dev" in go.next_step


@pytest.mark.parametrize(
    ("words", "tools"),
    [
        (["go", "build", "."], ["go"]),
        (["bin/manager"], []),
        (["{python}", "-m", "a"], []),
        (["sh", "-c", "npm install && npm run build; cd x | node y"], ["npm", "node", "sh"]),
        (["sh", "-c", "echo 'open"], ["sh"]),
        ([], []),
    ],
)
def test_the_tools_of_a_command_are_those_that_are_looked_for_on_path(words: list[str], tools: list[str]) -> None:
    assert build_tools.commands(words) == tools


def test_what_a_definition_is_built_and_started_with_is_looked_for(tmp_path: Path) -> None:
    folder = tmp_path / "tests/scale"
    folder.mkdir(parents=True)
    (folder / "operator.yaml").write_text("name: a\nbuild: [cargoo, build]\ncommand: [sh, -c, a]\n", encoding="utf-8")
    (folder / "budgets.yaml").write_text("tests: {}\n", encoding="utf-8")
    (folder / "broken.yaml").write_text("a: [", encoding="utf-8")
    findings = {finding.name: finding for finding in doctor.examine(build_tools.of_project(Path()))}
    assert (findings["cargoo"].status, findings["sh"].status) == ("missing", "ok")
    assert "tests/scale/operator.yaml" in findings["cargoo"].found


def test_before_there_is_a_definition_the_project_says_what_it_is_built_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "Cargo.toml").write_text("[package]\nname = 'a'\n[dependencies]\nkube = '1'\n", encoding="utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.rs").write_text("fn main() {}\n", encoding="utf-8")
    (tmp_path / "Chart.yaml").write_text("name: a\n", encoding="utf-8")
    findings = {finding.name: finding for finding in doctor.examine(build_tools.of_project(Path()))}
    assert (findings["cargo"].status, findings["helm"].status) == ("missing", "note")
    assert "rustup" in findings["cargo"].next_step


def test_modules_that_the_operator_imports_and_this_python_lacks(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("nowhere\n", encoding="utf-8")
    source = "import nowhere_to_be_found\nfrom kubernetes import client\nif __name__ == '__main__':\n    main()\n"
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    (finding,) = [one for one in doctor.examine(build_tools.of_project(Path())) if one.name == "python modules"]
    assert finding.next_step == "pip install -r requirements.txt"
    assert "nowhere_to_be_found" in finding.found


def test_a_folder_that_is_no_project_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import nowhere_to_be_found\n", encoding="utf-8")
    assert build_tools.of_project(tmp_path) == build_tools.Needs()
