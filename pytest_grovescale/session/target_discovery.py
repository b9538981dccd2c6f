"""Scrape and profile targets of a test's cluster and operator: for its recorder, and for its Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from .. import durations
from ..cluster import state
from ..cluster.handle import Cluster
from ..endpoints import Address, addressed
from ..kube import access
from ..kube.errors import NotFound, ServerUnavailable
from ..kube.informer import Followed
from ..kube.portal import Portal
from ..operator.handle import Operator
from ..operator.pods.operator import OperatorPods
from ..operator.schema import Served
from ..prometheus.opening import Target
from ..recording.followed_objects import PODS
from ..recording.profiling.captures import plan
from ..recording.protocol import PodsToFollow, Profiler
from ..recording.recorder import ProfileTarget, Recorder, ScrapeTarget
from ..recording.scrape_targets import AtUrl, OfFollowed, OfPods, OfProcess, OfService
from ..recording.scraping import locators
from ..recording.scraping.connections import Where


def operator_target(operator: Operator, interval_s: float | None) -> ScrapeTarget | None:
    """Return the operator's scrape target; None without metrics. The run's interval overrides its definition's."""
    place = locators.place_of(operator)
    if place is None:
        return None
    return ScrapeTarget(
        name=operator.process,
        place=place,
        interval_s=operator.scrape_interval_s if interval_s is None else interval_s,
    )


def follow_operator(operator: Operator, recorder: Recorder, interval_s: float | None) -> None:
    """Make the recorder scrape the operator and, if it runs as pods, follow them across restarts and leader changes."""
    if isinstance(operator, OperatorPods):
        namespace, _, lease = operator.lease.rpartition("/")
        recorder.follow_pods(
            PodsToFollow(
                name=operator.process,
                namespace=operator.deployment.namespace,
                label_selector=operator.deployment.selector,
                lease=lease,
                lease_namespace=namespace,
            )
        )
        recorder.measure_file(operator.processes_file)
        if (replicas := _replicas_target(operator)) is not None:
            recorder.add_target(replicas)
    if (target := operator_target(operator, interval_s)) is not None:
        recorder.add_target(target)
    for further in further_targets(operator, interval_s):
        recorder.add_target(further)


def further_targets(operator: Operator, interval_s: float | None) -> list[ScrapeTarget]:
    """Return the further scrape targets of its definition. The run's interval overrides the definition's."""
    return [
        ScrapeTarget(
            name=target.name,
            place=locators.place_of_further(operator, target),
            interval_s=durations.seconds(target.interval)
            if interval_s is None and target.interval is not None
            else interval_s,
        )
        for target in operator.definition.targets
    ]


def _replicas_target(operator: OperatorPods) -> ScrapeTarget | None:
    """Return all replicas as targets of their own, at phase edges, where only that shows each one's resources."""
    leader = locators.place_of(operator)
    if not isinstance(leader, OfFollowed) or operator.deployment.replicas < 2 or operator.info() is not None:
        return None
    place = OfPods(
        namespace=operator.deployment.namespace,
        label_selector=operator.deployment.selector,
        port=leader.port,
        path=leader.path,
        scheme=leader.scheme,
        via=leader.via,
        credentials=leader.credentials,
    )
    return ScrapeTarget(name="replica", place=place, interval_s=0)


def component_targets(cluster: Cluster, interval_s: float | None) -> list[ScrapeTarget]:
    """Return the scrape targets of the control plane's components, as far as the cluster knows their endpoints."""
    return [
        ScrapeTarget(name=name, place=_component(cluster, name, address), interval_s=interval_s)
        for name, address in cluster.metrics.items()
    ]


def _component(cluster: Cluster, name: str, address: Address) -> OfProcess | AtUrl:
    """Return a component's scrape target.

    For the API server of an existing cluster, the recorder's own client, which knows the way there and renews its
    credentials.
    """
    if cluster.others_use_it and address.url.startswith(f"{cluster.server}/"):
        return AtUrl(address=Address(url=address.url))
    return OfProcess(process=name, address=address)


def profile_target(operator: Operator | None, wanted: Profiler) -> ProfileTarget | str:
    """Return how to profile the operator, or why that is impossible.

    The run's ``pyspy`` or ``pprof`` overrides the definition's profiler.
    """
    if operator is None:
        return "the test runs without an operator"
    profiler = wanted if wanted in ("pyspy", "pprof") else operator.definition.profiler
    info = operator.info()
    pid = info.pid if info else None
    if isinstance(operator, OperatorPods) and pid is None and profiler == "pyspy":
        return (
            f"the pods of {operator.name} do not run on this host, and py-spy looks into nothing else: profile them on "
            "kind, or let them serve pprof"
        )
    pprof, stacks = (
        locators.followed(operator, served) if isinstance(served, Served) else served
        for served in (operator.pprof, operator.stacks)
    )
    return plan(profiler, process=operator.process, pid=pid, pprof=pprof, stacks=stacks)


