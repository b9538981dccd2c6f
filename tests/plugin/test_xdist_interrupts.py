"""Ctrl-C, -x and SIGKILL with xdist: every worker cleans up, nothing is left running, nothing measured is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster import state
from pytest_grovescale.cluster.handle import Cluster
from tests.processes import wait_none

pytestmark = pytest.mark.cluster

# Each tells through a pipe when it is where it waits for what never comes.
FUNCTIONAL = """
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.grovescale(nodes=1, operator="none")


@pytest.mark.parametrize("pipe", ["one", "two"])
def test_functional(grovescale_cluster, pipe):
    (HERE / pipe).write_text(grovescale_cluster.name)
    (HERE / "never").read_text()
"""

MEASURED = """
import asyncio
from pathlib import Path

import pytest

from pytest_grovescale import conditions

HERE = Path(__file__).parent
pytestmark = pytest.mark.grovescale(operator="none")


def test_measured(scale):
    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("never", conditions.count("pods", 1))
        scale.run(asyncio.sleep(0))
        (HERE / "one").write_text(scale.cluster.name)


def test_waits_for_its_turn(grovescale_cluster):
    raise AssertionError("it never has one")
"""

ONE_FAILS = (
    MEASURED.partition("def test_measured")[0]
    + """
def test_measured(scale):
    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("no-pods", conditions.count("pods", 0))
        scale.run(asyncio.sleep(0))
        (HERE / "one").write_text("is open")
        (HERE / "never").read_text()


def test_behind_it(): pass


def test_fails():
    (HERE / "two").read_text()
    raise AssertionError("meant to")


def test_behind_that(): pass
"""
)


# The controller lets the measurement go on when it has heard of the failure.
GOES_ON = """
from pathlib import Path


def pytest_runtest_logreport(report):
    if report.failed and hasattr(report, "node"):
        Path(__file__).with_name("never").write_text("go on")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with two tests, and clusters of its own for those that ask for no other."""
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    for name in ("one", "two", "never"):
        os.mkfifo(tmp_path / name)
    yield tmp_path
    wait_none(str(tmp_path))


def start(folder: Path, test: str, *arguments: str) -> subprocess.Popen[str]:
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--grovescale", "-n2", "-p", "no:cacheprovider", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A group of its own, as a terminal's: Ctrl-C reaches all of it but this test.
        start_new_session=True,
    )


def heard(folder: Path, pipe: str) -> str:
    return (folder / pipe).read_text(encoding="utf-8")


def ended(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=180)
    return output


def recorded(folder: Path) -> Result:
    return msgspec.json.decode((folder / "reports/latest/result.json").read_bytes(), type=Result)


def demand_clean(folder: Path, *clusters: str) -> None:
    wait_none(str(folder))
    assert state.names() == [*clusters]
    assert not list((Path(os.environ["GROVESCALE_STATE_DIR"]) / "runs").glob("*")), "the run is open no more"


def test_ctrl_c_ends_the_clusters_of_all_workers(folder: Path) -> None:
    process = start(folder, FUNCTIONAL, "--grovescale-cluster-per-worker")
    names = sorted(heard(folder, pipe) for pipe in ("one", "two"))
    assert [name.rpartition("-")[2] for name in names] == ["gw0", "gw1"]
    os.killpg(process.pid, signal.SIGINT)
    output = ended(process)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert state.names() == [], "gone when pytest has ended"
    demand_clean(folder)


def test_ctrl_c_in_a_phase_leaves_what_was_measured(folder: Path, shared: str, running_cluster: Cluster) -> None:
    process = start(folder, MEASURED, shared)
    heard(folder, "one")
    os.killpg(process.pid, signal.SIGINT)
    output = ended(process)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    demand_clean(folder, running_cluster.name)
    (test,) = recorded(folder).tests
    assert test.phases[0].outcome == "interrupted"


def test_the_end_of_the_controller_ends_all(folder: Path, shared: str, running_cluster: Cluster) -> None:
    process = start(folder, MEASURED, shared)
    heard(folder, "one")
    process.kill()
    ended(process)
    demand_clean(folder, running_cluster.name)
    (test,) = recorded(folder).tests
    assert test.phases[0].outcome == "interrupted"


def test_after_the_first_failure_the_others_end_what_they_are_in(
    folder: Path, shared: str, running_cluster: Cluster
) -> None:
    (folder / "conftest.py").write_text(GOES_ON, encoding="utf-8")
    process = start(folder, ONE_FAILS, shared, "-x")
    heard(folder, "one")
    (folder / "two").write_text("fail", encoding="utf-8")
    output = ended(process)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "stopping after 1 failures" in output
    demand_clean(folder, running_cluster.name)
    (test,) = recorded(folder).tests
    assert test.phases[0].outcome == "passed"
