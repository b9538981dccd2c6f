"""Further scrape targets found through the API server, as addresses for the test's Prometheus, without watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..cluster import state
from ..cluster.handle import Cluster
from ..endpoints import Address, addressed
from ..kube import access_files
from ..kube.errors import NotFound, ServerUnavailable
from ..kube.portal import Portal
from ..operator.following import Followed
from ..recording.followed_pods import PODS
from ..recording.scraping.connections import Where
from ..recording.scraping.objects import SERVICES, ServiceObject, pod_where, service_address, service_where
from ..recording.scraping.places import url_where
from ..recording.scraping.targets import AtUrl, OfPods, OfService, ScrapeTarget


class FoundTargets:
    """The current endpoints of a run's further targets, by name; one of several pods is ``<name>/<pod>``.

    While the API server does not answer, the last addresses are used. When it required fresh credentials, their files
    are rewritten.
    """

    def __init__(self, cluster: Cluster, portal: Portal, wanted: Sequence[ScrapeTarget]) -> None:
        self._access = cluster.access_as("harness")
        self._files = state.access_files(cluster.directory)
        access_files.write(self._access, self._files)
        self._server = self._access.server.rstrip("/")
        self._portal = portal
        self._client = portal.client(self._access)
        self._wanted = wanted
        self._told: dict[str, Address] = {}

    def __call__(self) -> Mapping[str, Address]:
        """Return the addresses. Raises ApiError for a 4xx/5xx answer of the API server."""
        try:
            found = self._portal.run(self._look())
        except ServerUnavailable:
            return self._told
        if self._client.access is not self._access:
            self._access = self._client.access
            access_files.write(self._access, self._files)
        self._told = {name: self._address(where) for name, where in found.items()}
        return self._told

    async def _look(self) -> dict[str, Where]:
        found: dict[str, Where] = {}
        for target in self._wanted:
            match target.place:
                case AtUrl() as place:
                    found[target.name] = url_where(place, self._server)
                case OfPods() as place:
                    found |= {f"{target.name}/{pod}": where for pod, where in (await self._pods(place)).items()}
                case OfService(via="proxy") as place:
                    found[target.name] = service_where(place, self._server)
                case OfService() as place:
                    where = await self._service(place)
                    found |= {target.name: where} if where is not None else {}
        return found

    async def _pods(self, place: OfPods) -> dict[str, Where]:
        listed = await self._client.list(PODS, place.namespace, label_selector=place.label_selector)
        pods = [msgspec.convert(item, Followed) for item in listed.items]
        places = {pod.metadata.name: pod_where(pod, place, self._server) for pod in pods}
        return {name: where for name, where in places.items() if where is not None}

    async def _service(self, place: OfService) -> Where | None:
        try:
            found = await self._client.get(SERVICES, place.service, place.namespace)
        except NotFound:
            return None
        return service_address(msgspec.convert(found, ServiceObject), place)[0]

    def _address(self, where: Where) -> Address:
        if where.credentials is None:
            return access_files.address(self._access, self._files, where.url.removeprefix(self._server))
        if isinstance(where.credentials, Address):
            return where.credentials
        return addressed(where.url, where.credentials)
