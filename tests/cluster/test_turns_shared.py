"""Turns by a Lease on a real API server: shared, alone, given up by one that stands still, and refused."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import textwrap

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import lease_lock
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.cluster.lease_lock import NAMESPACE, Rhythm, SharedTurn
from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

QUICK = Rhythm(lasts=1.5, renew=0.2, look=0.05)

ELSEWHERE = """
    import asyncio, sys
    from pathlib import Path

    from pytest_grovescale.cluster import lease_lock, state
    from pytest_grovescale.cluster.lease_lock import Rhythm, SharedTurn
    from pytest_grovescale.kube.client import Client

    async def main():
        lease_lock.NAME = sys.argv[2]
        rhythm = Rhythm(lasts=1.5, renew=0.2, look=0.05)
        async with Client(state.access(Path(sys.argv[1]), "harness")) as client:
            claim = lease_lock.claim(alone=True, operator=True, rhythm=rhythm)
            turn = SharedTurn(client, claim, rhythm=rhythm)
            await turn.take(print)
            print("mine", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            print(await turn.lost() or "kept", flush=True)
            await turn.give_back(print)

    asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def lease(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a Lease of this test's own: tests on other workers take turns, too."""
    name = f"turns-{secrets.token_hex(3)}"
    monkeypatch.setattr(lease_lock, "NAME", name)
    return name


class Taken:
    """A turn taken by this test, as by a machine of its own."""

    def __init__(self, portal: Portal, cluster: Cluster, *, alone: bool, operator: str = "") -> None:
        self.said: list[str] = []
        claim = lease_lock.claim(alone=alone, operator=False, rhythm=QUICK)
        claim = msgspec.structs.replace(claim, operator_of=operator)
        self.turn = SharedTurn(portal.client(cluster.access), claim, rhythm=QUICK)
        self.taken = portal.submit(self.turn.take(self.said.append))
        self._portal = portal

    def now(self) -> Taken:
        self.taken.result(timeout=30)
        return self

    def give_back(self) -> None:
        self._portal.run(self.turn.give_back(self.said.append))


def test_tests_share_and_a_measurement_waits_for_them(
    cluster: Cluster, portal: Portal, snapshot: SnapshotAssertion
) -> None:
    first = Taken(portal, cluster, alone=False, operator="here").now()
    second = Taken(portal, cluster, alone=False).now()
    elsewhere = Taken(portal, cluster, alone=False, operator="there")
    first.give_back()
    elsewhere.now()
    measurement = Taken(portal, cluster, alone=True)
    wait_until(lambda: measurement.said, "the measurement's word that it waits")
    second.give_back()
    assert not measurement.taken.done()
    elsewhere.give_back()
    measurement.now()
    waits, behind, _ = measurement.said[0].partition(" behind ")
    assert behind
    assert waits == snapshot
    assert measurement.said[-1].startswith("waited ")
    assert portal.run(measurement.turn.lost()) == ""
    measurement.give_back()
    assert measurement.said[-1].startswith("waited ")


def test_the_lease_reports_people_who_has_a_turn(cluster: Cluster, portal: Portal, lease: str) -> None:
    client = portal.client(cluster.access)
    leases = portal.run(client.resource("Lease"))
    measurement = Taken(portal, cluster, alone=True).now()
    spec = portal.run(client.get(leases, lease, NAMESPACE))["spec"]
    assert f"(pid {os.getpid()})" in spec["holderIdentity"]
    assert spec["renewTime"] >= spec["acquireTime"]
    measurement.give_back()
    assert "holderIdentity" not in portal.run(client.get(leases, lease, NAMESPACE))["spec"]


def test_one_that_stands_still_loses_its_turn_and_is_reported(cluster: Cluster, portal: Portal, lease: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(ELSEWHERE), str(cluster.directory), lease]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mine\n"
        holder.send_signal(signal.SIGSTOP)
        here = Taken(portal, cluster, alone=True).now()
        assert f"(pid {holder.pid}), measuring" in here.said[0]
        holder.send_signal(signal.SIGCONT)
        output, _ = holder.communicate("done\n")
    assert output.startswith("the turn on this cluster was lost: it was not renewed for ")
    assert f"(pid {os.getpid()})" in output
    assert portal.run(here.turn.lost()) == ""
    here.give_back()


def test_an_interrupted_wait_leaves_nothing(cluster: Cluster, portal: Portal) -> None:
    holder = Taken(portal, cluster, alone=True).now()
    waiting = Taken(portal, cluster, alone=True)
    wait_until(lambda: waiting.said, "its word that it waits")
    late = Taken(portal, cluster, alone=False)
    waiting.taken.cancel()
    waiting.give_back()
    holder.give_back()
    late.now().give_back()


def test_turns_alone_never_overlap(cluster: Cluster) -> None:
    inside: list[str] = []
    most: list[int] = []

    async def one() -> None:
        async with Client(cluster.access) as client:
            claim = lease_lock.claim(alone=True, operator=False, rhythm=QUICK)
            turn = SharedTurn(client, claim, rhythm=QUICK)
            await turn.take(lambda text: None)
            inside.append(claim.id)
            await asyncio.sleep(0)
            most.append(len(inside))
            inside.remove(claim.id)
            await turn.give_back(lambda text: None)

    async def all_at_once() -> None:
        await asyncio.gather(*(one() for _ in range(6)))

    asyncio.run(all_at_once())
    assert most == [1] * 6


def test_missing_rights_are_reported_with_the_role_that_grants_them(cluster: Cluster, portal: Portal) -> None:
    client = portal.client(cluster.access)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": "default"}}
    portal.run(client.apply(account))
    token = portal.run(client.token("nobody", "default"))
    access = msgspec.structs.replace(cluster.access, token=token, client_cert_pem="", client_key_pem="")
    turn = SharedTurn(portal.client(access), lease_lock.claim(alone=True, operator=False))
    with pytest.raises(ClusterError, match="needs the Lease grovescale/turns") as reported:
        portal.run(turn.take(lambda text: None))
    assert "grovescale-harness-turns" in reported.value.next_step
    portal.run(turn.give_back(lambda text: None))
    portal.run(client.delete(portal.run(client.resource("ServiceAccount")), "nobody", "default"))
