"""Objects that wait for a controller of Kubernetes that the cluster under the test does not run.

The control plane runs the controllers that its definition names (`controller_manager.controllers`), which by default
are those that an operator's own objects need. A Deployment then stays without a ReplicaSet, and its pods never come: no
fault of the operator, and nothing in the API says why.

No false alarm: only in a phase that did not pass, only where the definition in force names the controllers, and not for
a kind whose status the operator under test writes itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..result import Finding
from .observed import Observed

ID = "missing-controller"

_FACT = "controller_manager_controllers"
"""Fact about the cluster: the controllers that run, separated by commas; missing where they are not known."""

_CONTROLLERS = {
    "deployments.apps": "deployment-controller",
    "replicasets.apps": "replicaset-controller",
    "statefulsets.apps": "statefulset-controller",
    "daemonsets.apps": "daemonset-controller",
    "jobs.batch": "job-controller",
    "cronjobs.batch": "cronjob-controller",
}


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind with objects whose controller does not run."""
    running = str(seen.test.cluster.get(_FACT, "*")).split(",")
    if "*" in running or all(phase.outcome == "passed" for phase in seen.test.phases):
        return
    for resource, controller in _CONTROLLERS.items():
        number = sum(life.exists(seen.end) for life in seen.lives.get(resource, []))
        own = any(one.resource == resource and one.subresource == "status" for one in seen.requests)
        if number and controller not in running and not own:
            yield Finding(
                id=ID,
                severity="defect",
                text=f"{number:,} {resource} wait for the {controller}, which this cluster does not run",
                evidence=("add it to controller_manager.controllers in the cluster's definition",),
            )
