"""Targets behind the Kubernetes API: Services, and pods as they appear and disappear; followed by watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ...kube import api_proxy
from ...kube.client import Client
from ...kube.resources import Resource
from ...operator.following import Change, Followed
from ..followed_pods import PODS
from ..following import Following
from ..ledger import Ledger
from .connections import Where
from .places import Absent, Finder, Fixed, InOnePlace
from .targets import OfFollowed, OfPods, OfService

SERVICES = Resource(group="", version="v1", plural="services", kind="Service", namespaced=True)


class _Port(msgspec.Struct, frozen=True):
    port: int
    name: str = ""


class _ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""
    ports: list[_Port] = []


class ServiceObject(Followed, frozen=True):
    spec: _ServiceSpec = _ServiceSpec()


class Pods:
    """Follows the pods of a target; calls ``found`` and ``lost`` when one can be scraped, or no longer.

    A pod can be scraped once it runs and has an address, until it is deleted or has ended.
    """

    def __init__(
        self,
        name: str,
        place: OfPods,
        *,
        client: Client,
        server: str,
        ledger: Ledger,
        found: Callable[[str, Finder], None],
        lost: Callable[[str], None],
    ) -> None:
        self.name = name
        self._place = place
        self._client = client
        self._server = server
        self._ledger = ledger
        self._found = found
        self._lost = lost
        self._scraped: dict[str, tuple[str, Where]] = {}
        """Pod → uid and location."""

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        follows = Following(self._client, self._ledger, f"scrape:{self.name}")
        await follows.run(
            PODS, self._place.namespace, self.take, label_selector=self._place.label_selector, shape=Followed
        )

    def take(self, change: Change) -> None:
        """Process one change of the collection."""
        pod = change.object
        if pod is None:
            return
        name, uid = pod.metadata.name, pod.metadata.uid
        where = pod_where(pod, self._place, self._server) if change.kind == "present" else None
        known = self._scraped.get(name)
        if where is not None and known != (uid, where):
            if known is not None and known[0] != uid:
                # Another pod of the same name: its counters start fresh.
                self._lost(self.target(name))
            self._scraped[name] = uid, where
            self._found(self.target(name), Fixed(where))
        elif where is None and known is not None and known[0] == uid:
            del self._scraped[name]
            self._lost(self.target(name))

    def target(self, pod: str) -> str:
        """Return the name of a pod's target."""
        return f"{self.name}/{pod}"

    def all_lost(self) -> None:
        """Report all pods as lost."""
        for name in list(self._scraped):
            self._lost(self.target(name))
        self._scraped.clear()


class ServiceAddress(InOnePlace):
    """A Service's own address, as last reported by the API."""

    def __init__(self, place: OfService) -> None:
        self._place = place
        self._where: Where | None = None
        self._why = f"the Service {place.namespace}/{place.service} is not known yet"

    async def follow(self, client: Client, ledger: Ledger, name: str) -> None:
        """Follow the Service until cancelled."""
        follows = Following(client, ledger, f"scrape:{name}")
        selector = f"metadata.name={self._place.service}"
        await follows.run(SERVICES, self._place.namespace, self.take, field_selector=selector, shape=ServiceObject)

    def take(self, change: Change) -> None:
        """Process one change of the Service."""
        found = change.object
        if change.kind == "live" and not change.present:
            self._where, self._why = None, f"there is no Service {self._place.namespace}/{self._place.service}"
        elif change.kind == "gone":
            self._where, self._why = None, "its Service is gone"
        elif isinstance(found, ServiceObject):
            self._where, self._why = service_address(found, self._place)

    async def now(self) -> Where:
        if self._where is None:
            raise ConnectionError(self._why)
        return self._where


def service_address(service: ServiceObject, place: OfService) -> tuple[Where | None, str]:
    """Return the Service's own address, or why it cannot be reached."""
    host = service.spec.external_name if service.spec.cluster_ip in ("", "None") else _host(service.spec.cluster_ip)
    if not host:
        return None, "its Service has no address of its own; read it through the API server's proxy"
    port = next((port.port for port in service.spec.ports if place.port in (port.port, port.name)), None)
    if port is None:
        return None, f"its Service has no port {place.port!r}"
    return Where(f"{place.scheme}://{host}:{port}{place.path}", place.credentials), ""


class AtLeader(InOnePlace):
    """The current leader of the followed pods; `PodFollowers` journals the pods' events."""

    def __init__(self, place: OfFollowed, leader: Callable[[str], Followed | None], server: str) -> None:
        self._place = place
        self._leader = leader
        self._server = server
        self._asked: Where | None = None

    async def now(self) -> Where:
        self._asked = self._where()
        if self._asked is None:
            raise Absent(f"no pod of {self._place.pods} leads")
        return self._asked

    async def failed(self) -> bool:
        # It is no longer the leader: that is journaled, and the next scrape uses the new one.
        return self._where() != self._asked

    def _where(self) -> Where | None:
        pod = self._leader(self._place.pods)
        return None if pod is None else pod_where(pod, self._place, self._server)


def pod_where(pod: Followed, place: OfPods | OfFollowed, server: str) -> Where | None:
    """Return where a pod's metrics are; None when it cannot be scraped (not running, no address, terminating)."""
    status = pod.status if isinstance(pod.status, dict) else {}
    ip = status.get("podIP")
    if status.get("phase") != "Running" or not ip or pod.metadata.deletion_timestamp:
        return None
    if place.via == "ip":
        return Where(f"{place.scheme}://{_host(str(ip))}:{place.port}{place.path}", place.credentials)
    return Where(f"{server}{_proxied('pods', place, pod.metadata.name, pod.metadata.namespace)}", None)


def service_where(place: OfService, server: str) -> Where:
    """Return where a Service's metrics are, read through the API server."""
    return Where(f"{server}{_proxied('services', place, place.service, place.namespace)}", None)


def _proxied(
    plural: Literal["pods", "services"], place: OfPods | OfFollowed | OfService, name: str, namespace: str
) -> str:
    return api_proxy.path(plural, namespace, name, place.port, scheme=place.scheme, path=place.path)


def _host(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip
