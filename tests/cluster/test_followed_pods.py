"""Followed pods on a real control plane: restarts, ends and changes of leader become records while a phase is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.kube.resources import Resource
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.followed_objects import LEASES, PODS
from pytest_grovescale.recording.protocol import IncidentSeen, PodsToFollow
from pytest_grovescale.recording.recorder import Recorder
from pytest_grovescale.recording.records import IncidentKind, SourceFailed
from pytest_grovescale.workload import namespace
from tests.cluster.recorder.harness import config, until
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

LABELS = {"app": "op"}


def pod(name: str, where: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": where, "labels": LABELS},
        "spec": {
            "containers": [{"name": "manager", "image": "registry.k8s.io/pause:3.10"}],
            "nodeSelector": {"type": "kwok"},
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
        },
    }


def lease(where: str, holder: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lock", "namespace": where},
        "spec": {"holderIdentity": holder},
    }


class Harness:
    """A namespace with two pods and a Lease."""

    def __init__(self, portal: Portal, client: Client, where: str) -> None:
        self.portal, self.client, self.where = portal, client, where

    def runs(self, name: str) -> bool:
        found = self.portal.run(self.client.get(PODS, name, self.where))
        status = found.get("status", {})
        return status.get("phase") == "Running" and bool(status.get("podIP"))

    def restarted(self, name: str, times: int) -> None:
        """Say of a container what a kubelet says when it has started it again."""
        ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
        container = {
            "name": "manager", "image": "i", "imageID": "i", "ready": True, "restartCount": times, "lastState": ended,
        }  # fmt: skip
        self._patch(PODS, name, {"status": {"containerStatuses": [container]}}, subresource="status")

    def held_by(self, holder: str) -> None:
        self._patch(LEASES, "lock", {"spec": {"holderIdentity": holder}})

    def _patch(self, resource: Resource, name: str, body: dict[str, Any], subresource: str = "") -> None:
        self.portal.run(self.client.patch(resource, name, self.where, body=body, subresource=subresource))


def test_what_happens_to_pods_stands_in_the_open_phase(cluster: Cluster, tmp_path: Path) -> None:
    with Portal() as portal:
        client = portal.client(cluster.access_as("harness"))
        where = portal.run(namespace.create(client, test="followed", run_id="followed"))
        harness = Harness(portal, client, where)
        running = Recorder.start(config(tmp_path, cluster.access_as("recorder")), log=tmp_path / "recorder.log")
        try:
            for obj in (pod("op-a", where), pod("op-b", where), lease(where, "op-a_1")):
                portal.run(client.create(obj))
            for name in ("op-a", "op-b"):
                wait_until(lambda name=name: harness.runs(name), f"{name} runs")  # type: ignore[misc]
            pods = PodsToFollow(name="operator", namespace=where, label_selector="app=op", lease="lock")
            running.follow_pods(pods)
            running.begin_phase("deploy", [], timeout=60)
            harness.restarted("op-a", 1)
            happened(running, "container-restart")
            harness.held_by("op-b_2")
            happened(running, "leader-change")
            portal.run(client.delete(PODS, "op-a", where))
            happened(running, "pod-gone")
            running.end_phase("deploy", "passed")
        finally:
            running.stop()
            assert portal.run(namespace.remove(client, where, at_once=True)) == []
    found = list(journal.read(tmp_path / "recording.jsonl"))
    assert not [record for record in found if isinstance(record, SourceFailed) and record.source.startswith("pods:")]
    reported = [(one.kind, one.subject, one.detail) for one in analyse(found).phases[0].incidents]
    assert reported == [
        ("container-restart", "operator/op-a/manager", "exit code 137 (OOMKilled), restart 1"),
        ("leader-change", "operator", "op-a → op-b"),
        ("pod-gone", "operator/op-a", ""),
    ]


def happened(running: Recorder, kind: IncidentKind) -> None:
    while until(running, IncidentSeen).kind != kind:
        pass


def test_pods_that_may_not_be_seen_are_reported_as_such(cluster: Cluster, tmp_path: Path) -> None:
    with Portal() as portal:
        client = portal.client(cluster.access_as("harness"))
        where = portal.run(namespace.create(client, test="unseen", run_id="followed"))
        access = portal.run(stranger(client, where))
        running = Recorder.start(config(tmp_path, access), log=tmp_path / "recorder.log")
        try:
            running.follow_pods(PodsToFollow(name="operator", namespace=where, label_selector="app=op"))
            wait_until(lambda: _failed(running, tmp_path), "the refusal is journaled")
        finally:
            running.stop()
            assert portal.run(namespace.remove(client, where, at_once=True)) == []


async def stranger(client: Client, where: str) -> Access:
    """Return the access of an identity without any rights."""
    metadata = {"name": "stranger", "namespace": where}
    await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    token = await client.token("stranger", where, seconds=3600)
    return Access(server=client.access.server, ca_pem=client.access.ca_pem, token=token)


def _failed(running: Recorder, folder: Path) -> list[str]:
    running.flush()
    found = journal.read(folder / "recording.jsonl")
    return [
        record.message
        for record in found
        if isinstance(record, SourceFailed) and record.source == "pods:operator" and "forbidden" in record.message
    ]
