"""``grovescale init`` on operators that it knows nothing of: what it writes runs, and passes, as it is."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest
import yaml

from pytest_grovescale import cli
from pytest_grovescale.cli import main
from pytest_grovescale.errors import ExitCode
from pytest_grovescale.report import result_file
from pytest_grovescale.scaffold import files, measure
from tests.goprogram import BUILD_CACHE, MODULE_CACHE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("state_dir")]


def project(pytester: pytest.Pytester, example: str) -> Path:
    """Return a copy of an example, which is the working folder."""
    shutil.copytree(EXAMPLES / example, pytester.path, dirs_exist_ok=True)
    return pytester.path


def test_a_kopf_operator_is_scaffolded_measured_and_bounded(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = project(pytester, "kopf-operator")
    # One run proves as much, and is a third as long.
    monkeypatch.setattr(measure, "RUNS", 1)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--grovescale-hold=1s --grovescale-nodes=3")
    assert main(["init", "--measure"]) == ExitCode.PASSED, capfd.readouterr()
    (test,) = result_file.read(folder / measure.REPORTS / "latest" / result_file.NAME).tests
    assert (test.verdict, test.objects) == ("passed", 20)
    assert [finding for finding in test.findings if finding.severity == "defect"] == []
    assert [milestone.met for milestone in test.phases[0].milestones] == [True, True]
    (bounds,) = yaml.safe_load((folder / measure.BUDGETS).read_text())["tests"].values()
    assert {"api_requests": {"phase": "deploy", "per_object": True, "verb": "create", "max": 1.3}} in bounds
    assert cli.main(["check", measure.BUDGETS, f"{files.FOLDER}/operator.yaml"]) == ExitCode.PASSED


@pytest.mark.skipif(shutil.which("go") is None, reason="needs a Go toolchain on PATH, to build examples/go-operator")
def test_an_operator_in_go_is_scaffolded_built_and_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(pytester, "go-operator")
    monkeypatch.setenv("GOCACHE", BUILD_CACHE)
    monkeypatch.setenv("GOMODCACHE", MODULE_CACHE)
    # A module that is not there yet is downloaded.
    authorities = ssl.get_default_verify_paths()
    monkeypatch.setenv("SSL_CERT_FILE", authorities.cafile or authorities.openssl_cafile)
    monkeypatch.setenv("SSL_CERT_DIR", authorities.capath or authorities.openssl_capath)
    # As the control plane is built: it shares most packages.
    monkeypatch.setenv("CGO_ENABLED", "0")
    monkeypatch.setenv("GOFLAGS", "-trimpath")
    assert main(["init"]) == ExitCode.PASSED
    done = pytester.runpytest_subprocess("--grovescale", files.FOLDER, "--grovescale-hold=1s")
    done.assert_outcomes(passed=1)
    (test,) = result_file.read(folder / "reports/latest" / result_file.NAME).tests
    assert test.verdict == "passed"
    assert [finding for finding in test.findings if finding.severity != "note"] == []
    deploy, steady, _touch, delete = test.phases
    assert {milestone.name for milestone in deploy.milestones} == {"websites-created", "available"}
    assert {milestone.name for milestone in delete.milestones} == {"websites-gone", "pods-gone"}
    # Metrics and audit log are of this operator: one reconcile of each Website, which finds nothing to do.
    assert steady.triggers == 20
    assert sum(row.count for row in steady.reconciles) == 20
    assert [row for row in steady.api if row.identity == "operator" and row.category == "object"] == []