def found_for_prometheus(cluster: Cluster, operator: Operator | None, portal: Portal) -> FoundTargets | None:
    """Return the source of further targets' addresses, and of an operator behind a Service; None without."""
    if operator is None:
        return None
    own = operator_target(operator, None)
    wanted = further_targets(operator, None)
    if own is not None and isinstance(own.place, OfService):
        wanted = [own, *wanted]
    return FoundTargets(cluster, portal, wanted) if wanted else None


def for_prometheus(cluster: Cluster, operator: Operator | None, *, components: bool) -> dict[str, Target]:
    """Return the recorder's targets in Prometheus' form."""
    found = {}
    if operator is not None and not isinstance(operator, OperatorPods) and isinstance(operator.metrics, Address):

        def pid() -> int | None:
            info = operator.info()
            return info.pid if info is not None and info.running else None

        found[operator.process] = Target(address=operator.metrics, pid=pid)
    if isinstance(operator, OperatorPods) and (served := operator.metrics) is not None:

        def now() -> Address | None:
            return operator.address(served)

        if (address := now()) is not None:
            found[operator.process] = Target(address=address, now=now, renew=_renewal(cluster, address))
    if components:
        found |= {
            name: Target(address=address, renew=_renewal(cluster, address)) for name, address in cluster.metrics.items()
        }
    return found


def _renewal(cluster: Cluster, address: Address) -> Callable[[], None] | None:
    """Return a function that renews the credential files of an API server's address; None for other addresses."""
    if not address.url.startswith(f"{cluster.server}/"):
        return None
    return access.renewal(cluster.access, state.access_files(cluster.directory))


class FoundTargets:
    """The current endpoints of a run's further targets, by name; one of several pods is ``<name>/<pod>``.

    While the API server does not answer, the last addresses are used. When it required fresh credentials, their files
    are rewritten.
    """

    def __init__(self, cluster: Cluster, portal: Portal, wanted: Sequence[ScrapeTarget]) -> None:
        self._access = cluster.access_as("harness")
        self._files = state.access_files(cluster.directory)
        access.write_files(self._access, self._files)
        self._server = self._access.server.rstrip("/")
        self._portal = portal
        self._client = portal.client(self._access)
        self._wanted = wanted
        self._last: dict[str, Address] = {}

    def __call__(self) -> Mapping[str, Address]:
        """Return the addresses. Raises ApiError for a 4xx/5xx answer of the API server."""
        try:
            found = self._portal.run(self._look())
        except ServerUnavailable:
            return self._last
        if self._client.access is not self._access:
            self._access = self._client.access
            access.write_files(self._access, self._files)
        self._last = {name: self._address(where) for name, where in found.items()}
        return self._last

    async def _look(self) -> dict[str, Where]:
        found: dict[str, Where] = {}
        for target in self._wanted:
            match target.place:
                case AtUrl() as place:
                    found[target.name] = locators.url_where(place, self._server)
                case OfPods() as place:
                    found |= {f"{target.name}/{pod}": where for pod, where in (await self._pods(place)).items()}
                case OfService(via="proxy") as place:
                    found[target.name] = locators.service_where(place, self._server)
                case OfService() as place:
                    where = await self._service(place)
                    found |= {target.name: where} if where is not None else {}
        return found

    async def _pods(self, place: OfPods) -> dict[str, Where]:
        listed = await self._client.list(PODS, place.namespace, label_selector=place.label_selector)
        pods = [msgspec.convert(item, Followed) for item in listed.items]
        places = {pod.metadata.name: locators.pod_where(pod, place, self._server) for pod in pods}
        return {name: where for name, where in places.items() if where is not None}

    async def _service(self, place: OfService) -> Where | None:
        try:
            found = await self._client.get(locators.SERVICES, place.service, place.namespace)
        except NotFound:
            return None
        return locators.service_address(msgspec.convert(found, locators.ServiceObject), place)[0]

    def _address(self, where: Where) -> Address:
        if where.credentials is None:
            return access.address_by_files(self._access, self._files, where.url.removeprefix(self._server))
        if isinstance(where.credentials, Address):
            return where.credentials
        return addressed(where.url, where.credentials)
