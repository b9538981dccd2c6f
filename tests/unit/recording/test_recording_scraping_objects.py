"""Targets behind the Kubernetes API: followed by watch, one loop for each pod that can be scraped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.endpoints import Credentials
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.informer import Followed
from pytest_grovescale.recording import followed_objects
from pytest_grovescale.recording.records import Scraped, SourceFailed, TargetGone, TargetSeen
from pytest_grovescale.recording.scrape_targets import OfPods, OfService, ScrapeTarget
from pytest_grovescale.recording.scraping.connections import Where
from pytest_grovescale.recording.scraping.locators import ServiceObject, pod_where, service_address, service_where
from tests.unit.recording.scraping_harness import Endpoint, reply, scraping, serving, until

TICK = 0.02
SERVER = "https://127.0.0.1:6443"
PODS = "/api/v1/namespaces/ns/pods"
SERVICES = "/api/v1/namespaces/ns/services"


def pod(name: str, uid: str = "", *, ip: str = "127.0.0.1", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """Return a pod as the API sends it, reduced to what counts here."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": "7", **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase, **({"podIP": ip} if ip else {})},
    }


def followed(obj: dict[str, Any]) -> Followed:
    return msgspec.convert(obj, Followed)


class Api:
    """An API server's watches, as far as they are needed: what is there, then what is told."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.access = Access(server=endpoint.url("").removesuffix("/metrics"))
        self._streams: dict[str, list[asyncio.StreamWriter]] = {}
        self._there: dict[str, list[dict[str, Any]]] = {PODS: [], SERVICES: []}
        for path in (PODS, SERVICES):
            endpoint.replies[path] = self._watch(path)

    def tell(self, type: str, obj: dict[str, Any], path: str = PODS) -> None:
        self._there[path] = [one for one in self._there[path] if one["metadata"]["uid"] != obj["metadata"]["uid"]]
        if type != "DELETED":
            self._there[path].append(obj)
        for stream in self._streams.get(path, ()):
            self._send(stream, type, obj)

    def watched(self) -> bool:
        """Return whether a watch on pods is open."""
        return bool(self._streams.get(PODS))

    def cut(self) -> None:
        """End all watches, as an API server that restarts does."""
        for streams in self._streams.values():
            for stream in streams:
                stream.transport.abort()
            streams.clear()

    def _watch(self, path: str) -> Any:
        async def begin(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            for obj in self._there[path]:
                self._send(writer, "ADDED", obj)
            meta = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
            self._send(writer, "BOOKMARK", {"metadata": meta})
            self._streams.setdefault(path, []).append(writer)
            await asyncio.Event().wait()

        return begin

    @staticmethod
    def _send(writer: asyncio.StreamWriter, type: str, obj: dict[str, Any]) -> None:
        line = json.dumps({"type": type, "object": obj}).encode() + b"\n"
        writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


@asynccontextmanager
async def api() -> AsyncIterator[Api]:
    async with serving() as endpoint:
        yield Api(endpoint)


# ---- where they are


@pytest.mark.parametrize(
    "unfit",
    [
        pod("a", ip=""),
        pod("a", phase="Pending"),
        pod("a", phase="Succeeded"),
        pod("a", deletionTimestamp="2026-01-01T00:00:00Z"),
        {"metadata": {"name": "a"}},
    ],
)
def test_a_pod_that_does_not_run_has_no_metrics(unfit: dict[str, Any]) -> None:
    assert pod_where(followed(unfit), OfPods(namespace="ns", label_selector="", port=8080), SERVER) is None


@pytest.mark.parametrize(
    ("place", "where"),
    [
        ({"via": "proxy"}, Where(f"{SERVER}/api/v1/namespaces/ns/pods/a:8080/proxy/metrics", None)),
        (
            {"via": "proxy", "scheme": "https", "path": "/m"},
            Where(f"{SERVER}/api/v1/namespaces/ns/pods/https:a:8080/proxy/m", None),
        ),
        ({"via": "ip"}, Where("http://10.0.0.1:8080/metrics", Credentials())),
        (
            {"via": "ip", "scheme": "https", "credentials": Credentials(token_file="/t")},
            Where("https://10.0.0.1:8080/metrics", Credentials(token_file="/t")),
        ),
    ],
)
def test_a_pod_is_reached_by_proxy_or_address(place: dict[str, Any], where: Where) -> None:
    found = pod_where(
        followed(pod("a", ip="10.0.0.1")), OfPods(namespace="ns", label_selector="", port=8080, **place), SERVER
    )
    assert found == where


def test_an_ipv6_address_stands_in_brackets() -> None:
    found = pod_where(
        followed(pod("a", ip="fd00::1")), OfPods(namespace="ns", label_selector="", port=1, via="ip"), SERVER
    )
    assert found is not None
    assert found.url == "http://[fd00::1]:1/metrics"


def test_a_service_is_reached_through_the_api_server() -> None:
    place = OfService(namespace="ns", service="operator", port="https-metrics", scheme="https")
    path = "/api/v1/namespaces/ns/services/https:operator:https-metrics/proxy/metrics"
    assert service_where(place, SERVER) == Where(SERVER + path, None)


# ---- followed


def pods_target(port: int, *, via: str = "ip") -> ScrapeTarget:
    place = OfPods(namespace="ns", label_selector="app=operator", port=port, via="ip" if via == "ip" else "proxy")
    return ScrapeTarget(name="pods", place=place)


def test_pods_that_come_and_go_get_and_lose_their_loop(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with api() as cluster, serving() as metrics:
            metrics.replies["/metrics"] = reply("a 1\n")
            cluster.tell("ADDED", pod("old"))
            cluster.tell("ADDED", pod("pending", phase="Pending"))
            target = pods_target(metrics.port)
            async with scraping(tmp_path, target, interval=TICK, access=cluster.access) as harness:
                harness.scrapers.run()
                await until(lambda: harness.scrapes("pods/old"))
                cluster.tell("ADDED", pod("new"))
                cluster.tell("MODIFIED", pod("pending"))
                await until(lambda: harness.scrapes("pods/new") and harness.scrapes("pods/pending"))
                cluster.cut()
                await cluster.endpoint.until_asked(PODS, 2)  # taken up again; nothing has changed
                await until(cluster.watched)
                cluster.tell("MODIFIED", pod("old", phase="Succeeded"))
                cluster.tell("DELETED", pod("new"))
                await until(lambda: len(harness.records(TargetGone)) == 2)
                assert {gone.target for gone in harness.records(TargetGone)} == {"pods/old", "pods/new"}
                # Another pod of the same name has a history of its own.
                cluster.tell("ADDED", pod("new", "another"))
                await until(lambda: len([s for s in harness.records(TargetSeen) if s.target == "pods/new"]) == 2)
                harness.scrapers.remove("pods")
                assert {gone.target for gone in harness.records(TargetGone)[2:]} == {"pods/new", "pods/pending"}
            watches = [head for head in cluster.endpoint.heads if head.startswith(f"GET {PODS}?")]
            assert all(
                "labelSelector=app%3Doperator" in head or "labelSelector=app=operator" in head for head in watches
            )
            return [seen.url for seen in harness.records(TargetSeen)]

    assert len(asyncio.run(run())) == 4


def test_pods_that_flap_ten_times_a_second_leave_nothing_behind(tmp_path: Path) -> None:
    async def run() -> None:
        async with api() as cluster, serving() as metrics:
            metrics.replies["/metrics"] = reply("a 1\n")
            async with scraping(tmp_path, pods_target(metrics.port), interval=TICK, access=cluster.access) as harness:
                harness.scrapers.run()
                await until(cluster.watched)
                for number in range(50):
                    cluster.tell("ADDED", pod("flaps", f"life-{number}"))
                    await asyncio.sleep(0)
                    cluster.tell("DELETED", pod("flaps", f"life-{number}"))
                cluster.tell("ADDED", pod("flaps", "stays"))
                await until(lambda: harness.scrapes("pods/flaps"))
                assert list(harness.scrapers._targets) == ["pods/flaps"]
            assert not harness.records(SourceFailed)

    asyncio.run(run())


def test_a_pod_is_read_through_the_api_server_with_the_recorders_own_token(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with api() as cluster:
            path = "/api/v1/namespaces/ns/pods/it:8080/proxy/metrics"
            cluster.endpoint.replies[path] = reply("a 1\n")
            cluster.tell("ADDED", pod("it"))
            access = msgspec.structs.replace(cluster.access, token="recorders-own")
            async with scraping(tmp_path, pods_target(8080, via="proxy"), access=access) as harness:
                await until(lambda: harness.scrapers._targets)
                await harness.scrapers.edge("start:p")
                refusal = {"kind": "Status", "message": 'pods "it" is forbidden', "reason": "Forbidden", "code": 403}
                cluster.endpoint.replies[path] = reply(json.dumps(refusal), status="403 Forbidden")
                await harness.scrapers.edge("end:p")
            assert [scrape.target for scrape in harness.records(Scraped)] == ["pods/it"]
            assert [failed.message.split(";")[0] for failed in harness.records(SourceFailed)] == [
                f'{cluster.access.server}{path}: GET {path}: pods "it" is forbidden'
            ]
            return [head for head in cluster.endpoint.heads if head.startswith(f"GET {path} ")]

    assert all("Authorization: Bearer recorders-own" in head for head in asyncio.run(run()))


def test_a_service_is_followed_to_its_address(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    def service(ip: str, port: int) -> dict[str, Any]:
        metadata = {"name": "operator", "namespace": "ns", "uid": "s", "resourceVersion": "8"}
        return {"metadata": metadata, "spec": {"clusterIP": ip, "ports": [{"name": "metrics", "port": port}]}}

    place = OfService(namespace="ns", service="operator", port="metrics", via="ip")

    async def run() -> list[str]:
        async with api() as cluster, serving() as first, serving() as second:
            first.replies["/metrics"] = second.replies["/metrics"] = reply("a 1\n")
            target = ScrapeTarget(name="operator", place=place)
            async with scraping(tmp_path, target, interval=TICK, access=cluster.access) as harness:
                harness.scrapers.run()
                await until(lambda: any("no Service" in failed.message for failed in harness.records(SourceFailed)))
                cluster.tell("ADDED", service("127.0.0.1", first.port), SERVICES)
                await first.until_asked("/metrics")
                cluster.tell("MODIFIED", service("127.0.0.1", second.port), SERVICES)
                await second.until_asked("/metrics")
                cluster.tell("MODIFIED", service("None", second.port), SERVICES)
                await until(lambda: "no address of its own" in harness.records(SourceFailed)[-1].message)
                cluster.tell("DELETED", service("None", second.port), SERVICES)
                await until(lambda: "is gone" in harness.records(SourceFailed)[-1].message)
            return [failed.message for failed in harness.records(SourceFailed)]

    (absent,) = {message for message in asyncio.run(run()) if "no Service" in message}
    assert "ns/operator" in absent
    assert absent == snapshot


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"clusterIP": "10.0.0.9"}, "http://10.0.0.9:80/metrics"),
        ({"clusterIP": "fd00::9"}, "http://[fd00::9]:80/metrics"),
        ({"externalName": "metrics.example.com"}, "http://metrics.example.com:80/metrics"),
        ({"clusterIP": "None"}, "its Service has no address of its own; read it through the API server's proxy"),
        ({"clusterIP": "10.0.0.9", "ports": [{"port": 81}]}, "its Service has no port 'metrics'"),
    ],
)
def test_addresses_of_services(spec: dict[str, Any], expected: str) -> None:
    written = {"metadata": {}, "spec": {"ports": [{"name": "metrics", "port": 80}], **spec}}
    place = OfService(namespace="ns", service="operator", port="metrics", via="ip")
    where, why = service_address(msgspec.convert(written, ServiceObject), place)
    assert (where.url if where is not None else why) == expected


def test_a_refused_watch_is_reported_once_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_objects, "_REFUSED_S", 0.01)

    async def run() -> None:
        async with api() as cluster:
            refusal = {"kind": "Status", "message": "may not watch pods", "reason": "Forbidden", "code": 403}
            watch = cluster.endpoint.replies[PODS]
            cluster.endpoint.replies[PODS] = reply(json.dumps(refusal), status="403 Forbidden")
            async with scraping(tmp_path, pods_target(1), access=cluster.access) as harness:
                await until(lambda: len(cluster.endpoint.asked) >= 5)
                cluster.endpoint.replies[PODS] = watch
                cluster.tell("ADDED", pod("it"))
                await until(lambda: harness.scrapers._targets)
            (failed,) = harness.records(SourceFailed)
            assert failed.source == "scrape:pods"
            assert "may not watch pods" in failed.message

    asyncio.run(run())
