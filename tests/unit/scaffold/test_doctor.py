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
from pytest_grovescale.scaffold import doctor
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
