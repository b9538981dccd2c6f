"""Whether all pods of a run were put on simulated nodes, on a cluster that has other nodes as well.

A pod on a real node is started for real: it pulls an image, takes a machine's memory and becomes ready when it likes.
"""

from __future__ import annotations

from ..analysis.result import TestResult
from ..errors import NotMeasuredError
from .finding import Finding, at_most

REMEDY = "Let its template ask for simulated nodes: their labels in nodeSelector or nodeAffinity, and their taint."


def judge(test: TestResult) -> Finding:
    """Judge where the run's pods were put. Raises NotMeasuredError where nothing tells."""
    places = test.pod_places
    if places is None:
        raise NotMeasuredError(
            "where pods were put was not watched, or the cluster has no nodes but simulated ones",
            next_step="The recorder watches it by itself on a cluster with other nodes, from the first phase on.",
        )
    strays = [f"{stray.pod} on {stray.node}" for stray in places.strays]
    return at_most(
        "",
        f"pods on nodes that are not simulated, of {places.simulated + places.elsewhere:,}",
        places.elsewhere,
        0,
        evidence=[*strays, REMEDY] if strays else [],
    )
