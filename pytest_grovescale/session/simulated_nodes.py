"""What a run is held to by itself on a cluster with nodes beside the simulated ones: that its pods stay off them."""

from __future__ import annotations

from ..checks import SimulatedNodesOnly
from ..checks.budgets import Declared
from ..cluster.handle import Cluster
from ..recording.conditions import WatchSpec
from ..recording.recorder import Recorder

SOURCE = "cluster"
"""Who asks for the check, as reports name it."""


def held_to_simulated_nodes(cluster: Cluster, recorder: Recorder, namespace: str) -> tuple[Declared, ...]:
    """Let the recorder see where the pods of a namespace are put, and return the check that judges it.

    Nothing where all nodes are simulated.
    """
    if not cluster.pools:
        return ()
    path = f"/api/v1/namespaces/{namespace}/pods"
    recorder.also_watch([WatchSpec(resource="pods", path=path, fields=("spec.nodeName",))])
    return (Declared(SimulatedNodesOnly(), SOURCE),)
