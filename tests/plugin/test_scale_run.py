"""Whole runs of small scale tests: what they print, leave and say when something goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster.handle import Cluster

pytestmark = pytest.mark.cluster

HEAD = """
import pytest
from pytest_grovescale import count, field, gone, matching
"""

WHOLE = (
    HEAD
    + """
def test_small(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-created", count("pods", 4))
        deploy.milestone("pods-ready", count("pods", 4, ready=True))
        deploy.milestone("one-has-a-node", matching("pods", 1, "fields['spec.nodeName'] != None",
                                                    fields=["spec.nodeName"], op=">="))
        deploy.milestone("available", pcs.status(availableReplicas=2))
        pcs.apply()
    scale.settle()
    with scale.phase("steady-state", timeout="60s") as steady:
        pcs.trigger_reconcile()
        steady.hold("2s")
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("pods-gone", count("pods", 0))
        delete.milestone("pcs-gone", gone(pcs))
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


def shown(pytester: pytest.Pytester) -> str:
    command = [sys.executable, "-m", "pytest_grovescale.cli", "show", str(latest(pytester))]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_run_leaves_recording_result_and_logs(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome = run(pytester, running_cluster, WHOLE, "--junit-xml=junit.xml")
    outcome.assert_outcomes(passed=1)
    assert {path.name for path in latest(pytester).iterdir()} == {"recordings", "logs", "result.json", "report.html"}
    (test,) = result_of(pytester).tests
    assert [(phase.name, phase.outcome) for phase in test.phases] == [
        ("deploy", "passed"),
        ("steady-state", "passed"),
        ("delete", "passed"),
    ]
    assert str(Path.home()) not in (latest(pytester) / "result.json").read_text(encoding="utf-8")
    names = {p.get("name") for p in ElementTree.parse(pytester.path / "junit.xml").iter("property")}
    assert any(name and "pods-ready" in name for name in names)


def test_show_prints_the_same_tables_byte_for_byte(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome = run(pytester, running_cluster, WHOLE)
    outcome.assert_outcomes(passed=1)
    tables = shown(pytester)
    assert tables.strip()
    assert tables in f"{outcome.stdout}\n"


def test_nothing_secret_reaches_the_reports(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    run(pytester, running_cluster, WHOLE).assert_outcomes(passed=1)
    for file in latest(pytester).rglob("*"):
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            assert "eyJhbGciOi" not in text, f"a token in {file.name}"
            assert "PRIVATE KEY" not in text, f"a key in {file.name}"


def test_a_timeout_says_which_pods_are_late_and_why(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    test = (
        HEAD
        + """
def test_late(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=2)
    with scale.phase("deploy", timeout="20s") as deploy:
        deploy.milestone("on-no-such-node", count("pods", 4, where={"spec.nodeName": "nowhere"}))
        pcs.apply()
"""
    )
    outcome = run(pytester, running_cluster, test)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*phase 'deploy' timed out after 20.0 s: on-no-such-node 0 of 4*"])
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
    pcs = scale.workload("pcs.yaml.j2", replicas=100, pods_per_replica=2)
    with scale.phase("deploy", timeout="10m") as deploy:
        deploy.milestone("pods-ready", count("pods", 200, ready=True))
        pcs.apply()
"""
    )
    outcome = run(pytester, running_cluster, test)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(
        ["*the operator exited with code * in phase 'deploy'*", "*lines of the operator's log*"]
    )


def test_a_restarted_operator_finds_all_done(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
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
        delete.milestone("pods-gone", count("pods", 0))
        pcs.delete()
    traffic = restart.api("operator")
    assert traffic.object_writes == 0
    assert traffic.count(verb="watch") > 0
    assert traffic.count(verb="list") == 0, "initial objects come through the watches"
    with pytest.raises(Exception, match="was not measured from the phase's start to its end"):
        restart.cpu("operator").seconds
"""
    )
    run(pytester, running_cluster, test).assert_outcomes(passed=1)
    (found,) = result_of(pytester).tests
    (restarted,) = [mark for mark in found.phases[1].marks if mark.label == "operator-restart"]
    assert restarted.ended_s is not None, "time to caught up"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('deploy.milestone("x", count("podcliqueset5", 1))', "*no resource 'podcliqueset5'*"),
        ('scale.workload("pcs.yaml.j2", replicas=1)', "*pods_per_replica*"),
        ('scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1, podz=1)', "*podz*"),
        ('scale.workload("nope.yaml")', "*nope.yaml: no such file*"),
        ('scale.workload("pcs.yaml.j2", replicas=-1, pods_per_replica=1).apply()', "*spec.replicas*"),
        ('deploy.hold("1s"); deploy.milestone("x", count("pods", 1))', "*declared after the phase has begun*"),
        ('scale.phase("deploy")', "*already had a phase 'deploy'*"),
        ('deploy.milestone("x", matching("pods", 1, "fields[", fields=["a"]))', "*expression*"),
        ('deploy.api("operator")', "*still open*"),
    ],
)
def test_mistakes_are_told(pytester: pytest.Pytester, running_cluster: Cluster, line: str, message: str) -> None:
    test = (
        HEAD
        + f"""
@pytest.mark.grovescale(operator="reference")
def test_mistake(scale):
    with scale.phase("deploy", timeout="20s") as deploy:
        {line}
"""
    )
    outcome = run(pytester, running_cluster, test)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines([message])


def test_wrong_definitions_are_told_before_anything_starts(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    definition = pytester.path / "mine.yaml"
    definition.write_text("name: mine\ncommand: [sleep, '1']\nreadyness: {}\n", encoding="utf-8")
    outcome = run(pytester, running_cluster, WHOLE, "--grovescale-operator=mine.yaml")
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*mine.yaml:3: *readyness*"])


def test_an_unknown_cluster_names_both_ways_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WHOLE)
    outcome = pytester.runpytest_subprocess("--grovescale", "--grovescale-cluster=nowhere")
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*nowhere*no such file*"])


def test_two_workers_take_turns_and_share(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    functional = "\n".join(
        f"def test_functional_{n}(grovescale_cluster, grovescale_operator):\n    assert grovescale_operator.alive()\n"
        for n in range(4)
    )
    measured = "\n".join(WHOLE.partition("def test_small")[2].join((f"def test_measured_{n}", "")) for n in range(2))
    outcome = run(pytester, running_cluster, f"{HEAD}\n{functional}\n{measured}", "-n", "2")
    outcome.assert_outcomes(passed=6)
    result = result_of(pytester)
    assert len(result.tests) == 2
    spans = sorted((phase.started, phase.seconds) for test in result.tests for phase in test.phases)
    assert len(spans) == 6
    recordings = [path.name for path in (latest(pytester) / "recordings").iterdir()]
    assert len(recordings) == 2


def test_quiet_is_quiet(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    outcome = run(pytester, running_cluster, WHOLE, "-q")
    outcome.assert_outcomes(passed=1)
    outcome.stdout.no_fnmatch_line("*deploy: begins*")


def test_the_debugger_stops_the_clocks_of_a_phase(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    test = (
        HEAD
        + """
def test_debugged(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", count("pods", 1, ready=True))
        pcs.apply()
        breakpoint()
        assert deploy.paused is False
"""
    )
    pytester.makepyfile(test)
    command = [sys.executable, "-m", "pytest", "--grovescale", f"--grovescale-cluster={running_cluster.name}"]
    done = subprocess.run(
        command, cwd=pytester.path, input="p ('paused', deploy.paused)\nc\n", capture_output=True, text=True
    )
    assert "('paused', True)" in done.stdout, done.stdout
    assert "1 passed" in done.stdout


def test_result_json_matches_its_schema_version(pytester: pytest.Pytester, running_cluster: Cluster) -> None:
    run(pytester, running_cluster, WHOLE).assert_outcomes(passed=1)
    document = json.loads((latest(pytester) / "result.json").read_text(encoding="utf-8"))
    assert document["schema_version"] == 1
