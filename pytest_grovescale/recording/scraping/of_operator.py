"""Where the operator under test serves its metrics, as a target: a process of this host, or its pods."""

from __future__ import annotations

from ...operator.handle import Operator
from ...operator.pods.operator import OperatorPods
from ...operator.shape import Served
from .targets import AtUrl, OfFollowed, OfProcess


def place_of(operator: Operator) -> OfProcess | OfFollowed | AtUrl | None:
    """Return where the operator's metrics are; None where it serves none.

    Of pods it is the one that leads, among those that the recorder follows under the operator's name.
    """
    metrics = operator.metrics
    if isinstance(metrics, Served):
        return followed(operator, metrics)
    if metrics is None:
        return None
    # A port of this host that leads to pods is nobody's of this host, and never moves.
    in_pods = isinstance(operator, OperatorPods)
    return AtUrl(address=metrics) if in_pods else OfProcess(process=operator.process, address=metrics)


def followed(operator: Operator, served: Served) -> OfFollowed:
    """Return where something is that the operator's pods serve."""
    assert isinstance(operator, OperatorPods)  # no others have such endpoints
    return OfFollowed(
        pods=operator.process,
        port=served.number,
        path=served.path,
        scheme=served.scheme,
        via="ip" if served.via == "ip" else "proxy",
        credentials=operator.credentials(served),
    )
