"""Objects that wait for a controller of Kubernetes that the cluster under the test does not run.

The control plane runs the controllers that its definition names (`controller_manager.controllers`), which by default
are those that an operator's objects and its children need. Where one is left out, a Deployment stays without a
ReplicaSet, and its pods never come: no fault of the operator, and nothing in the API says why.

No false alarm: only in a phase that did not pass, only where the definition in force names the controllers, and not for
a kind whose status the operator under test writes itself. Services, PodDisruptionBudgets and ResourceQuotas are of use
without their controllers: they count only where an unmet milestone does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...recording.evaluation import count_leaves
from ..result import Finding
from .grouping import Aspect, Found, of_outcome
from .observed import Observed

ID = "missing-controller"

_FACT = "controller_manager_controllers"
"""Fact about the cluster: the controllers that run, separated by commas; missing where they are not known."""


class _Controlled(NamedTuple):
    """A kind that one of Kubernetes' controllers acts on."""

    resource: str
    kind: str
    lack: str
    """What its objects do not get."""
    controller: str
    counted: str = ""
    """Resource that an unmet milestone has to count; empty: any."""


_KINDS = (
    _Controlled("deployments.apps", "Deployment", "ReplicaSet", "deployment-controller"),
    _Controlled("replicasets.apps", "ReplicaSet", "pods", "replicaset-controller"),
    _Controlled("statefulsets.apps", "StatefulSet", "pods", "statefulset-controller"),
    _Controlled("daemonsets.apps", "DaemonSet", "pods", "daemonset-controller"),
    _Controlled("jobs.batch", "Job", "pods", "job-controller"),
    _Controlled("cronjobs.batch", "CronJob", "Job", "cronjob-controller"),
    _Controlled("services", "Service", "EndpointSlice", "endpointslice-controller", "endpointslices.discovery.k8s.io"),
    _Controlled(
        "poddisruptionbudgets.policy",
        "PodDisruptionBudget",
        "status",
        "disruption-controller",
        "poddisruptionbudgets.policy",
    ),
    _Controlled("resourcequotas", "ResourceQuota", "status", "resourcequota-controller", "resourcequotas"),
)


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind with objects whose controller does not run."""
    running = str(seen.test.cluster.get(_FACT, "*")).split(",")
    # Older recordings on kind have `all`.
    everything = "*" in running or running == ["all"]
    if all(phase.outcome == "passed" for phase in seen.test.phases):
        return
    unmet = _unmet(seen)
    for one in _KINDS:
        # kube-controller-manager knows each by its older name, too.
        names = one.controller, one.controller.removesuffix("-controller")
        off = any(f"-{name}" in running for name in names)
        runs = any(name in running for name in names) or (everything and not off)
        own = any(sent.resource == one.resource and sent.subresource == "status" for sent in seen.requests)
        if runs or own or (one.counted and one.counted not in unmet):
            continue
        if number := _existing(seen, one.resource):
            failed = (phase.name for phase in seen.test.phases if phase.outcome != "passed")
            yield Found(
                id=ID,
                severity="defect",
                about=of_outcome(Aspect.PROCESS, failed),
                text=f"{number:,} {one.kind}{'s have' if number > 1 else ' has'} no {one.lack}: this cluster does not"
                f" run the {one.controller} (controller_manager.controllers)",
                evidence=("add it to controller_manager.controllers in the cluster's definition",),
            )


def _unmet(seen: Observed) -> set[str]:
    """Return the resources that the unmet milestones of phases that did not pass count."""
    return {
        count.watch.resource
        for span in seen.spans
        if span.phase.outcome != "passed"
        for name, declared in span.recorded.declared.items()
        if name not in span.recorded.met
        for count in count_leaves(declared.condition)
    }


def _existing(seen: Observed, resource: str) -> int:
    """Return how many objects of a kind were left at the end, by a watch of it, else by the audit log."""
    if resource in seen.lives:
        return sum(life.exists(seen.end) for life in seen.lives[resource])
    requests = [one for one in seen.all_requests if one.resource == resource and not one.subresource and one.changes]
    made = {one.object for one in requests if one.created}
    deleted = {one.object for one in requests if one.verb == "delete"}
    emptied = {one.namespace for one in requests if one.verb == "deletecollection"}
    return len([one for one in made - deleted if one[0] not in emptied])
