"""The main job: one PodCliqueSet of 500 replicas × 2 pods deployed, left alone, and deleted.

Every number is a parameter: ``pytest --grovescale tests/scale --grovescale-nodes 500 --grovescale-param
replicas=2500`` runs the same test with 5000 pods on 500 nodes. What it may cost stands in ``budgets.yaml``.
"""

from __future__ import annotations

import pytest

from pytest_grovescale import Scale, checks, conditions


@pytest.mark.grovescale(cluster="minimal", nodes=100)
def test_thousand_pods(scale: Scale) -> None:
    replicas = scale.parameter("replicas", 500)
    per_replica = scale.parameter("pods_per_replica", 2)
    pods = replicas * per_replica
    pcs = scale.workload("pcs.yaml.j2", replicas=replicas, pods_per_replica=per_replica)

    with scale.phase("deploy", timeout=scale.parameter("deploy_timeout", "5m")) as deploy:
        deploy.milestone("pods-created", conditions.count("pods", pods))
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        deploy.milestone("pcs-available", pcs.status(availableReplicas=replicas))
        pcs.apply()
    scale.wait_idle()
    with scale.phase("steady-state", timeout="2m") as steady:
        pcs.trigger_reconcile()
        steady.hold(scale.parameter("hold", "30s"))
    scale.check(checks.NoopWrites(max=0))
    scale.check(checks.NoopReconciles(controller="podcliqueset", per_trigger=1))
    scale.touch_each_kind()
    with scale.phase("delete", timeout=scale.parameter("delete_timeout", "5m")) as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("pcs-gone", conditions.gone(pcs))
        pcs.delete()
