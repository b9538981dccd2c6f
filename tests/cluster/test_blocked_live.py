"""Workers that wait, on a real control plane: found while they do, with the line; and goroutines of a real operator."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from pytest_grovescale.analysis.analyse import analyse_run
from pytest_grovescale.analysis.blocked_workers import Stack, read_dump, waiting_workers
from pytest_grovescale.analysis.metrics.history import histories_in
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.endpoints import Address
from pytest_grovescale.operator import start
from pytest_grovescale.operator.definition import load
from pytest_grovescale.recording.profiling import pprof
from pytest_grovescale.recording.worker_history import spells
from pytest_grovescale.reference_operator.podcliqueset import waiting
from tests import forked
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

SCALE_TEST = Path(__file__).parents[1] / "scale" / "test_blocked_workers.py"
WORKERS = 5


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, TestResult]]:
    """Both operators, each with fifteen resources that take three seconds: the run's folder, and its tests by name."""
    folder = tmp_path_factory.mktemp("blocked")
    options = [f"--grovescale-reports={folder / 'reports'}", "--grovescale-param=resources=15"]
    done = forked.run_pytest(
        [
            "--grovescale",
            "-q",
            "-p",
            "no:cacheprovider",
            *options,
            "--grovescale-param=ready_after=3s",
            str(SCALE_TEST),
        ],
        cwd=SCALE_TEST.parents[2],
        env={**os.environ, "GROVESCALE_STATE_DIR": str(folder / "state")},
    )
    # The two tests themselves say whether workers were found to be blocked.
    assert done.returncode == 0, done.stdout
    latest = folder / "reports" / "latest"
    return latest, {test.test.rpartition("::")[2]: test for test in analyse_run(latest).tests}


def test_stacks_are_dumped_while_workers_wait(runs: tuple[Path, dict[str, TestResult]]) -> None:
    folder, tests = runs
    history = histories_in(folder)(tests["test_waiting_inside"]).workers
    (spell, *_) = spells(history.of_phase("podcliqueset", "handle"), history.cpu, 2.0)
    dump = history.dumps[0]
    assert dump.phase == "handle"
    assert spell.start < dump.at
    groups = waiting_workers(read_dump(dump.lines))
    here = [group for group in groups if group.line.function == "until_available"]
    assert sum(group.count for group in here) == WORKERS
    assert Path(here[0].line.file) == Path(waiting.__file__)
    assert here[0].line.source.startswith("await asyncio.sleep(")


def test_an_operator_that_looks_and_returns_is_never_stopped(runs: tuple[Path, dict[str, TestResult]]) -> None:
    folder, tests = runs
    assert histories_in(folder)(tests["test_looking_and_returning"]).workers.dumps == []
    (row,) = (row for row in tests["test_looking_and_returning"].phases[0].workers if row.controller == "podcliqueset")
    assert (row.workers, row.blocked) == (WORKERS, ())


def test_idle_workers_of_kube_controller_manager_wait_for_keys(cluster: Cluster, tmp_path: Path) -> None:
    operator = start.start(load("kcm-deployment"), cluster, directory=tmp_path / "logs", progress=lambda text: None)
    try:
        stacks: list[Stack] = []

        def workers_started() -> bool:
            assert isinstance(operator.pprof, Address)
            stacks[:] = read_dump(asyncio.run(pprof.dump(operator.pprof)).splitlines())
            return sum(_is_idle(stack) for stack in stacks) >= 2 * WORKERS

        # They start when its caches have synced, after it is ready.
        wait_until(workers_started, "the workers of both controllers wait for keys")
    finally:
        operator.stop()
        operator.uninstall()
    assert waiting_workers(stacks) == ()


def _is_idle(stack: Stack) -> bool:
    functions = [frame.function for frame in stack.frames]
    return any(name.endswith("processNextWorkItem") for name in functions) and any(
        name.endswith(").Get") for name in functions
    )
