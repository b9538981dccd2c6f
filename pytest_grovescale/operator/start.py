"""Starting the operator under test on a cluster, as a process or as pods, and finding the one that runs there."""

from __future__ import annotations

from pathlib import Path

from ..cluster.handle import Cluster
from ..errors import OperatorError
from . import process
from .handle import Operator, Others, Progress
from .pods.bring_up import bring_up as bring_up_pods
from .pods.checking import refuse_where_none_run
from .pods.operator import OperatorPods
from .running import AnyRunning, Hold, RunningPods, is_alive, known, shared, stop, transition
from .shape import OperatorDefinition

__all__ = ["Others", "clear", "join", "start"]


def start(
    definition: OperatorDefinition,
    cluster: Cluster,
    *,
    directory: Path,
    progress: Progress,
    others: Others = "refuse",
) -> Operator:
    """Start an operator on a cluster and return when it is ready.

    Applies CRDs (and waits until they are served), manifests, identity and RBAC; starts the process, or the
    Deployment; waits for its readiness URL, or its rollout; puts its webhooks in force. Its log lands in
    ``directory``; its credentials in the cluster's own folder, so that they never travel with reports. ``others`` says
    what to do with one that runs already: refuse with an error, share it if it is the same definition with the same
    values, or replace it (for callers that have the cluster for themselves). Raises OperatorError, and UsageError for
    pods on a cluster whose nodes run none; what was begun is undone.
    """
    refuse_where_none_run(definition, cluster.backend)
    with transition(cluster):
        running = known(cluster)
        if running is not None and not is_alive(cluster, running):
            stop(cluster, running)
            running = None
        if running is not None and others == "share" and running.definition == definition:
            if shared(cluster, running):
                progress(f"operator {definition.name}: shared with pid {running.pid}")
                return _handle(cluster, running)
            # It is on its way out, with the last of those who shared it.
            stop(cluster, running)
            running = None
        if running is not None:
            if others != "replace":
                raise OperatorError(
                    f"cluster {cluster.name} already runs the operator {running.definition.name} (started by pid "
                    f"{running.pid}); a second one would reconcile the same objects",
                    next_step="Wait until that run is over, or use a cluster of its own.",
                )
            stop(cluster, running)
        bring_up = process.bring_up if definition.pod is None else bring_up_pods
        return bring_up(definition, cluster, directory=directory, progress=progress)


def join(cluster: Cluster) -> Operator | None:
    """Return the operator that runs on a cluster, whoever started it; None when there is none."""
    with transition(cluster):
        running = known(cluster)
        return _handle(cluster, running) if running is not None and shared(cluster, running) else None


def clear(cluster: Cluster) -> None:
    """Stop whatever operator runs on a cluster, whoever started it: for a test that measures without one."""
    with transition(cluster):
        if (running := known(cluster)) is not None:
            stop(cluster, running)


def _handle(cluster: Cluster, running: AnyRunning) -> Operator:
    if isinstance(running, RunningPods):
        return OperatorPods(cluster, running, Hold(cluster))
    return process.OperatorProcess(cluster, running, Hold(cluster), [])
