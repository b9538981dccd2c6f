"""Targets behind a real API server: found by watch, gone with their pods.

What cannot be had here: an answer through the API server's proxy. It refuses to pass anything on to a loopback address,
which is where these endpoints are, and simulated pods have no other; so of the proxy its refusals are tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from pytest_grovescale.recording import journal
from pytest_grovescale.recording.recorder import Recorder, ScrapeTarget
from pytest_grovescale.recording.records import Scraped, SourceFailed, TargetGone, TargetSeen
from pytest_grovescale.recording.scrape_targets import OfPods, OfService
from tests.serving import Reply, serving
from tests.waiting import wait_until

from .control_plane import ControlPlane
from .harness import Maps, check, of, recorder

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("recorder")]

TICK = 0.1


class Pods:
    """Pods that nothing runs: their status is what a test writes."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._control_plane = control_plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
        self._control_plane.request(
            "POST", self._path, {"metadata": {"name": name, "labels": {"app": "operator"}}, "spec": spec}
        )

    def run(self, name: str) -> None:
        status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        kind = "application/merge-patch+json"
        self._control_plane.request("PATCH", f"{self._path}/{name}/status", {"status": status}, kind=kind)

    def delete(self, name: str) -> None:
        self._control_plane.request("DELETE", f"{self._path}/{name}", {"gracePeriodSeconds": 0})


def metrics() -> AbstractContextManager[int]:
    """The port of an endpoint on loopback, which is where all these pods say that they are."""
    return serving(lambda _: Reply(b"a 1\n"))


def names(running: Recorder, kind: type[TargetSeen] | type[TargetGone] | type[Scraped]) -> list[str]:
    running.flush()
    return [record.target for record in journal.read(running.journal) if isinstance(record, kind)]


def failures(running: Recorder) -> dict[str, str]:
    running.flush()
    return {r.source: r.message for r in journal.read(running.journal) if isinstance(r, SourceFailed)}


@contextmanager
def first_pod_scraped(control_plane: ControlPlane, maps: Maps, folder: Path) -> Iterator[tuple[Pods, Recorder]]:
    """Yield the operator's pods, of which the first is scraped already, and the recorder."""
    pods = Pods(control_plane, maps.namespace)
    pods.create("first")
    pods.run("first")
    with metrics() as port:
        place = OfPods(namespace=maps.namespace, label_selector="app=operator", port=port, via="ip")
        target = ScrapeTarget(name="pods", place=place, interval_s=TICK)
        with recorder(folder, control_plane.access, scrape_targets=(target,)) as running:
            wait_until(lambda: "pods/first" in names(running, Scraped), "a scrape of the pod that is there")
            yield pods, running


def test_pods_are_scraped_from_their_start_to_their_end(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path
) -> None:
    with first_pod_scraped(control_plane, maps, tmp_path) as (pods, running):
        pods.create("second")
        pods.run("second")
        wait_until(lambda: "pods/second" in names(running, Scraped), "a scrape of the pod that came")
        running.begin_phase("p", [], timeout=60)
        pods.delete("first")
        wait_until(lambda: names(running, TargetGone) == ["pods/first"], "the end of the pod that went")
        running.end_phase("p", "passed")
        running.remove_target("pods")
    found = check(running.journal)
    assert [gone.target for gone in of(found, TargetGone)] == ["pods/first", "pods/second"]
    edges = [(scrape.target, scrape.edge) for scrape in of(found, Scraped) if scrape.edge]
    assert sorted(edges) == [("pods/first", "start:p"), ("pods/second", "end:p"), ("pods/second", "start:p")]
    assert not of(found, SourceFailed)


def test_a_restarted_api_server_loses_no_pod(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    with first_pod_scraped(control_plane, maps, tmp_path) as (pods, running):
        control_plane.kill_apiserver()
        scrapes = len(names(running, Scraped))
        wait_until(lambda: len(names(running, Scraped)) > scrapes, "scrapes while the API server is away")
        control_plane.start_apiserver()
        pods.create("second")
        pods.run("second")
        wait_until(lambda: "pods/second" in names(running, Scraped), "a scrape of the pod that came")
        assert not names(running, TargetGone)


def test_what_the_proxy_refuses_is_reported_with_its_own_words(
    control_plane: ControlPlane, maps: Maps, tmp_path: Path
) -> None:
    pods = Pods(control_plane, maps.namespace)
    pods.create("first")
    pods.run("first")
    targets = (
        ScrapeTarget(name="pods", place=OfPods(namespace=maps.namespace, label_selector="app=operator", port=8080)),
        ScrapeTarget(name="service", place=OfService(namespace=maps.namespace, service="nobody", port="metrics")),
    )
    with recorder(tmp_path, control_plane.access, scrape_targets=targets, scrape_interval_s=TICK) as running:
        wait_until(lambda: len(failures(running)) == 2, "what the proxy says of each")
        said = failures(running)
    assert "address not allowed" in said["scrape:pods/first"]
    assert 'services "nobody" not found' in said["scrape:service"]


def test_a_service_is_looked_up_at_its_own_address(control_plane: ControlPlane, maps: Maps, tmp_path: Path) -> None:
    path = f"/api/v1/namespaces/{maps.namespace}/services"
    spec = {"clusterIP": "None", "ports": [{"name": "metrics", "port": 8080}], "selector": {"app": "operator"}}
    control_plane.request("POST", path, {"metadata": {"name": "headless"}, "spec": spec})
    place = OfService(namespace=maps.namespace, service="headless", port="metrics", via="ip")
    target = ScrapeTarget(name="service", place=place)
    with recorder(tmp_path, control_plane.access, scrape_targets=(target,), scrape_interval_s=TICK) as running:
        wait_until(lambda: "no address of its own" in failures(running).get("scrape:service", ""), "what is wrong")
