"""Reruns by pytest-rerunfailures: each run has a recording and a namespace of its own, and the last one counts."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster

pytestmark = pytest.mark.cluster

TEST = """
import os
import signal
from pathlib import Path

import pytest

from pytest_grovescale import conditions

RUNS = Path(__file__).with_name("runs")


@pytest.mark.grovescale(operator="none", profile="off")
def test_flaky(scale):
    with RUNS.open("a") as file:
        file.write(scale.namespace + "\\n")
    runs = len(RUNS.read_text().split())
    with scale.phase("look", timeout="30s") as look:
        look.milestone("no-pods", conditions.count("pods", 0))
    if runs == 1 and os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    assert runs > 1, "the first run fails"
"""


def rerun(pytester: pytest.Pytester, cluster: Cluster, *arguments: str) -> tuple[pytest.RunResult, Result]:
    pytest.importorskip("pytest_rerunfailures")
    pytester.makepyfile(test_it=TEST)
    outcome = pytester.runpytest_subprocess(
        "--grovescale", f"--grovescale-cluster={cluster.name}", "--reruns=1", "--junit-xml=junit.xml", *arguments
    )
    content = (pytester.path / "reports/latest/result.json").read_bytes()
    return outcome, msgspec.json.decode(content, type=Result)


def runs_of(result: Result) -> list[tuple[str, int, int]]:
    return [(test.recording, test.attempt, test.attempts) for test in result.tests]


BOTH = [("recordings/test_it.py-test_flaky.jsonl.zst", 1, 2), ("recordings/test_it.py-test_flaky-2.jsonl.zst", 2, 2)]


def test_both_runs_are_kept_and_the_last_one_counts(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome, result = rerun(pytester, running_cluster)
    assert outcome.parseoutcomes() == {"passed": 1, "rerun": 1}
    assert runs_of(result) == BOTH
    assert result.verdict == "passed"
    namespaces = (pytester.path / "runs").read_text(encoding="utf-8").split()
    assert len(set(namespaces)) == 2
    outcome.stdout.fnmatch_lines(["*Run 1 of 2: a rerun *", "*Rerun 1: this one counts*"])
    cases = [
        [one.get("name") for one in case.iter("property")]
        for case in ElementTree.parse(pytester.path / "junit.xml").iter("testcase")
    ]
    assert [names.count("grovescale.look.outcome") for names in cases] == [1, 1], "each has the figures of its own run"


def test_a_run_whose_worker_was_killed_is_run_again_on_another(
    pytester: pytest.Pytester, running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIES", "yes")
    outcome, result = rerun(pytester, running_cluster, "-n1")
    assert outcome.parseoutcomes() == {"passed": 1, "rerun": 1}
    assert runs_of(result) == BOTH
    assert [test.closed for test in result.tests] == ["controller-gone", "stopped"]
    assert result.verdict == "passed"
