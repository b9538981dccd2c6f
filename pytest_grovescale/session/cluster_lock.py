"""A test's lock on its cluster, where other sessions use that, too; local tests use the machine lock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ..cluster import lease_lock
from ..cluster.handle import Cluster
from ..kube.client import Client
from ..kube.portal import Portal

Lost = Callable[[], str]
"""Returns why a test lost its lock; an empty text if it did not."""


def never_lost() -> str:
    """Return an empty text, for a cluster without other users."""
    return ""


@contextlib.contextmanager
def locked(
    cluster: Cluster, portal: Callable[[], Portal], *, alone: bool, operator: bool, say: lease_lock.Say
) -> Iterator[Lost]:
    """Hold a test's lock on its cluster for the length of the block.

    ``alone``: the test measures; ``operator``: it uses one of this machine's. Raises ClusterError, ApiError.
    """
    if not cluster.others_use_it:
        yield never_lost
        return
    loop = portal()
    client = Client(cluster.access_as("harness"), user_agent="grovescale-turns", connections=2)
    loop.run(client.open())
    turn = lease_lock.SharedTurn(client, lease_lock.claim(alone=alone, operator=operator, cluster=cluster.name))
    try:
        loop.run(turn.take(say))
        yield lambda: loop.run(turn.lost())
    finally:
        loop.run(turn.give_back(say))
        loop.run(client.close())
