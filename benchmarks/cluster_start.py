"""Start time of a cluster with 100 Ready nodes, relative to that of its API server."""

from __future__ import annotations

import statistics

from pytest_grovescale.cluster import handle
from pytest_grovescale.cluster.definition import load_definition

from .rows import Row, at_most, reported

REPEATS = 5
NODES = 100
BOUND = 1.5


def measure() -> list[Row]:
    """Start and stop a cluster ``REPEATS`` times; the first counts too, its files are warm after ``setup``."""
    definition = load_definition("default").with_nodes(NODES)
    ratios, seconds = [], []
    for _ in range(REPEATS):
        cluster = handle.acquire(definition, progress=lambda text: None)
        cluster.release()
        ready = float(cluster.facts["nodes_ready_s"])
        ratios.append(ready / float(cluster.facts["api_server_ready_s"]))
        seconds.append(ready)
    how = f"median of {REPEATS} starts, {NODES} nodes Ready against the API server's /readyz in the same start"
    return [
        at_most("cluster_start_ratio", statistics.median(ratios), "×", BOUND, spread=ratios, how=how),
        reported("cluster_start_s", statistics.median(seconds), "s", spread=seconds),
    ]
