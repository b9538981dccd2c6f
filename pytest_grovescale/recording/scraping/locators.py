"""Where a scrape target is right now: an address, a process of this host, a pod or a Service of the cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from ...endpoints import Credentials, addressed, port_of, with_port
from ...kube import subresources
from ...kube.client import Client
from ...kube.informer import Change, Followed
from ...kube.resources import Resource
from ...operator.placeholders import fill
from ...operator.schema import FurtherTarget, InCluster, Served, Service
from ...procfs import Identity, descendants, ports_of
from ..followed_objects import PODS, Following
from ..record_writer import Ledger
from ..scrape_targets import AnyPlace, AtUrl, OfFollowed, OfPods, OfProcess, OfService
from .connections import Where

if TYPE_CHECKING:
    # The recorder locates endpoints, too, but starts no operators: it does without all that this needs.
    from ...operator.handle import Operator

STARTING_S = 60.0
"""How long after it was first seen a process without any response counts as starting, s."""

_END_SEEN_S = 0.05
_MOST_PORTS = 16


class Absent(Exception):
    """There is nothing to scrape now, and another record explains why."""


class Finder(Protocol):
    """Resolves the location of one target."""

    async def now(self) -> Where:
        """Return the expected location. Raises Absent when there is none."""

    async def elsewhere(self) -> Sequence[Where]:
        """Return alternative locations, when nothing listens at the expected one."""

    def answered(self, where: Where) -> None:
        """Note a response from a location."""

    async def failed(self) -> bool:
        """Note a failure; return whether it is expected: the process has just started, or has ended."""


class InOnePlace(Finder):
    """A target with a single location, whose failures are always reported."""

    async def elsewhere(self) -> Sequence[Where]:
        return ()

    def answered(self, where: Where) -> None:
        pass

    async def failed(self) -> bool:
        return False


class Fixed(InOnePlace):
    """A target at a fixed location."""

    def __init__(self, where: Where) -> None:
        self._where = where

    async def now(self) -> Where:
        return self._where


class AtProcess:
    """A target served by a process: at the port in its definition, or at another port that this process listens on."""

    def __init__(self, place: OfProcess, process: Callable[[str], Identity | None]) -> None:
        self._place = place
        self._process = process
        self._first = Where(place.address.url, place.address)
        self._where = self._first
        self._life: Identity | None = None
        self._seen_at = 0.0
        self._sure = False
        """Whether this process has answered and not failed since: no other process can have taken its port."""
        self._has_answered = False

    async def now(self) -> Where:
        life = self._process(self._place.process)
        if life is None and self._life is not None:
            raise Absent("its process does not run")
        if life != self._life:
            self._life, self._seen_at, self._where = life, time.monotonic(), self._first
            self._sure = self._has_answered = False
        if life is not None and not self._sure:
            ports = await self._ports()
            if ports and port_of(self._where.url) not in ports:
                raise ConnectionRefusedError(
                    f"{self._place.process} does not listen on port {port_of(self._where.url)}"
                )
        return self._where

    async def elsewhere(self) -> Sequence[Where]:
        ports = await self._ports() if self._life is not None else set()
        found = [self._first.url, *(with_port(self._first.url, port) for port in sorted(ports)[:_MOST_PORTS])]
        return [Where(url, self._place.address) for url in dict.fromkeys(found) if url != self._where.url]

    def answered(self, where: Where) -> None:
        self._where = where
        self._sure = self._has_answered = True

    async def failed(self) -> bool:
        self._sure = False
        if self._life is None:
            return False
        starting = not self._has_answered and time.monotonic() - self._seen_at < STARTING_S
        # Its connections break shortly before its exit is seen.
        await asyncio.sleep(_END_SEEN_S)
        return starting or self._process(self._place.process) != self._life

    async def _ports(self) -> set[int]:
        assert self._life is not None  # callers look
        return await asyncio.to_thread(_ports_of, self._life.pid)


def url_where(place: AtUrl, server: str) -> Where:
    """Return where a URL is read; one of the API server's own with the recorder's access, unless it has credentials."""
    address = place.address
    own_way = address.token_file or address.cert_file or not address.url.startswith(f"{server}/")
    return Where(address.url, address if own_way else None)


def _ports_of(pid: int) -> set[int]:
    return ports_of([pid, *descendants(pid)])


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
    return subresources.path(plural, namespace, name, place.port, scheme=place.scheme, path=place.path)


def _host(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def place_of(operator: Operator) -> AnyPlace | None:
    """Return where the operator's metrics are; None where it serves none.

    For pods: the leader among those that the recorder follows under the operator's name; behind a Service: whichever
    pod that selects.
    """
    metrics, written = operator.metrics, operator.definition.own_metrics
    if written is not None and written.service is not None:
        return _of_service(operator, written.service, operator.credentials(written))
    if isinstance(metrics, Served):
        return followed(operator, metrics)
    if metrics is None:
        return None
    # A forwarded port of this host belongs to no process of this host, and never moves.
    in_pods = operator.definition.pod is not None
    return AtUrl(address=metrics) if in_pods else OfProcess(process=operator.process, address=metrics)


def place_of_further(operator: Operator, target: FurtherTarget) -> AnyPlace:
    """Return the location of a further endpoint in the operator's definition."""
    credentials = operator.credentials(target)
    if target.service is not None:
        return _of_service(operator, target.service, credentials)
    if target.pods is not None:
        pods = target.pods
        return OfPods(
            namespace=_namespace(operator, pods),
            label_selector=fill(pods.selector, operator.values),
            port=pods.port,
            path=pods.path,
            scheme=pods.scheme,
            via=pods.via,
            credentials=credentials,
        )
    return AtUrl(address=addressed(fill(target.url, operator.values), credentials))


def _of_service(operator: Operator, service: Service, credentials: Credentials) -> OfService:
    return OfService(
        namespace=_namespace(operator, service),
        service=fill(service.name, operator.values),
        port=service.port,
        path=service.path,
        scheme=service.scheme,
        via=service.via,
        credentials=credentials,
    )


def _namespace(operator: Operator, place: InCluster) -> str:
    return fill(place.namespace, operator.values) or operator.definition.identity.namespace


def followed(operator: Operator, served: Served) -> OfFollowed:
    """Return the location of an endpoint that the operator's pods serve."""
    assert operator.definition.pod is not None  # no others have such endpoints
    return OfFollowed(
        pods=operator.process,
        port=served.number,
        path=served.path,
        scheme=served.scheme,
        via="ip" if served.via == "ip" else "proxy",
        credentials=operator.credentials(served),
    )
