"""Kubernetes' own controllers under test: operators that nobody here wrote.

A second kube-controller-manager runs the tested controllers alone, as an identity of its own; the cluster's own one
collects the garbage. ``pytest --grovescale tests/scale/test_kube_controller_manager.py --grovescale-param pods=5000``
runs the same with more.
"""

from __future__ import annotations

import pytest

from pytest_grovescale import Scale, checks, conditions


@pytest.mark.grovescale(operator="kcm-deployment", cluster="minimal", nodes=100)
def test_deployment(scale: Scale) -> None:
    """Two controllers in a row: Deployment to ReplicaSet to pods."""
    pods = scale.parameter("pods", 1000)
    deployment = scale.workload("deployment.yaml.j2", replicas=pods)

    with scale.phase("deploy", timeout=scale.parameter("deploy_timeout", "5m")) as deploy:
        deploy.milestone("pods-created", conditions.count("pods", pods))
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        deploy.milestone("available", deployment.status(availableReplicas=pods, conditions={"Available": "True"}))
        deployment.apply()
    scale.wait_idle()
    with scale.phase("steady-state", timeout="2m") as steady:
        deployment.trigger_reconcile()
        steady.hold(scale.parameter("hold", "30s"))
    with scale.phase("annotation", timeout="1m") as annotation:
        deployment.trigger_reconcile(annotation="grovescale.io/reconcile-trigger")
        annotation.hold("2s")
    with scale.phase("delete", timeout=scale.parameter("delete_timeout", "5m")) as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("replicasets-gone", conditions.count("replicasets.apps", 0))
        delete.milestone("deployment-gone", conditions.gone(deployment))
        # The owner goes first, then what it owned: the garbage collector's work alone.
        deployment.delete(propagation="Background")

    # A label of the Deployment is the Deployment controller's business, and nobody's further down.
    scale.check(checks.NoopWrites(max=0, phase="steady-state"))
    scale.check(checks.NoopReconciles(per_trigger={"deployment": 1, "replicaset": 0}, phase="steady-state"))
    # An annotation is no no-op: it is copied to the ReplicaSet, and the new generation acknowledged in the status.
    assert annotation.api("operator").count(verb="update", resource="replicasets.apps", code=200) == 1
    assert annotation.api("operator").count(verb="update", resource="deployments.apps/status", code=200) >= 1
    assert deploy.api("operator").count(verb="create", resource="pods") == pods
    # Pods and ReplicaSet are the garbage collector's to delete.
    assert delete.api("operator").count(verb="delete") == 0


@pytest.mark.grovescale(operator="kcm-statefulset", cluster="minimal", nodes=100)
def test_statefulset(scale: Scale) -> None:
    """One controller, and pods that have names."""
    pods = scale.parameter("pods", 1000)
    statefulset = scale.workload("statefulset.yaml.j2", replicas=pods)

    with scale.phase("deploy", timeout=scale.parameter("deploy_timeout", "5m")) as deploy:
        deploy.milestone("pods-created", conditions.count("pods", pods))
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        deploy.milestone("available", statefulset.status(availableReplicas=pods))
        statefulset.apply()
    scale.wait_idle()
    with scale.phase("steady-state", timeout="2m") as steady:
        statefulset.trigger_reconcile()
        steady.hold(scale.parameter("hold", "30s"))
    with scale.phase("delete", timeout=scale.parameter("delete_timeout", "5m")) as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("statefulset-gone", conditions.gone(statefulset))
        # The owner stays until its pods are gone.
        statefulset.delete(propagation="Foreground")

    scale.check(checks.NoopWrites(max=0))
    scale.check(checks.NoopReconciles(controller="statefulset", per_trigger=1))
    assert deploy.api("operator").count(verb="create", resource="pods", code=201) == pods


@pytest.mark.grovescale(operator="kcm-job", cluster="minimal", nodes=100)
def test_job_completes(scale: Scale) -> None:
    """One controller that keeps a finalizer on every pod until it has counted it."""
    pods = scale.parameter("pods", 1000)
    job = scale.workload("job.yaml.j2", completions=pods)

    with scale.phase("complete", timeout=scale.parameter("deploy_timeout", "5m")) as complete:
        complete.milestone("pods-created", conditions.count("pods", pods))
        complete.milestone("pods-succeeded", conditions.count("pods", pods, where={"status.phase": "Succeeded"}))
        complete.milestone("complete", job.status(succeeded=pods, conditions={"Complete": "True"}))
        job.apply()
    with scale.phase("delete", timeout=scale.parameter("delete_timeout", "5m")) as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("job-gone", conditions.gone(job))
        job.delete(propagation="Background")

    assert complete.api("operator").count(verb="create", resource="pods", code=201) == pods
    # One patch for each pod takes its finalizer away: half of all that a Job writes.
    assert complete.api("operator").count(verb="patch", resource="pods", code=200) >= pods
    # What held the pods is gone: they are the garbage collector's to delete.
    assert delete.api("operator").count(verb="delete") == 0


@pytest.mark.grovescale(operator="kcm-job", cluster="minimal", nodes=100)
def test_job_runs(scale: Scale) -> None:
    """The same while its pods run: a finished Job is not reconciled any more, and a no-op has to be one."""
    pods = scale.parameter("pods", 1000)
    job = scale.workload("job.yaml.j2", completions=pods, run_time="24h")

    with scale.phase("deploy", timeout=scale.parameter("deploy_timeout", "5m")) as deploy:
        deploy.milestone("pods-ready", conditions.count("pods", pods, ready=True))
        deploy.milestone("active", job.status(active=pods, ready=pods))
        job.apply()
    with scale.phase("settle", timeout="1m") as settle:
        # A status of its own making wakes the controller once more, a second later (its SyncJobBatchPeriod).
        settle.hold("3s")
    with scale.phase("steady-state", timeout="2m") as steady:
        job.trigger_reconcile()
        steady.hold(scale.parameter("hold", "30s"))
    with scale.phase("delete", timeout=scale.parameter("delete_timeout", "5m")) as delete:
        delete.milestone("pods-gone", conditions.count("pods", 0))
        delete.milestone("job-gone", conditions.gone(job))
        job.delete(propagation="Background")

    scale.check(checks.NoopWrites(max=0))
    scale.check(checks.NoopReconciles(controller="job", per_trigger=1))
    # The Job is gone before its pods: each is an orphan whose finalizer is still to be taken away.
    assert delete.api("operator").count(verb="patch", resource="pods", code=200) >= pods
