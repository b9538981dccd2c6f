"""`OperatorPods`: the operator under test as pods of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ...cluster import state as clusters
from ...cluster.handle import Cluster, ProcessInfo
from ...endpoints import Address, addressed
from ...errors import GrovescaleError, OperatorError
from ...exposition.reader import Reader
from ...kube import access_files, api_proxy
from ...kube.errors import Forbidden, Unauthorized
from ...kube.portal import Portal
from ..command import single_values
from ..handle import Operator, Progress, tail_text
from ..readiness import fetch
from ..running import PROCESS, Hold, RunningPods
from ..shape import Served
from . import checking, state
from .asking import Asking
from .readiness import wait_rolled_out, wait_seen
from .removal import DEPLOYMENTS

_RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""Annotation that ``kubectl rollout restart`` sets."""


class OperatorPods(Operator):
    """An operator under test that runs as pods of the cluster."""

    def __init__(self, cluster: Cluster, running: RunningPods, hold: Hold) -> None:
        super().__init__(cluster, running, hold)
        self.deployment = running.deployment
        self._running = running
        self._folder = Path(running.folder)
        self._asking = Asking(cluster.access)
        pod = running.definition.as_pod
        self.metrics = self._reached(checking.endpoints(pod).get("metrics"))
        self.pprof = self._reached(pod.pprof)
        self.stacks = self._reached(pod.stacks)

    @property
    def processes_file(self) -> Path:
        """File with its current processes on this host; it may never exist."""
        return self._folder / state.PROCESSES

    @property
    def lease(self) -> str:
        """The Lease, ``namespace/name``, that determines the leader; empty: none does."""
        return state.read(self._folder).lease

    @property
    def leader(self) -> str:
        """The leader pod, also with one replica; empty: there is none now."""
        return state.read(self._folder).leader

    def _reached(self, served: Served | None) -> Address | Served | None:
        """Return an endpoint's address at its local forward, if there is one."""
        if served is None or served.via != "forward":
            return served
        port = state.read(self._folder).forwards[served.number]
        return addressed(f"{served.scheme}://127.0.0.1:{port}{served.path}", self.credentials(served))

    @property
    def values(self) -> Mapping[str, str]:
        return {
            **single_values(self.definition),
            "namespace": self.definition.identity.namespace,
            "token_file": str(self._folder / "token"),
        }

    def address(self, served: Address | Served) -> Address | None:
        """Return the address on this host of an endpoint of the leader; None without a leader.

        For programs that read credentials from files; `served_cpu_s` and the recorder use clients of their own.
        """
        if isinstance(served, Address):
            return served
        files = clusters.access_files(self._cluster.directory)
        path = self._path(served)
        return access_files.address(self._cluster.access, files, path) if path else None

    def _path(self, served: Served) -> str:
        """Return the path at the API server of an endpoint of the leader; empty without a leader."""
        if not (leader := self.leader):
            return ""
        return api_proxy.path(
            "pods", self.deployment.namespace, leader, served.number, scheme=served.scheme, path=served.path
        )

    def served_cpu_s(self) -> float | None:
        """As `Operator.served_cpu_s`, of the leader. Each call costs the operator some milliseconds.

        Raises OperatorError if the endpoint rejects the request.
        """
        try:
            told = self._samples().get("process_cpu_seconds_total")
        except (OSError, GrovescaleError) as error:
            if isinstance(error, (Unauthorized, Forbidden)) and error.by_the_server:
                raise OperatorError(
                    f"operator {self.name} cannot be asked for its CPU time: {error.message}",
                    next_step="See whether the credentials still are valid (kubectl auth whoami), and may get "
                    "pods/proxy: ClusterRole grovescale-harness-operator-pods of fixtures/rbac/harness.yaml.",
                ) from error
            # The pod is starting or ending.
            return None
        return None if told is None else float(told)

    def _samples(self) -> Mapping[str, str]:
        if isinstance(self.metrics, Address):
            return Reader().read(*fetch(self.metrics)).samples
        path = self._path(self.metrics) if self.metrics is not None else ""
        return Reader().read(self._asking.metrics(path)).samples if path else {}

    def info(self) -> ProcessInfo | None:
        """Return the process of the leader; None if its pod does not run on this host."""
        return state.processes(self._folder).get(PROCESS)

    def alive(self) -> bool:
        """Whether any of its containers runs."""
        return any(replica.running for replica in state.read(self._folder).replicas.values())

    def outlives(self, pid: int) -> bool:
        """Return True, since the kubelet restarts its container, unless it never will."""
        return not state.read(self._folder).stuck

    def describe_exit(self) -> str:
        """Return how its containers ended, and why they do not restart."""
        kept = state.read(self._folder)
        ended = [f"{name}: {one.stuck or one.last_end}" for name, one in kept.replicas.items() if not one.running]
        return f"does not run: {'; '.join(ended) or 'it has no pods'}"

    def stop(self) -> None:
        """As `Operator.stop`."""
        self._asking.close()
        super().stop()

    def check(self) -> None:
        """Raise OperatorError with its last log lines if no container runs or will restart.

        Zero pods are no failure: a rollout may have a gap between the old and the new pods.
        """
        if state.read(self._folder).stuck:
            raise OperatorError(
                f"operator {self.name} {self.describe_exit()}{tail_text(self._running)}",
                next_step=f"Its whole log: {self.log}.",
            )

    def restart(self, progress: Progress = lambda text: None) -> None:
        """Restart its Deployment, as ``kubectl rollout restart`` does; returns when no old pod is left."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        body = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED: moment}}}}}
        old = [replica.uid for replica in state.read(self._folder).replicas.values()]
        chosen = self.deployment
        with Portal() as portal:
            client = portal.client(self._cluster.access_as("harness"))
            patched = portal.run(client.patch(DEPLOYMENTS, chosen.name, chosen.namespace, body=body))
            wait_rolled_out(portal, client, self._running, int(patched["metadata"]["generation"]), progress, old=old)
        wait_seen(self._running, old=old)
