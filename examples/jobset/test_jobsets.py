"""JobSets of Jobs, whose pods are JobSet's grandchildren: 200 pods, more with --grovescale-param objects=100."""

import pytest

from pytest_grovescale import conditions


@pytest.mark.grovescale(operator="operator.yaml", nodes=20)
def test_jobsets(scale):
    objects = scale.parameter("objects", 50)
    jobsets = scale.workload("jobset.yaml.j2", objects=objects, jobs=2, pods=2, run_time="1h")

    with scale.phase("deploy", timeout="5m") as deploy:
        deploy.milestone("jobs-created", conditions.count("jobs.batch", 2 * objects))
        deploy.milestone("pods-ready", conditions.count("pods", 4 * objects, ready=True))
        jobsets.apply()
    scale.wait_idle()
    with scale.phase("steady-state", timeout="2m") as steady:
        jobsets.trigger_reconcile()
        steady.hold("10s")
    with scale.phase("delete", timeout="5m") as delete:
        delete.milestone("jobsets-gone", conditions.gone(jobsets))
        delete.milestone("pods-gone", conditions.count("pods", 0))
        jobsets.delete()


@pytest.mark.grovescale(operator="operator.yaml", nodes=20)
def test_completed(scale):
    objects = scale.parameter("objects", 20)
    jobsets = scale.workload("jobset.yaml.j2", objects=objects, jobs=2, pods=1, run_time="2s")

    with scale.phase("run", timeout="3m") as run:
        run.milestone("completed", jobsets.status(conditions={"Completed": "True"}))
        jobsets.apply()
    with scale.phase("delete", timeout="3m") as delete:
        delete.milestone("jobsets-gone", conditions.gone(jobsets))
        jobsets.delete()
