"""Start of the operator under test on a cluster, as a process or as pods; and access to the running one."""

from __future__ import annotations

from pathlib import Path

from ..cluster.handle import Cluster
from ..cluster.launch import CONTROLLERS
from ..errors import OperatorError
from ..kube.portal import Portal
from . import install, process
from .handle import Operator, Others, Progress
from .manifests import Object, title
from .operator_state import (
    AnyRunning,
    Hold,
    RunningPods,
    forget_objects,
    is_alive,
    known,
    objects,
    shared,
    stop,
    transition,
)
from .pods.definition import refuse_for_pods, refuse_rivals, refuse_where_none_run
from .pods.operator import OperatorPods
from .pods.operator import bring_up as bring_up_pods
from .schema import OperatorDefinition

__all__ = ["Others", "clear", "join", "start", "uninstall"]


def start(
    definition: OperatorDefinition,
    cluster: Cluster,
    *,
    directory: Path,
    progress: Progress,
    others: Others = "refuse",
    faults: bool = False,
) -> Operator:
    """Start an operator on a cluster and return when it is ready.

    Applies CRDs (and waits until they are served), manifests, identity and RBAC; starts the process, or the Deployment;
    waits for its readiness URL, or its rollout; activates its webhooks. Its log is in ``directory``; its credentials
    are in the cluster's own folder, so that reports never contain them. ``others``: if an operator already runs, refuse
    with an error, share it if it has the same definition and values, or replace it (for callers with exclusive use of
    the cluster). ``faults``: with a proxy on its way to the API server, see `fault_proxy`. Raises OperatorError, and
    UsageError for pods on a cluster whose nodes cannot run pods, or with faults; a failed start is undone.
    """
    refuse_where_none_run(definition, cluster.backend)
    refuse_rivals(definition, str(cluster.facts.get(CONTROLLERS, "")), cluster.name)
    if faults:
        refuse_for_pods(definition)
    with transition(cluster):
        running = known(cluster)
        if running is not None and not is_alive(cluster, running):
            stop(cluster, running)
            running = None
        if running is not None and others == "share" and _as_asked(running, definition, faults=faults):
            if shared(cluster, running):
                progress(f"operator {definition.name}: shared with pid {running.pid}")
                return _handle(cluster, running)
            # It is ending with the last process that shared it.
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
        if definition.pod is not None:
            return bring_up_pods(definition, cluster, directory=directory, progress=progress)
        return process.bring_up(definition, cluster, directory=directory, progress=progress, faults=faults)


def _as_asked(running: AnyRunning, definition: OperatorDefinition, *, faults: bool) -> bool:
    return running.definition == definition and (running.proxy is not None) == faults


def join(cluster: Cluster) -> Operator | None:
    """Return the operator that runs on a cluster, also one of another process; None if there is none."""
    with transition(cluster):
        running = known(cluster)
        return _handle(cluster, running) if running is not None and shared(cluster, running) else None


def clear(cluster: Cluster) -> None:
    """Stop any operator that runs on a cluster: for a test that measures without one."""
    with transition(cluster):
        if (running := known(cluster)) is not None:
            stop(cluster, running)


def uninstall(cluster: Cluster, share: Hold, *, progress: Progress) -> list[Object]:
    """Release a share in `running.OBJECTS`; with the last one, remove the objects that operators created.

    Returns the removed objects; the API server may still be deleting them. Objects of an operator that still runs stay,
    and so does a CRD with objects left: these belong to no test, and would be deleted with it.
    """
    with transition(cluster), Portal() as portal:
        if not share.release() or known(cluster) is not None or not (left := objects(cluster)):
            return []
        client = portal.client(cluster.access_as("harness"))
        crds = [obj for obj in left if obj["kind"] == "CustomResourceDefinition"]
        used = portal.run(install.of_others(client, crds))
        for crd in used:
            progress(f"{title(crd)} stays on cluster {cluster.name}: there are objects of that kind")
        removed = [obj for obj in left if obj not in used]
        portal.run(install.remove(client, removed, owner=cluster.owner))
        forget_objects(cluster, removed)
        return removed


def _handle(cluster: Cluster, running: AnyRunning) -> Operator:
    if isinstance(running, RunningPods):
        return OperatorPods(cluster, running, Hold(cluster))
    return process.OperatorProcess(cluster, running, Hold(cluster), [])
