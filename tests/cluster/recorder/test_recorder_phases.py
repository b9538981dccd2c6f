"""Phases: their edges, holds, conditions of all kinds, and the account of what is late."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.endpoints import Address
from pytest_grovescale.errors import UsageError
from pytest_grovescale.procfs import started_ticks
from pytest_grovescale.recording.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Count,
    FieldTest,
    Predicate,
    Timer,
    WatchSpec,
)
from pytest_grovescale.recording.journal import Reader
from pytest_grovescale.recording.protocol import (
    MilestoneReached,
    PhaseComplete,
    ProcessExited,
    ProcessStarted,
    ProcessTarget,
    Progress,
    SourceBroke,
)
from pytest_grovescale.recording.recorder import ScrapeTarget
from pytest_grovescale.recording.records import (
    CpuRead,
    LateObject,
    MachineRead,
    MilestoneMet,
    ObjectSeen,
    PhaseEnded,
    PhaseStarted,
    ProcessGone,
    ProcessSeen,
    Request,
    Scraped,
    SourceFailed,
)
from pytest_grovescale.recording.scrape_targets import AtUrl
from tests import serving
from tests.serving import Reply

from .control_plane import ControlPlane
from .harness import Maps, check, complete, of, recorder, until

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("recorder")]


def at(name: str, url: str) -> ScrapeTarget:
    """A target that is scraped at the edges of phases only."""
    return ScrapeTarget(name=name, place=AtUrl(address=Address(url=url)), interval_s=0)


def test_phase_without_milestones_and_hold_is_complete_at_once(control_plane: ControlPlane, tmp_path: Path) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [], timeout=1)
        complete(running, "p")
        running.end_phase("p", "passed")


def test_hold_and_timers_run_by_the_recorders_clock(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    soon, later = Timer(seconds=0.2), Timer(seconds=0.3)
    conditions: list[tuple[str, Condition]] = [
        ("soon", soon),
        ("either", AnyOf(of=(maps.count(99), later))),
        ("both", AllOf(of=(maps.count(0), later))),
    ]
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", conditions, timeout=60, hold=0.6)
        reported = until(running, PhaseComplete, phase="p")
        running.end_phase("p", "passed")
    found = check(running.journal)
    (started,) = of(found, PhaseStarted)
    assert {m.name: m.at - started.at for m in of(found, MilestoneMet)} == {
        "soon": 200_000_000,
        "either": 300_000_000,
        "both": 300_000_000,
    }
    assert reported.at >= started.at + started.hold_ns == started.at + 600_000_000


@pytest.mark.parametrize(("given", "interval"), [(True, 3600.0), (False, 3600.0), (True, 0.0)])
def test_what_an_operator_does_after_all_milestones_stands_between_two_scrapes(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path, given: bool, interval: float
) -> None:
    """Also in a hold, which is scraped at its edges only; one without milestones measures, and is left alone."""
    operator = msgspec.structs.replace(at("operator", control_plane.access.server + "/metrics"), interval_s=interval)
    with recorder(tmp_path, control_plane.access, scrape_targets=(operator,)) as running:
        running.begin_phase("p", [("empty", maps.count(0))] if given else [], timeout=60, hold=2.5)
        running.quiet_phase()
        complete(running, "p")
        running.end_phase("p", "passed")
    edges = [scrape.edge for scrape in of(check(running.journal), Scraped)]
    assert edges == (["start:p", "", "end:p"] if given and interval else ["start:p", "end:p"])


def test_edges_stand_around_the_phase(control_plane: ControlPlane, tmp_path: Path) -> None:
    api = at("api", control_plane.access.server + "/metrics")
    with recorder(tmp_path, control_plane.access, scrape_targets=(api,)) as running:
        running.begin_phase("p", [], timeout=1)
        running.end_phase("p", "passed")
    found = check(running.journal)
    kinds = [
        f"{type(record).__name__} {getattr(record, 'edge', '')}".strip()
        for record in found
        if isinstance(record, PhaseStarted | PhaseEnded)
        or (isinstance(record, CpuRead | MachineRead | Scraped) and record.edge)
    ]
    start, end = ([f"CpuRead {edge}:p"] * 2 + [f"MachineRead {edge}:p"] for edge in ("start", "end"))
    assert kinds == [*start, "Scraped start:p", "PhaseStarted", *end, "Scraped end:p", "PhaseEnded"]
    machine = [read.times for read in of(found, MachineRead) if read.edge]
    assert None not in machine, "this machine does not show /proc/stat"
    waited = [read.waiting_ns for read in of(found, CpuRead) if read.process == "recorder" and read.edge]
    assert None not in waited, "this kernel does not count how long threads wait for a core"
    first, second = of(found, Scraped)
    assert any(series.startswith("apiserver_request_total{") for series in first.samples)
    assert 0 < len(second.samples) < len(first.samples)


def test_progress_reports_counts_and_requests(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    with recorder(tmp_path, control_plane.access, audit_log=str(control_plane.audit_log)) as running:
        running.begin_phase("p", [("three", maps.count(3))], timeout=60)
        maps.create("a")
        maps.create("b")
        reported = until(running, Progress, counts={"three": (2, 3)})
        assert reported.phase == "p"
        maps.create("c")
        assert until(running, MilestoneReached).name == "three"
        running.end_phase("p", "passed")


def test_every_request_is_in_the_recording_when_its_phase_ends(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path
) -> None:
    sent: dict[str, tuple[int, int]] = {}

    def write(number: int) -> None:
        began = time.time_ns()
        maps.create(f"c{number}")
        sent[f"c{number}"] = (began, time.time_ns())

    with recorder(tmp_path, control_plane.access, audit_log=str(control_plane.audit_log)) as running:
        running.begin_phase("p", [], timeout=60)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(200)))
        running.end_phase("p", "passed")
        running.flush()
        found = check(running.journal)
    written = {r.name: r for r in of(found, Request) if r.user == "writer" and r.verb == "create"}
    assert written.keys() == sent.keys()
    assert all(r.code == 201 and r.received_wall <= r.completed_wall for r in written.values())
    # The server's interval begins within the client's; its end may be a little after the answer was sent.
    assert all(sent[name][0] <= r.received_wall <= sent[name][1] for name, r in written.items())


@pytest.mark.parametrize(
    "predicate",
    [
        Predicate(expression='fields["data.a"] == "x" and len(fields["data.a"]) == 1'),
        Predicate(function="recorder_predicates:is_x"),
    ],
    ids=["expression", "function"],
)
def test_conditions_of_the_users_own(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path, predicate: Predicate, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "importable"
    folder.mkdir()
    (folder / "recorder_predicates.py").write_text("def is_x(fields):\n    return fields['data.a'] == 'x'\n")
    monkeypatch.syspath_prepend(str(folder))
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("two", maps.count(2, where=predicate))], timeout=60)
        for name, value in (("a", "x"), ("b", "y"), ("c", "x")):
            maps.create(name, value)
        complete(running, "p")
        running.end_phase("p", "passed")
    (met,) = of(check(running.journal), MilestoneMet)
    assert met.object is not None
    assert met.object.name == "c"


@pytest.mark.parametrize(
    ("predicate", "reason"),
    [
        (Predicate(expression="fields['nope'] == 1"), "not among the declared fields"),
        (Predicate(expression="1 +"), "not a Python expression"),
        (Predicate(function="nowhere:f"), "No module named 'nowhere'"),
        (Predicate(tests=(FieldTest(path="status.x", value=1),)), "not among the fields"),
    ],
)
def test_condition_that_cannot_be_used_is_refused_when_declared(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path, predicate: Predicate, reason: str
) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        with pytest.raises(UsageError, match=rf"milestone 'm': .*{reason}"):
            running.begin_phase("p", [("m", maps.count(1, where=predicate))], timeout=60)
        running.begin_phase("p", [], timeout=60)
        running.end_phase("p", "passed")
    assert len(of(check(running.journal), PhaseStarted)) == 1


def test_path_that_cannot_be_read_is_refused(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    with recorder(tmp_path, control_plane.access) as running, pytest.raises(UsageError, match="field path"):
        running.watch([WatchSpec(resource="configmaps", path=maps.path, fields=("a..b",))], timeout=30)


def test_condition_that_raises_is_unknown_and_reported_once(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path
) -> None:
    predicate = Predicate(expression='int(fields["data.a"]) > 1')
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("none", maps.count(2, where=predicate, op="<="))], timeout=60)
        complete(running, "p")
        running.end_phase("p", "passed")
        maps.create("bad", "no number")
        maps.create("worse", "none either")
        running.begin_phase("q", [("none", maps.count(0, where=predicate))], timeout=60)
        reported = until(running, SourceBroke)
        assert (reported.source, reported.fatal) == ("condition:q/none", True)
        assert "ValueError" in reported.message
        running.end_phase("q", "failed")
    found = check(running.journal)
    assert [f.source for f in of(found, SourceFailed)] == ["condition:q/none"]
    assert [m.phase for m in of(found, MilestoneMet)] == ["p"]


def test_phases_follow_one_another(control_plane: ControlPlane, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        with pytest.raises(UsageError, match="'p' is not open"):
            running.end_phase("p", "passed")
        running.begin_phase("p", [], timeout=1)
        with pytest.raises(UsageError) as caught:
            running.begin_phase("q", [], timeout=1)
        assert str(caught.value) == snapshot
        running.end_phase("p", "passed")


# ---- what is late


def test_account_of_late_objects(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    namespace = maps.namespace
    path = f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "c", "image": "i"}

    def pod(name: str, **spec: Any) -> None:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "u-1", "controller": True}
        meta = {"name": name, "ownerReferences": [owner]}
        control_plane.request("POST", path, {"metadata": meta, "spec": {"containers": [container], **spec}})

    def status(name: str, **fields: Any) -> None:
        kind = "application/merge-patch+json"
        control_plane.request("PATCH", f"{path}/{name}/status", {"status": fields}, kind=kind)

    ready = WatchSpec(resource="pods", path=path, fields=("status.conditions[type=Ready].status",))
    is_ready = Predicate(tests=(FieldTest(path="status.conditions[type=Ready].status", value="True"),))
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("ready", Count(watch=ready, where=is_ready, n=4))], timeout=60)
        pod("gated", schedulingGates=[{"name": "grove.io/gate"}])
        pod("stuck")
        scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/9 nodes"}
        status("stuck", conditions=[scheduled])
        pod("fine")
        status("fine", conditions=[{"type": "Ready", "status": "True"}])
        about = {"kind": "Pod", "namespace": namespace, "name": "stuck", "uid": ""}
        about["uid"] = control_plane.request("GET", f"{path}/stuck")["metadata"]["uid"]
        event = {
            "metadata": {"name": "stuck.1"},
            "involvedObject": about,
            "reason": "FailedScheduling",
            "message": "no node; Authorization: Bearer abcdefghijk",
            "count": 3,
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }
        control_plane.request("POST", f"/api/v1/namespaces/{namespace}/events", event)
        refused = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": namespace, "name": "web-1"}
        for number, reason in enumerate(("FailedCreate", "Unrelated")):
            warning = {
                "metadata": {"name": f"web.{number}"},
                "involvedObject": refused,
                "type": "Warning",
                "reason": reason,
                "message": "pods is forbidden: no PriorityClass with name urgent was found",
            }
            control_plane.request("POST", f"/api/v1/namespaces/{namespace}/events", warning)
        until(running, Progress, counts={"ready": (1, 4)})
        running.wait(0)
        late = running.end_phase("p", "timeout", "too slow")
    assert late == of(check(running.journal), LateObject)
    by_name = {item.object.name: item for item in late}
    assert by_name.keys() == {"", "gated", "stuck"}
    assert by_name[""].reason == "1 of 4 do not exist"
    assert by_name[""].events == snapshot(name="why the one was not made")
    assert by_name["gated"].owner == "ConfigMap/boss"
    assert "scheduling gates grove.io/gate" in by_name["gated"].reason
    assert "wanted == 'True'" in by_name["gated"].reason
    assert "PodScheduled=False (Unschedulable: 0/9 nodes)" in by_name["stuck"].reason
    (shown,) = by_name["stuck"].events
    assert "Bearer [redacted]" in shown
    assert shown == snapshot


def test_account_of_objects_whose_pods_have_no_node(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    path = f"/api/v1/namespaces/{maps.namespace}/pods"
    control_plane.request(
        "POST", path, {"metadata": {"name": "w"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    )
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/9 nodes"}
    merge = "application/merge-patch+json"
    control_plane.request("PATCH", f"{path}/w/status", {"status": {"conditions": [said]}}, kind=merge)
    for name in "ab":
        maps.create(name)
    wanted = Predicate(tests=(FieldTest(path="data.a", value="ready"),))
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("ready", maps.count(2, where=wanted))], timeout=60)
        until(running, Progress, counts={"ready": (0, 2)})
        running.wait(0)
        late = running.end_phase("p", "timeout", "too slow")
    first, second = (item.reason for item in late)
    assert "0/9 nodes" in first
    assert "0/9 nodes" not in second


def test_account_of_objects_that_only_the_selector_leaves_out(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    control_plane.request("POST", maps.path, {"metadata": {"name": "c", "labels": {"app": "web"}}})
    spec = WatchSpec(resource="configmaps", path=maps.path, label_selector="app=webb")
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("made", Count(watch=spec, n=2))], timeout=60)
        running.wait(0)
        (late,) = running.end_phase("p", "timeout", "too slow")
    assert late.reason == snapshot


def test_account_of_objects_that_do_not_go(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    for number in range(25):
        meta = {"name": f"c{number}", "finalizers": ["x.io/wait"]}
        control_plane.request("POST", maps.path, {"metadata": meta, "data": {"a": "x"}})
    with recorder(tmp_path, control_plane.access, audit_log=str(control_plane.audit_log)) as running:
        running.begin_phase("p", [("gone", maps.count(0))], timeout=60)
        for number in range(25):
            maps.delete(f"c{number}")
        late = running.end_phase("p", "timeout")
    for number in range(25):
        body = {"metadata": {"finalizers": None}}
        control_plane.request("PATCH", f"{maps.path}/c{number}", body, kind="application/merge-patch+json")
    assert len(late) == 10
    for item in late:
        assert "deletion was requested at" in item.reason
        assert "finalizers x.io/wait" in item.reason
    # It asks for those ten only, however many are late.
    own = [
        r
        for r in of(check(running.journal), Request)
        if r.user == "recorder" and r.resource in ("configmaps", "events")
    ]
    assert len([r for r in own if r.verb == "get"]) == 10
    assert len([r for r in own if r.verb == "list"]) == 10


def test_account_without_an_api_server(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    for name in "ab":
        maps.create(name)
    with recorder(tmp_path, control_plane.access, audit_log=str(control_plane.audit_log)) as running:
        running.begin_phase("p", [("gone", maps.count(0))], timeout=60)
        control_plane.kill_apiserver()
        late = running.end_phase("p", "timeout")
        control_plane.start_apiserver()
    assert [item.object.name for item in late] == ["a", "b"]
    assert all("API server" in item.reason for item in late)


# ---- processes


def replace(path: Path, **processes: subprocess.Popen[bytes]) -> None:
    listed = {
        name: {"name": name, "pid": p.pid, "started_ticks": started_ticks(p.pid), "running": True}
        for name, p in processes.items()
    }
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(listed))
    os.replace(new, path)


def test_processes_are_followed_from_pid_to_pid(control_plane: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    spin = ["sh", "-c", "while :; do :; done"]
    first = subprocess.Popen(spin)
    replace(path, operator=first, other=first)
    wanted = (ProcessTarget("operator"),)
    with recorder(
        tmp_path, control_plane.access, processes_file=str(path), processes=wanted, timeline_s=0.05
    ) as running:
        assert until(running, ProcessStarted, process="operator").pid == first.pid
        running.begin_phase("p", [], timeout=60)
        first.kill()
        assert until(running, ProcessExited, process="operator").pid == first.pid
        first.wait()
        second = subprocess.Popen(spin)
        replace(path, operator=second)
        assert until(running, ProcessStarted, process="operator").pid == second.pid
        running.end_phase("p", "passed")
        second.kill()
        assert until(running, ProcessExited, process="operator").pid == second.pid
        second.wait()
    found = check(running.journal)
    assert [s.pid for s in of(found, ProcessSeen) if s.process == "operator"] == [first.pid, second.pid]
    assert [(g.process, g.pid) for g in of(found, ProcessGone)] == [("operator", first.pid), ("operator", second.pid)]
    for pid in (first.pid, second.pid):
        reads = [r.cpu_ns for r in of(found, CpuRead) if r.pid == pid]
        assert reads == sorted(reads)
        assert reads[-1] > 0
    edges = [r.pid for r in of(found, CpuRead) if r.process == "operator" and r.edge]
    assert edges == [first.pid, second.pid]
    assert "other" not in {s.process for s in of(found, ProcessSeen)}


# ---- scrapes


@contextmanager
def endpoint(answer: dict[str, Any]) -> Iterator[str]:
    """A metrics endpoint that serves ``answer``: status, body, and an event to wait for before the body."""

    def reply(_: serving.Request) -> Reply:
        if "hang" in answer:
            answer["hang"].wait()
        return Reply(answer["body"], answer.get("status", 200), content_type="")

    with serving.serving(reply) as port:
        try:
            yield f"http://127.0.0.1:{port}/metrics"
        finally:
            if "hang" in answer:
                answer["hang"].set()


def test_scrapes_hold_what_changed_and_a_failed_one_says_so(control_plane: ControlPlane, tmp_path: Path) -> None:
    good: dict[str, Any] = {"body": b'a{x="1"} 1\nb 2\nc NaN\nd 4\n'}
    bad: dict[str, Any] = {"body": b"<html>secret</html>"}
    stuck: dict[str, Any] = {"body": b"a 1\n", "hang": threading.Event()}
    with endpoint(good) as good_url, endpoint(bad) as bad_url, endpoint(stuck) as stuck_url:
        urls = {"good": good_url, "bad": bad_url + "?token=abc", "gone": "http://127.0.0.1:9/metrics"}
        targets = tuple(at(name, url) for name, url in urls.items())
        with recorder(tmp_path, control_plane.access, scrape_targets=targets) as running:
            running.add_target(at("stuck", stuck_url))
            running.begin_phase("p", [], timeout=1)
            for name in ("stuck", "gone"):
                running.remove_target(name)
            good["body"] = b'a{x="1"} 1\nb 3\nc NaN\n'
            bad |= {"body": b"", "status": 500}
            running.end_phase("p", "passed")
            # Another address, the same history.
            running.add_target(at("bad", good_url))
            running.begin_phase("q", [], timeout=1)
            running.end_phase("q", "passed")
    found = check(running.journal)
    scrapes = [(s.target, s.edge, s.samples, s.special, s.gone) for s in of(found, Scraped)]
    first: tuple[str, str, dict[str, float], dict[str, str], list[str]] = (
        "good",
        "start:p",
        {'a{x="1"}': 1.0, "b": 2.0, "d": 4.0},
        {"c": "NaN"},
        [],
    )
    assert scrapes[:2] == [first, ("good", "end:p", {"b": 3.0}, {}, ["d"])]
    assert ("good", "start:q", {}, {}, []) in scrapes
    assert ("bad", "start:q", {'a{x="1"}': 1.0, "b": 3.0}, {"c": "NaN"}, []) in scrapes
    failures = [(f.source, f.message) for f in of(found, SourceFailed)]
    assert sorted(source for source, _ in failures) == ["scrape:bad", "scrape:bad", "scrape:gone", "scrape:stuck"]
    assert b"abc" not in b"".join(Reader(running.journal).lines())
    assert any("no answer within" in message for _, message in failures)
    assert any("HTTP 500" in message for _, message in failures)


def test_a_burst_is_counted_exactly(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    with recorder(tmp_path, control_plane.access) as running:
        running.begin_phase("p", [("all", maps.count(300))], timeout=60)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: maps.create(f"c{number}"), range(300)))
        complete(running, "p")
        running.end_phase("p", "passed")
    found = check(running.journal)
    (met,) = of(found, MilestoneMet)
    added = [e for e in of(found, ObjectSeen) if e.change == "added"]
    assert len(added) == 300
    assert met.at == added[-1].at
