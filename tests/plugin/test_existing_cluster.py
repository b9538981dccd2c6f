"""Whole runs on a cluster that somebody else made: the same tests, and what can and cannot be measured there."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import Result
from pytest_grovescale.cluster import machine_lock, state
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.access import from_kubeconfig
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from tests import forked
from tests.foreign_cluster import (
    CONTEXT,
    account,
    binding,
    cluster_roles,
    ending_token,
    kubeconfig,
    names,
    plugin_user,
    refused,
    unique,
)
from tests.golden import masked
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

SMALL = """
import pytest
from pytest_grovescale import conditions

def test_small(scale):
    pcs = scale.workload("pcs.yaml.j2", replicas=2, pods_per_replica=2)
    with scale.phase("deploy", timeout="60s") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 4, ready=True))
        pcs.apply()
    {between}
    with scale.phase("steady-state", timeout="60s") as steady:
        pcs.trigger_reconcile()
        steady.hold("2s")
    with scale.phase("delete", timeout="60s") as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()
    assert deploy.reached("pods-ready").seconds > 0
    assert steady.reconciles("podcliqueset") >= 1
"""

# Lets the one who started this run end its token now.
HAND_OVER = """
def hand_over():
    import pathlib, time
    pathlib.Path("asked").touch()
    while not pathlib.Path("done").exists():
        time.sleep(0.05)
"""


@pytest.fixture
def admin(portal: Portal, running_cluster: Cluster) -> Client:
    return portal.client(running_cluster.access)


def arguments() -> list[str]:
    return [
        "--grovescale",
        f"--grovescale-cluster=existing:{CONTEXT}",
        "--grovescale-nodes=2",
        "-p",
        "no:cacheprovider",
    ]


def result_of(folder: Path) -> Result:
    return msgspec.json.decode((folder / "latest/result.json").read_bytes(), type=Result)


async def marked(client: Client) -> list[str]:
    """Return all that the tests of any run may have left on their cluster."""
    left = []
    for kind in ("Node", "Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"):
        left += await names(client, kind, "grovescale.io/managed")
    left += [name for name in await names(client, "Node", "grovescale.io/cluster") if name.startswith("run-")]
    return left


def test_the_same_test_runs_and_says_which_clock_it_had(
    pytester: pytest.Pytester,
    running_cluster: Cluster,
    portal: Portal,
    admin: Client,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(pytester.path / "kubeconfig", running_cluster.access)))
    pytester.makepyfile(SMALL.format(between=""))
    # What else the machine does decides whether its servers answer in time; here it is the clock that counts.
    options = ["--grovescale-scrape=components", "--grovescale-inconclusive=warn"]
    outcome = pytester.runpytest_subprocess(*arguments(), *options)
    outcome.assert_outcomes(passed=1)
    assert {target.target for target in result_of(pytester.path / "reports").tests[0].metrics} == {
        "operator",
        "kube-apiserver",
    }
    (reported,) = (line for line in outcome.outlines if f"harness may do at context {CONTEXT}" in line)
    # Where it is the first line of a test, its file stands before it.
    assert masked(reported.rpartition(".py ")[2], {running_cluster.access.server: "server"}) == snapshot
    (test,) = result_of(pytester.path / "reports").tests
    assert {milestone.clock for phase in test.phases for milestone in phase.milestones} == {"watch"}
    assert {phase.traffic_source for phase in test.phases} == {"metrics"}
    assert test.cluster["kwok_runs"] == "there"
    assert portal.run(marked(admin)) == []


def test_a_token_that_ends_in_the_middle_costs_nothing(
    pytester: pytest.Pytester, running_cluster: Cluster, portal: Portal, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = unique("user")
    portal.run(account(admin, name=user))
    portal.run(_may_grant(admin, user))
    file = plugin_user(pytester.path, running_cluster.access)
    monkeypatch.setenv("KUBECONFIG", str(file))
    end = portal.run(ending_token(admin, user, pytester.path / "token"))
    old = from_kubeconfig(file)
    pytester.makepyfile(SMALL.format(between="hand_over()") + HAND_OVER)
    # Whether its API server answers in time depends on what else the machine does.
    run = forked.Process("pytest", [*arguments(), "--grovescale-inconclusive=warn"], cwd=pytester.path)
    wait_until(lambda: (pytester.path / "asked").exists() or run.poll() is not None, "the first phase's end", 120)
    (pytester.path / "token").write_text(portal.run(admin.token(user, "default")), encoding="utf-8")
    portal.run(end())
    wait_until(lambda: portal.run(refused(old)), "the end of the token")
    (pytester.path / "done").touch()
    output, _ = run.communicate()
    assert run.returncode == 0, output
    assert portal.run(marked(admin)) == []


def test_a_killed_run_leaves_nothing(
    pytester: pytest.Pytester, running_cluster: Cluster, portal: Portal, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(pytester.path / "kubeconfig", running_cluster.access)))
    pytester.makepyfile(SMALL.format(between="hand_over()") + HAND_OVER)
    # Whether its API server answers in time depends on what else the machine does.
    run = forked.Process("pytest", [*arguments(), "--grovescale-inconclusive=warn"], cwd=pytester.path)
    wait_until(lambda: (pytester.path / "asked").exists() or run.poll() is not None, "the first phase's end", 120)
    assert portal.run(marked(admin))
    run.kill()
    run.communicate()
    wait_until(lambda: portal.run(marked(admin)) == [], "the end of all that it had made", 120)
    wait_until(lambda: [name for name in state.names() if name.startswith("run-")] == [], "the end of its supervisor")


# Whose turn it is, by the cluster's Lease, is in cluster/test_turns_shared.py.
@pytest.mark.long
def test_two_users_at_once_take_turns_and_leave_nothing(
    pytester: pytest.Pytester, running_cluster: Cluster, portal: Portal, admin: Client
) -> None:
    pytester.makepyfile(SMALL.format(between=""))
    file = kubeconfig(pytester.path / "kubeconfig", running_cluster.access)
    runs = []
    for user in ("first", "second"):
        own = {"KUBECONFIG": str(file), "GROVESCALE_STATE_DIR": str(pytester.path / f"{user} state")}
        # As on two machines: the cluster's own Lease is all that keeps them apart.
        own[machine_lock.FOLDER] = str(pytester.path / f"{user} turns")
        options = [*arguments(), f"--grovescale-reports={user}"]
        runs.append(forked.Process("pytest", options, cwd=pytester.path, env={**os.environ, **own}))
    for run in runs:
        output, _ = run.communicate()
        assert run.returncode == 0, output
    windows = []
    for user in ("first", "second"):
        (test,) = result_of(pytester.path / user).tests
        assert not test.disturbed
        began = datetime.datetime.fromisoformat(test.started)
        windows.append((began, began + datetime.timedelta(seconds=test.seconds)))
    (_, first_ended), (second_began, _) = sorted(windows)
    assert first_ended <= second_began, "one measures at a time"
    assert portal.run(marked(admin)) == []


async def _may_grant(admin: Client, user: str) -> None:
    """Let a user grant the bundled operator what it asks for: nobody can grant what they do not have."""
    (role,) = cluster_roles("reference-operator.yaml")
    await admin.apply(role)
    await admin.apply(binding(f"{user}-operator", role["metadata"]["name"], user))
