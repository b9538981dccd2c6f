"""The built-in check of a run on a cluster with other nodes beside the simulated ones: its pods avoid them."""

from __future__ import annotations

from ..checks import SimulatedNodesOnly
from ..checks.budgets import Declared
from ..cluster.handle import Cluster
from ..recording.conditions import WatchSpec
from ..recording.recorder import Recorder

SOURCE = "cluster"
"""Source of the check, as reports name it."""


def held_to_simulated_nodes(cluster: Cluster, recorder: Recorder, namespace: str) -> tuple[Declared, ...]:
    """Record the placement of a namespace's pods, and return the check that judges it.

    Empty where all nodes are simulated.
    """
    if not cluster.pools:
        return ()
    path = f"/api/v1/namespaces/{namespace}/pods"
    recorder.also_watch([WatchSpec(resource="pods", path=path, fields=("spec.nodeName",))])
    return (Declared(SimulatedNodesOnly(), SOURCE),)
