"""The cluster of a session's tests: joined or started on request, and left when a test needs another one.

With xdist the workers share one by its name: the first that needs it starts it, the others join, and it ends with the
last of their leases. Or each worker has its own. Where other sessions use a cluster, too, a test locks it; local tests
use the machine lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..cluster import handle, launch, state
from ..cluster.backend import backend
from ..cluster.definition import ClusterDefinition, load_definition
from ..cluster.handle import Cluster
from ..errors import UsageError
from ..operator.pods.definition import refuse_rivals, refuse_where_none_run
from ..operator.schema import OperatorDefinition
from ..options import Settings
from ..resources import Folders
from .test_config import ItemConfig

if TYPE_CHECKING:
    from ..kube.portal import Portal

Say = Callable[[str], None]

_DIGITS = 6


class Clusters:
    """The session's cluster: at most one at a time, that of the last test."""

    def __init__(self, settings: Settings, *, run_id: str, worker: str, say: Say) -> None:
        self._settings = settings
        self._run_id = run_id
        self._worker = worker
        self._say = say
        self._current: tuple[str, Cluster] | None = None

    def current(self, wanted: ItemConfig) -> Cluster | None:
        """Return the current cluster, if it is the one that a test needs."""
        if self._current is not None and self._current[0] == wanted.cluster_key:
            return self._current[1]
        return None

    def find(self, wanted: ItemConfig, operator: OperatorDefinition | None, *, base: Folders) -> Cluster:
        """Join or start the cluster that a test needs; the current one must be left before.

        ``base``: folders in which its file is looked for. ``operator``: the operator that is to run there; one that
        cannot is rejected before anything starts. Raises ClusterError, BinaryError, DefinitionError, UsageError.
        """
        definition = planned(wanted, operator, base=base, settings=self._settings, worker=bool(self._worker))
        if definition is None:
            cluster = handle.join(wanted.cluster, run_id=self._run_id, progress=self._say)
        else:
            cluster = self._acquire(definition)
        self._current = (wanted.cluster_key, cluster)
        return cluster

    def check_running(self) -> None:
        """Raise ClusterError when the current cluster has ended, or is ending."""
        if self._current is not None:
            self._current[1].check_running()

    def leave(self) -> None:
        """Leave the current cluster, if there is one; with ``--grovescale-keep`` it keeps running."""
        if self._current is not None:
            self._current[1].release(keep=self._settings.keep)
            self._current = None

    def _acquire(self, definition: ClusterDefinition) -> Cluster:
        name = cluster_name(self._run_id, definition, self._worker, per_worker=self._settings.cluster_per_worker)
        return handle.acquire(
            definition,
            name=name,
            run_id=self._run_id,
            allowed_contexts=self._settings.allow_context,
            progress=self._say,
        )


def planned(
    wanted: ItemConfig, operator: OperatorDefinition | None, *, base: Folders, settings: Settings, worker: bool
) -> ClusterDefinition | None:
    """Return the definition of the cluster to start for a test; None: a running one of that name is joined.

    ``worker``: whether this is an xdist worker. Raises DefinitionError for a wrong file, UsageError for an incompatible
    version, number of nodes, operator or use of workers, and for a context that is not allowed; ClusterError for a
    missing context.
    """
    one_each = worker and settings.cluster_per_worker
    if handle.is_running(wanted.cluster):
        if wanted.kubernetes:
            raise UsageError(
                f"cluster {wanted.cluster} runs already; its Kubernetes version cannot be changed",
                next_step="Leave --grovescale-kubernetes out, or name a cluster definition file.",
            )
        if one_each:
            raise _one_for_all(f"cluster {wanted.cluster} runs already: there is one of it")
        return None
    definition = wanted.adapted(load_definition(wanted.cluster, base=base))
    if operator is not None:
        refuse_where_none_run(operator, definition.backend)
    behind = backend(definition.backend)
    if operator is not None and not behind.foreign:
        refuse_rivals(operator, definition.controller_manager.names, definition.name)
    behind.permitted(definition, allowed_contexts=settings.allow_context)
    if one_each and behind.foreign:
        raise _one_for_all("a cluster that exists is one: what its workers did there would add up")
    return definition


def _one_for_all(why: str) -> UsageError:
    return UsageError(
        f"--grovescale-cluster-per-worker: {why}",
        next_step="Leave the option out: the workers share it. Or name a definition of backend local or kind.",
    )


def cluster_name(run_id: str, definition: ClusterDefinition, worker: str, *, per_worker: bool) -> str:
    """Return the name of a run's cluster.

    The name of a cluster that workers share contains a digest of its definition, as each may need another one.
    """
    if not worker:
        return f"run-{run_id}"
    return f"run-{run_id}-{worker if per_worker else launch.digest(definition)[:_DIGITS]}"


def end_all(run_id: str) -> None:
    """End the clusters that a run's workers left, when all workers are gone. Raises ClusterError."""
    for name in state.names():
        if name.startswith(f"run-{run_id}-"):
            handle.stop(name)


Lost = Callable[[], str]
"""Returns why a test lost its lock; an empty text if it did not."""


def never_lost() -> str:
    """Return an empty text, for a cluster without other users."""
    return ""


@contextlib.contextmanager
def locked(cluster: Cluster, portal: Callable[[], Portal], *, alone: bool, operator: bool, say: Say) -> Iterator[Lost]:
    """Hold a test's lock on its cluster for the length of the block.

    ``alone``: the test measures; ``operator``: it uses one of this machine's. Raises ClusterError, ApiError.
    """
    if not cluster.others_use_it:
        yield never_lost
        return
    # The client library takes a third of a second to import, which a run that only collects does not need.
    from ..cluster import lease_lock
    from ..kube.client import Client

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
