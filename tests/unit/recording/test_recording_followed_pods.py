"""Followed pods: what happens to them is journaled once, and the leader is whoever the Lease names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.informer import Change, Followed, ObjectMeta
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.followed_objects import FollowedPods, Lease, _LeaseSpec
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.protocol import IncidentSeen, PodsToFollow, Update
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import SCHEMA_VERSION, Incident, Opened
from pytest_grovescale.recording.scrape_targets import OfFollowed
from pytest_grovescale.recording.scraping.locators import Absent, AtLeader


class Followings:
    """Pods that are followed, without an API server: changes are handed in."""

    def __init__(self, folder: Path, **wanted: Any) -> None:
        self.reported: list[Update] = []
        self._path = folder / "recording.jsonl"
        self._ledger = Ledger(journal.Writer(self._path), RecorderClock(), self.reported.append)
        opened = Opened(at=0, schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine())
        self._ledger.add(opened)
        pods = PodsToFollow(name="operator", namespace="ns", label_selector="app=op", **wanted)
        client = Client(Access(server="https://127.0.0.1:1"))
        self.followed = FollowedPods(pods, client=client, ledger=self._ledger)

    def pod(self, name: str, *, kind: str = "present", uid: str = "", **status: Any) -> None:
        found = Followed(
            metadata=ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}"),
            status={"phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z", **status},
        )
        self.followed.take(Change(kind=kind, object=found, present={}))  # type: ignore[arg-type]

    def live(self) -> None:
        self.followed.take(Change(kind="live", object=None, present={}))

    def lease(self, holder: str | None) -> None:
        found = Lease(metadata=ObjectMeta(name="lock"), spec=_LeaseSpec(holder_identity=holder))
        self.followed.take_lease(Change(kind="present", object=found, present={}))

    def leader(self) -> str:
        pod = self.followed.leader()
        return pod.metadata.name if pod is not None else ""

    def incidents(self) -> list[tuple[str, str, str]]:
        self._ledger.flush()
        found = [record for record in journal.read(self._path) if isinstance(record, Incident)]
        reported = [one for one in self.reported if isinstance(one, IncidentSeen)]
        assert [(one.kind, one.subject, one.detail) for one in reported] == [
            (one.kind, one.subject, one.detail) for one in found
        ]
        return [(one.kind, one.subject, one.detail) for one in found]


def restarts(times: int, **terminated: Any) -> dict[str, Any]:
    return {
        "containerStatuses": [
            {"name": "manager", "restartCount": times, "lastState": {"terminated": terminated} if terminated else {}}
        ]
    }


def test_a_container_that_is_started_again_is_reported_once_with_its_end(tmp_path: Path) -> None:
    pods = Followings(tmp_path)
    pods.pod("a", **restarts(2))
    pods.live()
    pods.pod("a", **restarts(2))
    pods.pod("a", **restarts(3, exitCode=137, reason="OOMKilled"))
    pods.pod("a", **restarts(3, exitCode=137, reason="OOMKilled"))
    assert pods.incidents() == [
        ("container-restart", "operator/a/manager", "exit code 137 (OOMKilled), restart 3"),
    ]


def test_what_was_there_at_the_first_look_has_not_come(tmp_path: Path) -> None:
    pods = Followings(tmp_path)
    pods.pod("a")
    pods.live()
    pods.pod("a", kind="gone")
    pods.pod("b", phase="Pending", podIP="")
    pods.pod("b")
    assert pods.incidents() == [("pod-gone", "operator/a", ""), ("pod-started", "operator/b", "")]


def test_a_pod_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    pods = Followings(tmp_path)
    pods.pod("op-0", uid="1", **restarts(4))
    pods.live()
    pods.pod("op-0", uid="1", kind="gone")
    pods.pod("op-0", uid="2", **restarts(0))
    assert [kind for kind, _, _ in pods.incidents()] == ["pod-gone", "pod-started"]


def test_the_leader_is_the_oldest_that_runs_where_none_is_elected(tmp_path: Path) -> None:
    pods = Followings(tmp_path)
    pods.pod("young", startTime="2026-01-01T00:00:09Z")
    pods.pod("dying", startTime="2026-01-01T00:00:01Z", phase="Failed")
    pods.pod("old", startTime="2026-01-01T00:00:02Z")
    assert pods.leader() == "old"
    pods.pod("old", kind="gone")
    assert pods.leader() == "young"


def test_the_leader_is_the_lease_s_holder_and_a_change_is_reported(tmp_path: Path) -> None:
    pods = Followings(tmp_path, lease="lock")
    pods.pod("a")
    pods.pod("b")
    assert pods.leader() == ""
    pods.lease("a_0f3c")
    assert (pods.leader(), pods.incidents()) == ("a", [])
    # Given up, then taken: one change.
    pods.lease("")
    pods.lease("b_77aa")
    pods.lease("b_77aa")
    assert pods.leader() == "b"
    assert pods.incidents() == [("leader-change", "operator", "a → b")]


def test_credentials_in_a_reason_are_blotted_out(tmp_path: Path) -> None:
    pods = Followings(tmp_path)
    pods.pod("a", **restarts(0))
    pods.live()
    pods.pod("a", **restarts(1, exitCode=1, reason="token=abcdef123456"))
    assert "abcdef" not in pods.incidents()[0][2]


def test_a_target_is_wherever_the_leader_is(tmp_path: Path) -> None:
    pods = Followings(tmp_path, lease="lock")
    place = OfFollowed(pods="operator", port=8443, scheme="https", via="proxy")
    at = AtLeader(place, lambda name: pods.followed.leader() if name == "operator" else None, "https://api:6443")
    base = "https://api:6443/api/v1/namespaces/ns/pods"

    async def script() -> None:
        with pytest.raises(Absent, match="no pod of operator leads"):
            await at.now()
        pods.pod("a")
        pods.pod("b")
        pods.lease("a_1")
        assert (await at.now()).url == f"{base}/https:a:8443/proxy/metrics"
        assert not await at.failed()
        pods.lease("b_1")
        # Whoever was asked leads no longer: that is why it did not answer.
        assert await at.failed()
        assert (await at.now()).url == f"{base}/https:b:8443/proxy/metrics"

    asyncio.run(script())
