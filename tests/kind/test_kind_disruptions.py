"""The control plane of a kind cluster breaks in a phase: nothing of that phase is decided, and the reason is given."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster import state
from tests.kind import kind_clusters

pytestmark = pytest.mark.kind

TEST = f"""
import contextlib
import json
import os
import signal
import subprocess

import pytest

from pytest_grovescale import checks, conditions
from pytest_grovescale.cluster import state


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def paused(node):
    subprocess.run([node.engine, "pause", node.name], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([node.engine, "unpause", node.name], check=True, capture_output=True)


@pytest.mark.grovescale(operator="reference", cluster="kind", nodes=3)
@pytest.mark.filterwarnings("ignore::pytest_grovescale.errors.InconclusiveWarning")
def test_it(scale):
    def pid(name):
        # 0 while there is none.
        seen = json.loads((scale.cluster.directory / "{state.CONTAINER_PROCESSES}").read_bytes())
        own = scale.cluster.processes()
        return own[name].pid if name in own else seen.get(name, {{"pid": 0}})["pid"]

    def undecided(phase, subject):
        for check in (checks.Cpu(phase, max="10m"), checks.Cpu(phase, max=0), checks.NoopWrites(phase=phase)):
            found = scale.check(check)
            assert found.verdict == "inconclusive", found.text
            assert subject in found.evidence[0], found.evidence

    pcs = scale.workload("pcs.yaml.j2", replicas=1, pods_per_replica=1)
    with scale.phase("deploy", timeout="3m") as deploy:
        deploy.milestone("ready", conditions.count("pods", 1, ready=True))
        pcs.apply()
    for subject in ("kube-apiserver", "etcd", "recorder"):
        with scale.phase(f"stopped {{subject}}", timeout="1m") as phase:
            phase.hold("3s")
            pcs.trigger_reconcile()
            with stopped(scale._test.recorder.pid if subject == "recorder" else pid(subject)):
                phase.wait("2s")
        undecided(f"stopped {{subject}}", subject)
    with scale.phase("paused node", timeout="1m") as phase:
        phase.hold("4s")
        pcs.trigger_reconcile()
        with paused(scale.cluster.container):
            phase.wait("3s")
    undecided("paused node", "kube-apiserver")
    with scale.phase("lost log", timeout="1m") as phase:
        phase.hold("1s")
        pcs.trigger_reconcile()
        os.truncate(scale.cluster.audit_log, 0)
    # Without the log there is no other source of what the harness asked for.
    found = scale.check(checks.ApiRequests("lost log", identity="harness", max=1000))
    assert (found.verdict, "audit" in found.text) == ("inconclusive", True), found.text
    with scale.phase("killed kwok", timeout="3m") as phase:
        phase.hold("1s")
        pcs.trigger_reconcile()
        before = pid("kwok")
        os.kill(before, signal.SIGKILL)
        while pid("kwok") in (0, before):
            phase.wait(0.2)
    undecided("killed kwok", "kwok")


@pytest.mark.grovescale(operator="reference", cluster="kind", nodes=3)
def test_supervisor(scale):
    with scale.phase("lost supervisor", timeout="1m") as phase:
        phase.hold("20s")
        os.kill(state.owner(scale.cluster.directory).pid, signal.SIGKILL)
"""


@pytest.mark.long
def test_what_breaks_in_a_phase_decides_nothing_and_is_named(state_dir: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    done = pytester.runpytest_subprocess("--grovescale", "--grovescale-inconclusive=warn", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, errors=1)
    run = pytester.path / "reports" / "latest"
    result = msgspec.json.decode((run / "result.json").read_bytes(), type=Result)
    phases = {phase.name: {(one.kind, one.subject) for one in phase.disruptions} for phase in result.tests[0].phases}
    assert phases.pop("deploy") == set()
    assert phases["stopped kube-apiserver"] == {("stall", "kube-apiserver")}
    assert phases["stopped etcd"] == {("stall", "etcd")}
    assert phases["stopped recorder"] == {("stall", "recorder")}
    assert ("stall", "kube-apiserver") in phases["paused node"]
    assert {kind for kind, _ in phases["lost log"]} == {"audit-gap"}
    assert ("component-restart", "kwok") in phases["killed kwok"]
    output = " ".join(done.stdout.str().split())
    assert "kube-apiserver was stopped for" in output
    assert "supervisor was killed" in output
    assert kind_clusters.containers(f"run-{result.run}") == []
