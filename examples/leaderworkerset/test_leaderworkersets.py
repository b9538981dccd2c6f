"""Groups of a leader and workers, which StatefulSets make: 200 pods, more with --grovescale-param objects=100."""

import pytest

from pytest_grovescale import conditions


@pytest.mark.grovescale(operator="operator.yaml", nodes=20)
def test_leaderworkersets(scale):
    objects = scale.parameter("objects", 50)
    groups = scale.workload("leaderworkerset.yaml.j2", objects=objects, size=4)

    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", 4 * objects, ready=True))
        deploy.milestone("available", groups.status(conditions={"Available": "True"}))
        groups.apply()
    scale.wait_idle()
    with scale.phase("steady-state", timeout="2m") as steady:
        groups.trigger_reconcile()
        steady.hold("10s")
    with scale.phase("delete", timeout="5m") as delete:
        delete.milestone("groups-gone", conditions.gone(groups))
        delete.milestone("pods-gone", conditions.count("pods", 0))
        groups.delete()
