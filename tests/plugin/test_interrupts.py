"""Ctrl-C and SIGKILL in each phase: nothing is left running, nothing that was measured is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.recording.journal import read
from pytest_grovescale.recording.records import Closed
from tests import forked
from tests.processes import carrying, wait_none, written

# Each phase waits for what never comes, after telling through a pipe that it is open.
TEST = """
from pathlib import Path

import pytest

from pytest_grovescale import conditions


def tell(phase):
    Path("here").write_text(phase)


@pytest.mark.grovescale(nodes=2)
def test_it(scale):
    stop_in = scale.parameter("stop_in", "")
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=2)
    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("ready", conditions.count("pods", 999 if stop_in == "deploy" else 4, ready=True))
        pcs.apply()
        if stop_in == "deploy":
            tell("deploy")
    with scale.phase("steady-state", timeout="5m") as steady:
        pcs.trigger_reconcile()
        if stop_in == "steady-state":
            tell("steady-state")
            steady.hold("4m")
    with scale.phase("delete", timeout="5m") as delete:
        delete.milestone("gone", conditions.count("pods", 999 if stop_in == "delete" else 0))
        pcs.delete()
        if stop_in == "delete":
            tell("delete")
"""

PHASES = ("deploy", "steady-state", "delete")


@pytest.fixture
def folder(tmp_path: Path, running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with one scale test, whose processes, known by its path, are looked for afterwards."""
    monkeypatch.setenv("THE_PROJECT", str(tmp_path))
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    os.mkfifo(tmp_path / "here")
    yield tmp_path
    wait_none(str(tmp_path))


@pytest.fixture
def own_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters of the project's own: they must end with its runs."""
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(folder / "state"))


@pytest.fixture
def where(request: pytest.FixtureRequest, running_cluster: Cluster, phase: str) -> str:
    """Where a run goes, as an option: the first phase's to a cluster of its own, the others' to one that stays."""
    if phase == PHASES[0]:
        request.getfixturevalue("own_state")
        return "--grovescale-cluster=default"
    return f"--grovescale-cluster={running_cluster.name}"


def _pytest(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "--grovescale", "-p", "no:cacheprovider", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _stopped_in(folder: Path, phase: str, number: signal.Signals, *arguments: str) -> tuple[int | None, str]:
    stop = f"--grovescale-param=stop_in={phase}"
    process = forked.Process("pytest", ["--grovescale", "-p", "no:cacheprovider", stop, *arguments], cwd=folder)
    assert written(folder / "here", process) == phase
    process.send_signal(number)
    output, _ = process.communicate(timeout=180)
    return process.returncode, output


def _recorded(folder: Path) -> TestResult:
    result = msgspec.json.decode((folder / "reports/latest/result.json").read_bytes(), type=Result)
    (test,) = result.tests
    return test


def _last_record(folder: Path) -> Closed:
    (journal,) = (folder / "reports/latest/recordings").glob("*.jsonl.zst")
    last = list(read(journal))[-1]
    assert isinstance(last, Closed)
    return last


# In CI, one with a cluster of its own is interrupted again and again, and another is killed (below).
@pytest.mark.cluster
@pytest.mark.parametrize("phase", [PHASES[1], *(pytest.param(phase, marks=pytest.mark.long) for phase in PHASES[::2])])
def test_ctrl_c(folder: Path, phase: str, where: str) -> None:
    code, output = _stopped_in(folder, phase, signal.SIGINT, where)
    assert code == pytest.ExitCode.INTERRUPTED, output
    wait_none(str(folder))
    assert "Traceback" not in output
    _last_record(folder)
    test = _recorded(folder)
    assert [p.name for p in test.phases] == list(PHASES[: PHASES.index(phase) + 1])
    assert test.phases[-1].outcome == "interrupted"
    assert test.phases[-1].api, "what was measured until then is there"


def _killed_in(folder: Path, phase: str, *arguments: str) -> None:
    code, _ = _stopped_in(folder, phase, signal.SIGKILL, *arguments)
    assert code == -signal.SIGKILL
    wait_none(str(folder))
    assert _last_record(folder).reason == "controller-gone"
    test = _recorded(folder)
    assert test.phases[-1].name == phase
    assert test.phases[-1].outcome == "interrupted"


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.parametrize("phase", PHASES[1:])
def test_sigkill(folder: Path, phase: str, where: str) -> None:
    _killed_in(folder, phase, where)


@pytest.mark.cluster
def test_sigkill_of_a_run_with_a_cluster_of_its_own_and_the_next_run_works(folder: Path, own_state: None) -> None:
    _killed_in(folder, "deploy")
    done = forked.run_pytest(["--grovescale", "-p", "no:cacheprovider"], cwd=folder)
    assert done.returncode == 0, done.stdout
    assert [phase.outcome for phase in _recorded(folder).phases] == ["passed"] * 3
    assert not carrying(str(folder / "state")), "the cluster of a run ends with it"


@pytest.mark.cluster
def test_ctrl_c_again_and_again_shows_no_traceback_and_costs_no_result(folder: Path, own_state: None) -> None:
    """One that strikes while pytest notes the first one, or ends the test, or writes the result."""
    process = _pytest(folder, "--grovescale-param=stop_in=deploy")
    assert written(folder / "here", process) == "deploy"
    process.send_signal(signal.SIGINT)
    output = ""
    assert process.stdout is not None
    for line in process.stdout:
        output += line
        if line.startswith(("deploy: interrupted", "interrupted again: ending", "SIGINT: the run is ending")):
            process.send_signal(signal.SIGINT)
    assert process.wait(timeout=180) == pytest.ExitCode.INTERRUPTED, output
    process.stdout.close()
    wait_none(str(folder))
    assert "Traceback" not in output
    _last_record(folder)
    (phase,) = _recorded(folder).phases
    assert phase.outcome == "interrupted"
    assert phase.api, "what was measured until then is there"


@pytest.mark.cluster
def test_a_reader_that_ends_early_costs_no_result(folder: Path, running_cluster: Cluster) -> None:
    """As `| head`: whatever pytest shows after that fails."""
    process = _pytest(folder, f"--grovescale-cluster={running_cluster.name}")
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("deploy: begins"):
        assert line, "it ended before its first phase"
    process.stdout.close()
    assert process.wait(timeout=180) != 0
    wait_none(str(folder))
    assert [phase.outcome for phase in _recorded(folder).phases] == ["passed"] * 3
    assert (folder / "reports/latest/report.html").is_file()
