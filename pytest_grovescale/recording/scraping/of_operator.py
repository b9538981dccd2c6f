"""The metrics endpoint of the operator under test, as a target: a process of this host, or its pods."""

from __future__ import annotations

from ...endpoints import Credentials, addressed
from ...operator.handle import Operator
from ...operator.placeholders import fill
from ...operator.pods.operator import OperatorPods
from ...operator.shape import FurtherTarget, InCluster, Served, Service
from .targets import AnyPlace, AtUrl, OfFollowed, OfPods, OfProcess, OfService


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
    in_pods = isinstance(operator, OperatorPods)
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
    assert isinstance(operator, OperatorPods)  # no others have such endpoints
    return OfFollowed(
        pods=operator.process,
        port=served.number,
        path=served.path,
        scheme=served.scheme,
        via="ip" if served.via == "ip" else "proxy",
        credentials=operator.credentials(served),
    )
