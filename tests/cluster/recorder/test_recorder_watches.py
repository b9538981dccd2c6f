"""Watches that are cut, refused, outlived by the API server or too late: nothing is lost and all of it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_grovescale.errors import RecordingError, UsageError
from pytest_grovescale.kube.access import Access
from pytest_grovescale.recording.conditions import Count, WatchSpec
from pytest_grovescale.recording.protocol import MilestoneReached, SourceBroke
from pytest_grovescale.recording.records import (
    MilestoneMet,
    ObjectSeen,
    Request,
    SourceFailed,
    WatchCut,
    WatchGap,
    WatchLive,
    WatchOpened,
)

from .control_plane import ControlPlane, Proxy
from .harness import Maps, check, complete, of, recorder, until

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("recorder")]


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[Proxy]:
    proxy = Proxy(control_plane.port)
    yield proxy
    proxy.cut(refuse=True)


def through(proxy: Proxy) -> Access:
    return Access(server=f"https://127.0.0.1:{proxy.port}", token="recorder-token", insecure=True)


def test_initial_events_then_changes(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    for name in "abc":
        maps.create(name)
    with recorder(tmp_path, control_plane.access, audit_log=str(control_plane.audit_log)) as running:
        running.begin_phase("p", [("two-y", maps.having("y", 2)), ("two", maps.count(2))], timeout=60)
        maps.change("a", "y")
        maps.change("b", "y")
        maps.delete("c")
        complete(running, "p")
        running.end_phase("p", "passed")
    found = check(running.journal)
    (opened,), (live,) = of(found, WatchOpened), of(found, WatchLive)
    assert (opened.mode, live.objects) == ("stream", 3)
    events = [(e.change, e.name, e.initial, e.fields.get("data.a")) for e in of(found, ObjectSeen)]
    assert sorted(events[:3]) == [("added", name, True, "x") for name in "abc"]
    assert events[3:] == [
        ("modified", "a", False, "y"),
        ("modified", "b", False, "y"),
        ("deleted", "c", False, "x"),
    ]
    assert {met.name: met.object.name for met in of(found, MilestoneMet) if met.object} == {"two-y": "b", "two": "c"}
    # One watch, no list: what the recorder costs the API server does not grow with time.
    own = [r for r in of(found, Request) if r.user == "recorder" and r.resource == "configmaps"]
    assert {r.verb for r in own} == {"watch"}
    assert [r.stage for r in own].count("ResponseStarted") == 1


def test_requests_do_not_wait_behind_many_watches(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    """As of an operator that makes namespaces: each has collections of its own."""
    paths = [f"/api/v1/namespaces/{maps.namespace}-{number}/configmaps" for number in range(100)]
    with recorder(tmp_path, control_plane.access, audit_log=str(control_plane.audit_log)) as running:
        running.watch([WatchSpec(resource="configmaps", path=path) for path in paths], 60)
        running.begin_phase("p", [("one", maps.count(1))], timeout=60)
        maps.create("a")
        complete(running, "p")
        running.end_phase("p", "passed")
    assert len(of(check(running.journal), WatchLive)) == len(paths) + 1


def test_cut_watch_goes_on_where_it_was(control_plane: ControlPlane, maps: Maps, proxy: Proxy, tmp_path: Path) -> None:
    with recorder(tmp_path, through(proxy), audit_log=str(control_plane.audit_log)) as running:
        running.begin_phase("p", [("three", maps.count(3)), ("six", maps.count(6))], timeout=60)
        for name in "abc":
            maps.create(name)
        until(running, MilestoneReached, name="three")
        assert proxy.cut(refuse=True) >= 1
        for name in "def":
            maps.create(name)
        proxy.open()
        until(running, MilestoneReached, name="six")
        running.end_phase("p", "passed")
    found = check(running.journal)
    (cut,) = of(found, WatchCut)
    assert cut.length_ns > 0
    assert cut.resource_version
    assert of(found, WatchGap) == []
    assert [e.name for e in of(found, ObjectSeen)] == list("abcdef")
    three, six = of(found, MilestoneMet)
    assert three.uncertainty_ns == 0
    # It may have been met at any time since the last event before the cut.
    assert six.at - six.uncertainty_ns == cut.at - cut.length_ns
    assert [r for r in of(found, Request) if r.user == "recorder" and r.verb == "list"] == []


def test_many_cuts_lose_nothing(control_plane: ControlPlane, maps: Maps, proxy: Proxy, tmp_path: Path) -> None:
    with recorder(tmp_path, through(proxy)) as running:
        running.begin_phase("p", [("all", maps.count(60))], timeout=60)
        for number in range(60):
            maps.create(f"c{number}")
            if number % 6 == 0:
                proxy.cut()
        complete(running, "p")
        running.end_phase("p", "passed")
    found = check(running.journal)
    assert [e.name for e in of(found, ObjectSeen)] == [f"c{number}" for number in range(60)]
    assert of(found, WatchCut)


def test_apiserver_killed_and_started_again(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    for name in ("stays", "changes", "goes", "replaced"):
        maps.create(name)
    with recorder(tmp_path, control_plane.access, audit_log=str(control_plane.audit_log)) as running:
        running.begin_phase("p", [("new", maps.having("new", 3)), ("gone", maps.count(0, name="goes"))], timeout=60)
        control_plane.kill_apiserver()
        broke = until(running, SourceBroke)
        assert broke.source == "watch:w1"
        assert not broke.fatal
        control_plane.start_apiserver()
        maps.change("changes", "new")
        maps.delete("goes")
        maps.delete("replaced")
        maps.create("replaced", "new")
        maps.create("comes", "new")
        complete(running, "p")
        running.end_phase("p", "passed")
    found = check(running.journal)
    # Once for the outage, however often it was tried again.
    assert [f.source for f in of(found, SourceFailed)] == ["watch:w1"]
    # The new server may know the old resourceVersion or not; either way it is told how long nothing was heard.
    lengths = [cut.length_ns for cut in of(found, WatchCut)] + [gap.length_ns for gap in of(found, WatchGap)]
    assert len(lengths) == 1
    assert lengths[0] >= 10**9
    state = {}
    for event in of(found, ObjectSeen):
        state[event.name] = None if event.change == "deleted" else event.fields["data.a"]
    assert state == {"stays": "x", "changes": "new", "goes": None, "replaced": "new", "comes": "new"}


def test_version_that_is_gone_means_a_new_list_and_a_gap(
    control_plane: ControlPlane, maps: Maps, proxy: Proxy, tmp_path: Path
) -> None:
    for name in ("stays", "changes", "goes", "replaced"):
        maps.create(name)
    with recorder(tmp_path, through(proxy)) as running:
        running.begin_phase("p", [("new", maps.having("new", 3))], timeout=60)
        proxy.cut(refuse=True)
        maps.change("changes", "new")
        maps.delete("goes")
        maps.delete("replaced")
        maps.create("replaced", "new")
        maps.create("comes", "new")
        # Neither etcd nor the watch cache of a new server knows the version that the recorder is at.
        control_plane.compact()
        control_plane.kill_apiserver()
        control_plane.start_apiserver()
        proxy.open()
        complete(running, "p")
        running.end_phase("p", "passed")
    found = check(running.journal)
    (gap,) = of(found, WatchGap)
    assert "too old" in gap.reason
    first, second = of(found, WatchLive)
    made_up = [(e.change, e.name) for e in of(found, ObjectSeen) if first.at < e.at <= second.at]
    # The one that was replaced is another object of the same name.
    expected = ["added comes", "added replaced", "deleted goes", "deleted replaced", "modified changes"]
    assert sorted(f"{change} {name}" for change, name in made_up) == expected
    assert all(e.initial for e in of(found, ObjectSeen))
    (met,) = of(found, MilestoneMet)
    assert (met.at, met.object) == (second.at, None)
    assert met.at - met.uncertainty_ns == gap.at - gap.length_ns


def test_server_without_initial_events_is_listed_in_pages(tmp_path: Path, binaries: Callable[[str], Path]) -> None:
    control_plane = ControlPlane(tmp_path / "control_plane", binaries)
    try:
        control_plane.start()
        control_plane.kill_apiserver()
        control_plane.start_apiserver("--feature-gates=WatchList=false")
        maps = Maps(control_plane, "old")
        for number in range(3):
            maps.create(f"c{number}")
        with recorder(tmp_path, control_plane.access) as running:
            running.begin_phase("p", [("five", maps.count(5))], timeout=60)
            maps.create("c3")
            maps.create("c4")
            complete(running, "p")
            running.end_phase("p", "passed")
    finally:
        control_plane.stop()
    found = check(running.journal)
    assert [o.mode for o in of(found, WatchOpened)] == ["list"]
    assert [live.objects for live in of(found, WatchLive)] == [3]
    assert [(e.name, e.initial) for e in of(found, ObjectSeen)] == [(f"c{n}", n < 3) for n in range(5)]


def test_kind_that_is_not_served(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    absent = WatchSpec(resource="widgets.x.io", path="/apis/x.io/v1/widgets")
    with recorder(tmp_path, control_plane.access) as running:
        with pytest.raises(RecordingError, match=r"widgets\.x\.io cannot be watched"):
            running.begin_phase("p", [("m", Count(watch=absent, n=1))], timeout=60)
        # And the recorder goes on.
        running.begin_phase("p", [("none", maps.count(0))], timeout=60)
        complete(running, "p")
        running.end_phase("p", "passed")


def test_identity_that_may_not_watch(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    with (
        recorder(tmp_path, control_plane.access_of("nobody")) as running,
        pytest.raises(RecordingError, match=r"forbidden: .*\"nobody\" cannot (list|watch)"),
    ):
        running.watch([maps.watch], timeout=30)


def test_selector_that_the_kind_does_not_know(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    spec = WatchSpec(resource="configmaps", path=maps.path, field_selector="spec.nodeName=x")
    with (
        recorder(tmp_path, control_plane.access) as running,
        pytest.raises(RecordingError, match="not a known field selector"),
    ):
        running.watch([spec], timeout=30)


def test_api_server_that_does_not_answer(control_plane: ControlPlane, maps: Maps, proxy: Proxy, tmp_path: Path) -> None:
    with recorder(tmp_path, through(proxy)) as running:
        proxy.cut(refuse=True)
        with pytest.raises(RecordingError, match="no answer"):
            running.watch([maps.watch], timeout=1)
        proxy.open()
        running.watch([maps.watch], timeout=30)


def test_content_of_secrets_is_refused(control_plane: ControlPlane, tmp_path: Path) -> None:
    spec = WatchSpec(resource="secrets", path="/api/v1/secrets", fields=("data.password",))
    with (
        recorder(tmp_path, control_plane.access) as running,
        pytest.raises(UsageError, match="never goes into a recording"),
    ):
        running.watch([spec], timeout=30)


def test_one_watch_serves_all_that_ask_for_no_more(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    narrow = WatchSpec(resource="configmaps", path=maps.path)
    other = WatchSpec(resource="configmaps", path=maps.path, fields=("data.b",))
    with recorder(tmp_path, control_plane.access) as running:
        running.watch([narrow, maps.watch], timeout=30)
        running.begin_phase("p", [("m", Count(watch=narrow, n=0)), ("n", maps.count(0))], timeout=60)
        running.end_phase("p", "passed")
        running.begin_phase("q", [("m", Count(watch=other, n=0))], timeout=60)
        running.end_phase("q", "passed")
    assert [o.spec.fields for o in of(check(running.journal), WatchOpened)] == [("data.a",), ("data.b",)]
