"""Whole runs of small scale tests: what they print, leave and say when something goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.recording.journal import Reader
from tests import forked

pytestmark = pytest.mark.cluster

HEAD = """
import pytest
from pytest_grovescale import conditions
"""

WHOLE = (
    HEAD
    + """
from kubernetes import client

def test_small(scale, grovescale_api_client, grovescale_namespace):
    assert grovescale_namespace == scale.namespace
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-created", conditions.count("pods", 4))
        deploy.milestone("pods-ready", conditions.count("pods", 4, ready=True))
        deploy.milestone("one-has-a-node", conditions.matching("pods", 1, "fields['spec.nodeName'] != None",
                                                    fields=["spec.nodeName"], op=">="))
        deploy.milestone("available", pcs.status(availableReplicas=2))
        pcs.apply()
    live = client.CoreV1Api(grovescale_api_client).list_namespaced_pod(scale.namespace)
    assert sorted(pod.spec.node_name != "" for pod in live.items) == [True] * 4
    scale.wait_idle()
    with scale.phase("steady-state", timeout="60s") as steady:
        pcs.trigger_reconcile()
        steady.hold("2s")
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()
    assert steady.api("operator").object_writes == 0
    assert steady.reconciles("podcliqueset") == 1
    assert deploy.reached("pods-ready").seconds > 0
    assert deploy.cpu("operator").seconds > 0
"""
)


def run(pytester: pytest.Pytester, cluster: Cluster, test: str, *arguments: str) -> pytest.RunResult:
    """Run one test file against the running cluster, in a process of its own."""
    pytester.makepyfile(test)
    return pytester.runpytest_subprocess("--grovescale", f"--grovescale-cluster={cluster.name}", *arguments)


def latest(pytester: pytest.Pytester) -> Path:
    return pytester.path / "reports" / "latest"


def result_of(pytester: pytest.Pytester) -> Result:
    return msgspec.json.decode((latest(pytester) / "result.json").read_bytes(), type=Result)


BETWEEN = (
    HEAD
    + """
@pytest.mark.parametrize("error", [RuntimeError("lost its way"), AssertionError("3 is not 4")])
def test_it(scale, error):
    with scale.phase("first", timeout="60s"):
        pass
    raise error
"""
)


class WholeRun(NamedTuple):
    """A finished run of ``WHOLE``, which several tests look at."""

    folder: Path
    output: str

    @property
    def latest(self) -> Path:
        return self.folder / "reports" / "latest"


def shown(whole: WholeRun) -> str:
    command = [sys.executable, "-m", "pytest_grovescale.cli", "show", str(whole.latest)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def whole(running_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> WholeRun:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "test_whole.py").write_text(WHOLE, encoding="utf-8")
    (folder / "pyproject.toml").write_text("[tool.pytest]\n", encoding="utf-8")
    cluster = f"--grovescale-cluster={running_cluster.name}"
    done = forked.run_pytest(["--grovescale", cluster, "--junit-xml=junit.xml"], cwd=folder)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    return WholeRun(folder, done.stdout)


def test_a_run_leaves_recording_result_and_logs(whole: WholeRun) -> None:
    assert {path.name for path in whole.latest.iterdir()} == {"recordings", "logs", "result.json", "report.html"}
    (test,) = msgspec.json.decode((whole.latest / "result.json").read_bytes(), type=Result).tests
    assert [(phase.name, phase.outcome) for phase in test.phases] == [
        ("deploy", "passed"),
        ("steady-state", "passed"),
        ("delete", "passed"),
    ]
    assert str(Path.home()) not in (whole.latest / "result.json").read_text(encoding="utf-8")
    names = {p.get("name") for p in ElementTree.parse(whole.folder / "junit.xml").iter("property")}
    assert any(name and "pods-ready" in name for name in names)


def test_show_prints_the_same_tables_byte_for_byte(whole: WholeRun) -> None:
    tables = shown(whole)
    assert tables.strip()
    assert tables in whole.output


def test_nothing_secret_reaches_the_reports(whole: WholeRun) -> None:
    for file in whole.latest.rglob("*"):
        if file.is_file():
            text = b"".join(Reader(file).lines()).decode(errors="replace")
            assert "eyJhbGciOi" not in text, f"a token in {file.name}"
            assert "PRIVATE KEY" not in text, f"a key in {file.name}"


def test_a_stalled_phase_says_which_pods_are_late_and_why(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    test = (
        HEAD
        + """
