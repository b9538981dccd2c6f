"""What happens to an operator's pods in the middle of a phase: the phase goes on, and its account tells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.analysis.result import Result, TestResult

pytestmark = pytest.mark.kind

ROOT = Path(__file__).resolve().parents[2]

TEST = """\
import signal

import pytest

from pytest_grovescale import Scale, conditions
from pytest_grovescale.cluster import processes

PODS = 40


def kill(scale: Scale) -> None:
    info = scale.operator.info()
    assert processes.kill(info.pid, info.started_ticks, signal.SIGKILL)


async def delete_leader(scale: Scale) -> None:
    pods = await scale.client.resource("Pod", "v1")
    await scale.client.delete(pods, scale.operator.leader, scale.operator.deployment.namespace)


@pytest.mark.grovescale(nodes=5)
def test_incident(scale: Scale) -> None:
    pcs = scale.workload("pcs.yaml.j2", replicas=PODS // 2, pods_per_replica=2)
    with scale.phase("deploy", timeout="3m") as deploy:
        deploy.milestone("some", conditions.count("pods", PODS // 4))
        pcs.apply()
    with scale.phase("disturbed", timeout="3m") as disturbed:
        disturbed.milestone("pods-ready", conditions.count("pods", PODS, ready=True))
        disturbed.milestone("pcs-available", pcs.status(availableReplicas=PODS // 2))
        disturbed.hold("10s")
        if scale.parameter("incident", "kill") == "kill":
            kill(scale)
        else:
            scale.run(delete_leader(scale))
    with scale.phase("restarted", timeout="3m") as restarted:
        restarted.hold("1s")
        scale.restart_operator()
    with scale.phase("delete", timeout="3m") as delete:
        delete.milestone("gone", conditions.gone(pcs))
        pcs.delete()
"""


def run(folder: Path, incident: str, **values: str) -> TestResult:
    (folder / "test_incident.py").write_text(TEST)
    reports = folder / "reports"
    values["archive"] = os.environ["GROVESCALE_TEST_OPERATOR_ARCHIVE"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--grovescale", "test_incident.py"]
    command += ["--grovescale-cluster=kind", "--grovescale-operator=reference-pod", f"--grovescale-reports={reports}"]
    command += [f"--grovescale-set={name}={value}" for name, value in values.items()]
    command += [f"--grovescale-param=incident={incident}"]
    environment = {**os.environ, "GROVESCALE_STATE_DIR": str(folder / "state"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    result = msgspec.json.decode((reports / "latest" / "result.json").read_bytes(), type=Result)
    (test,) = result.tests
    return test


def phase(test: TestResult, name: str) -> PhaseResult:
    return next(phase for phase in test.phases if phase.name == name)


def incidents(test: TestResult, name: str) -> set[str]:
    return {incident.kind for incident in phase(test, name).incidents}


def test_container_that_ends_in_a_phase(tmp_path: Path) -> None:
    test = run(tmp_path, "kill")
    assert {phase.outcome for phase in test.phases} == {"passed"}
    assert incidents(test, "disturbed") == {"container-restart"}
    assert incidents(test, "restarted") == {"pod-gone", "pod-started"}
    (cpu,) = [row for row in phase(test, "disturbed").cpu if row.process == "operator"]
    assert (cpu.restarts, cpu.source) == (1, "clock")


@pytest.mark.long
def test_change_of_leader_in_a_phase(tmp_path: Path) -> None:
    test = run(tmp_path, "delete", replicas="2", leader_election="on")
    assert {phase.outcome for phase in test.phases} == {"passed"}
    assert {"leader-change", "pod-gone", "pod-started"} <= incidents(test, "disturbed")
    rows = {row.process: row for row in phase(test, "deploy").cpu}
    (standby,) = [name for name in rows if name.startswith("replica/")]
    assert rows[standby].seconds < rows["operator"].seconds
    # Who takes over goes on under the operator's name; what it used before, standing by, does not count.
    taken_over = {row.process: row for row in phase(test, "disturbed").cpu}["operator"]
    assert taken_over.restarts == 1
