"""Whether all pods of a run were put on simulated nodes, on a cluster that has other nodes as well.

A pod on a real node is started for real: it pulls an image, uses the machine's memory and becomes ready at any time.
"""

from __future__ import annotations

from ..errors import NotMeasuredError
from .check import Check, Outcome, at_most
from .run import Run

REMEDY = "Let its template ask for simulated nodes: their labels in nodeSelector or nodeAffinity, and their taint."


class SimulatedNodesOnly(Check, tag="simulated_nodes_only", frozen=True, kw_only=True):
    """Whether all pods of the run were put on simulated nodes, on a cluster that has other nodes as well.

    Every run on such a cluster has this check. On a cluster without other nodes there is nothing to judge.
    """

    failure_stands = True

    def judge(self, run: Run) -> Outcome:
        places = run.test.pod_places
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