def test_late(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("on-no-such-node", conditions.count("pods", 4, where={"spec.nodeName": "nowhere"}))
        pcs.apply()
"""
    )
    outcome = run(pytester, running_cluster, test, "--grovescale-stall-limit=3s")
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*stalled*: *-node 0 of 4*"])
    (found,) = result_of(pytester).tests
    assert found.phases[0].outcome == "timeout"
    assert found.phases[0].late
    assert found.phases[0].api


def test_a_crash_of_the_operator_fails_the_phase_at_once(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    test = (
        HEAD
        + """
@pytest.mark.grovescale(values={"defect": "crash=20"})
def test_crash(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=15, pods_per_replica=2)
    with scale.phase("deploy", timeout="10m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 30, ready=True))
        pcs.apply()
"""
    )
    outcome = run(pytester, running_cluster, test)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*operator exited with code * 'deploy'*", "*lines of the operator's log*"])


def test_a_restarted_operator_finds_all_done_after_a_wait_for_a_quiet_machine(
    pytester: pytest.Pytester, running_cluster: Cluster
) -> None:
    test = (
        HEAD
        + """
def test_restart(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=5, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("available", pcs.status(availableReplicas=5))
        pcs.apply()
    with scale.phase("restart", timeout="60s") as restart:
        scale.restart_operator()
        restart.hold("2s")
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        pcs.delete()
    traffic = restart.api("operator")
    assert traffic.object_writes == 0
    assert traffic.count(verb="watch") > 0
    assert traffic.count(verb="list") == 0, "initial objects come through the watches"
    with pytest.raises(Exception, match="was not measured from the phase's start to its end"):
        restart.cpu("operator").seconds
"""
    )
    run(pytester, running_cluster, test, "--grovescale-wait-quiet=1s").assert_outcomes(passed=1)
    (found,) = result_of(pytester).tests
    for phase in found.phases:
        (waited,) = [mark for mark in phase.marks if mark.label == "wait-quiet"]
        # However busy the machine is: it was measured, and not waited for any longer.
        assert "quiet after" in waited.detail
        assert phase.contention is not None
        assert phase.contention.waited_s == waited.count / 1000 >= 1.0
    (restarted,) = [mark for mark in found.phases[1].marks if mark.label == "operator-restart"]
    assert restarted.ended_s is not None, "time to caught up"


MISTAKES = {
    'deploy.milestone("x", conditions.count("podcliqueset5", 1))': "no resource 'podcliqueset5'",
    'scale.workload("pcs.yaml.j2", replicas=1)': "pods_per_replica",
    'scale.workload("pcs.yaml.j2", **{"replicas": 1, "podz": 1})': "podz",
    'scale.workload("nope" + ".yaml")': "nope.yaml: no such file",
    'scale.workload("pcs.yaml.j2", replicas=-1, pods_per_replica=1).apply()': "spec.replicas",
    'begin = deploy.hold; begin("1s"); deploy.milestone("x", conditions.count("pods", 1))': "after the phase has begun",
    'scale.phase("deploy")': "already had a phase 'deploy'",
    'deploy.milestone("x", conditions.matching("pods", 1, "fields[", fields=["a"]))': "expression",
    'deploy.api("operator")': "still open",
}


def test_mistakes_are_reported(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    tests = "".join(
        f"""
def test_mistake_{number}(scale):
    with scale.phase("deploy", timeout="20s") as deploy:
        {line}
"""
        for number, line in enumerate(MISTAKES)
    )
    outcome = run(pytester, running_cluster, HEAD + tests, "--grovescale-start=session")
    outcome.assert_outcomes(failed=len(MISTAKES))
    # In the order of the tests; an error's own lines, not those of the code that is shown above it.
    outcome.stdout.fnmatch_lines([f"E *{message}*" for message in MISTAKES.values()])


def test_a_parameter_that_nothing_has_read_fails_the_run_at_its_end(
    pytester: pytest.Pytester, running_cluster: Cluster
) -> None:
    test = """
def test_it(scale):
    for name in ("replicas", "rate"):
        scale.parameter(name, 1)
"""
    options = ("--grovescale-operator=none", "--grovescale-param=replicas=3", "--grovescale-param=raet=3")
    outcome = run(pytester, running_cluster, HEAD + test, *options)
    outcome.assert_outcomes(passed=1)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    outcome.stdout.fnmatch_lines(["ERROR: --grovescale-param raet=3: *", "*Did you mean rate[?]*"])


def test_the_verbosity_decides_how_much_is_shown(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    test = """
def test_short(scale):
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("no-pods", conditions.count("pods", 0))
"""
    tables = "Reconciles: not measured (the test runs no operator)"
    outcome = run(pytester, running_cluster, HEAD + test, "-v", "--grovescale-operator=none")
    outcome.assert_outcomes(passed=1)
    outcome.stdout.fnmatch_lines(["*deploy: begins*", "PASSED test_short: 1 phase in *", tables])
    outcome = run(pytester, running_cluster, HEAD + test, "-q", "--grovescale-operator=none")
    outcome.stdout.fnmatch_lines(["*deploy: begins*", "PASSED *::test_short - 1 phase in *"])
    outcome.stdout.no_fnmatch_line("phase *duration*")
    outcome = run(pytester, running_cluster, HEAD + test, "-qq", "--grovescale-operator=none")
    outcome.stdout.no_fnmatch_line("*deploy: begins*")


def test_the_debugger_stops_the_clocks_of_a_phase(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    test = (
        HEAD
        + """
def test_debugged(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 1, ready=True))
        pcs.apply()
        breakpoint()
        assert deploy._phase.paused is False
"""
    )
    pytester.makepyfile(test)
    command = [sys.executable, "-m", "pytest", "--grovescale", f"--grovescale-cluster={running_cluster.name}"]
    done = subprocess.run(
        command, cwd=pytester.path, input="p ('paused', deploy._phase.paused)\nc\n", capture_output=True, text=True
    )
    assert "('paused', True)" in done.stdout, done.stdout
    assert "1 passed" in done.stdout


def test_result_json_matches_its_schema_version(whole: WholeRun) -> None:
    document = json.loads((whole.latest / "result.json").read_text(encoding="utf-8"))
    assert document["schema_version"] == 2


def test_what_fails_a_test_between_its_phases_is_in_the_result(
    pytester: pytest.Pytester, running_cluster: Cluster
) -> None:
    result = run(pytester, running_cluster, BETWEEN)
    result.assert_outcomes(failed=2)
    first, second = result_of(pytester).tests
    assert (first.verdict, first.scenario_outcome, first.error, first.failure) == (
        "error",
        "passed",
        "RuntimeError: lost its way",
        "",
    )
    assert (second.verdict, second.scenario_outcome, second.error, second.failure) == (
        "failed",
        "passed",
        "",
        "3 is not 4",
    )
    result.stdout.fnmatch_lines(["ERROR test_*: *lost its way *"])
