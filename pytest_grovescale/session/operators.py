"""The operator of a session's tests: started on request, kept running if it is per session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..cluster.backend import backend
from ..cluster.handle import Cluster
from ..kube.portal import Portal
from ..operator import start
from ..operator.handle import Operator
from ..operator.operator_state import OBJECTS, Hold
from ..operator.schema import OperatorDefinition
from ..workload import namespace

Say = Callable[[str], None]


class Operators:
    """At most one operator at a time, on the current cluster; with xdist the workers share it.

    ``keep``: the last one goes on running after the session.
    """

    def __init__(self, *, keep: bool, say: Say) -> None:
        self._keep = keep
        self._say = say
        self._current: tuple[str, Operator] | None = None
        self._share: tuple[Cluster, Hold] | None = None
        """Share in the objects that operators put into an existing cluster, which stays after the session."""

    def find(
        self,
        definition: OperatorDefinition,
        cluster: Cluster,
        key: str,
        *,
        directory: Path,
        alone: bool,
        faults: bool = False,
    ) -> Operator:
        """Return the operator of a test, running and ready; its log goes into ``directory``.

        ``alone``: the test has exclusive use of the cluster, so operators left by other sessions are no longer needed;
        other tests share a running one. ``faults``: with a proxy on its way to the API server. Raises OperatorError,
        DefinitionError.
        """
        if self._current is not None:
            if self._current[0] == key and self._current[1].stays():
                return self._current[1]
            self.leave()
        if self._share is None and cluster.standing:
            self._share = (cluster, Hold(cluster, OBJECTS))
        operator = start.start(
            definition,
            cluster,
            directory=directory,
            progress=self._say,
            others="replace" if alone else "share",
            faults=faults,
        )
        self._current = (key, operator)
        return operator

    def clear(self, cluster: Cluster) -> None:
        """Stop all operators on a cluster, of any session, for an exclusive test without an operator."""
        self.leave()
        start.clear(cluster)

    def test_over(self) -> None:
        """Make the current operator unusable for later tests: stop it or, with ``keep``, forget its key."""
        if self._keep and self._current is not None:
            self._current = ("", self._current[1])
        else:
            self.leave()

    def session_over(self) -> None:
        """Stop the current operator, unless it is kept: the session is over, or done with its cluster.

        From an existing cluster, the last session removes the objects that operators installed.
        """
        if self._keep:
            self._current = None
        else:
            self.leave()
        share, self._share = self._share, None
        if share is None:
            return
        cluster, hold = share
        if self._keep or cluster.ended():
            hold.release()
            return
        removed = start.uninstall(cluster, hold, progress=self._say)
        with Portal() as portal:
            client = portal.client(cluster.access_as("harness"))
            for name in [obj["metadata"]["name"] for obj in removed if obj["kind"] == "Namespace"]:
                portal.run(namespace.finish(client, name, at_once=not backend(cluster.backend).foreign))

    def leave(self) -> None:
        """Stop the current operator, if there is one and no other worker shares it."""
        if self._current is not None:
            self._current[1].stop()
            self._current = None
