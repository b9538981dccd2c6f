"""The floor of the main job: as many pods with nobody who makes or watches them, deployed and deleted.

What takes longer with an operator is the operator's doing, or its requests'; what takes as long here is the cluster's.
``grovescale backends --floor NAME=RUN`` sets a run of this beside the main job's.
"""

from __future__ import annotations

import pytest

from pytest_grovescale import Scale, conditions


@pytest.mark.grovescale(cluster="minimal", nodes=100, operator="none")
def test_bare_pods(scale: Scale) -> None:
    pods = scale.parameter("replicas", 500) * scale.parameter("pods_per_replica", 2)
    bare = scale.workload("pods.yaml.j2", pods=pods)

    with scale.phase("deploy", timeout=scale.parameter("deploy_timeout", "5m")) as deploy:
        deploy.milestone("pods-created", conditions.count("pods", pods))
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        bare.apply()
    with scale.phase("delete", timeout=scale.parameter("delete_timeout", "5m")) as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        bare.delete()
