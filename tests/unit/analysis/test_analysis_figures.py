"""Figures as tests ask for them: right when measured, an error that says why when not, never zero."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis import figures
from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.errors import NotMeasuredError, UsageError
from pytest_grovescale.recording import records as rec

from .simulated import PCS, Simulation, full_run


def phase(sim: Simulation, name: str = "steady-state") -> PhaseResult:
    return next(phase for phase in analyse(sim.records()).phases if phase.name == name)


def traffic(*requests: dict[str, Any]) -> figures.ApiFigures:
    sim = Simulation()
    sim.phase("p", 100, 900)
    for index, request in enumerate(requests):
        sim.request(200 + index, **request)
    return figures.api(phase(sim, "p"), "operator")


POD: dict[str, Any] = {"resource": "pods", "namespace": "t", "name": "a"}


def test_traffic_of_the_full_run() -> None:
    result = analyse(full_run(10).records())
    deploy = figures.api(result.phases[0], "operator")
    assert (deploy.requests, deploy.object_writes, deploy.object_reads) == (12, 11, 1)
    assert deploy.by_verb == {"create": 10, "update": 1, "watch": 1}
    assert deploy.per_object(10) == {"create": 1.0, "update": 0.1, "watch": 0.1}
    assert deploy.count(verb="create", resource="pods", code=201) == 10
    by_user = figures.api(result.phases[0], "system:serviceaccount:op:operator")
    assert by_user.rows == deploy.rows


def test_writes_are_attempts_and_dry_runs_and_bookkeeping_stand_apart() -> None:
    found = traffic(
        {"verb": "patch", **POD},
        {"verb": "patch", **POD, "code": 409},
        {"verb": "patch", **POD, "dry_run": True},
        {"verb": "create", "resource": "events", "namespace": "t"},
        {"verb": "create", "resource": "events", "group": "events.k8s.io", "namespace": "t"},
        {"verb": "update", "resource": "leases", "group": "coordination.k8s.io", "namespace": "t", "name": "l"},
        {"verb": "create", "resource": "tokenreviews", "group": "authentication.k8s.io"},
        {"verb": "create", "resource": "subjectaccessreviews", "group": "authorization.k8s.io"},
        {"verb": "create", "resource": "serviceaccounts", "subresource": "token", "namespace": "t", "name": "s"},
        {"verb": "get", "path": "/apis/grove.io/v1alpha1"},
        {"verb": "get", **POD},
    )
    assert (found.object_writes, found.successful_object_writes) == (2, 1)
    assert (found.object_reads, found.requests) == (1, 11)
    assert {row.resource for row in found.rows if row.category == "nonresource"} == {"/apis"}


def test_a_watch_counts_once() -> None:
    watch = {"verb": "watch", "resource": "pods"}
    found = traffic(
        {**watch, "stage": "ResponseStarted"}, {**watch, "stage": "ResponseComplete"}, {**watch, "code": 410}
    )
    assert found.by_verb == {"watch": 2}


def test_a_request_belongs_to_the_phase_in_which_it_was_answered() -> None:
    sim = Simulation()
    sim.phase("one", 100, 200)
    sim.phase("two", 201, 300)
    sim.request(190, 5, verb="get", **POD)
    sim.request(195, 50, verb="get", **POD)
    sim.request(299, 50, verb="get", **POD)
    assert figures.api(phase(sim, "one"), "operator").requests == 1
    assert figures.api(phase(sim, "two"), "operator").requests == 1


def test_an_identity_that_never_spoke_is_not_zero(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(NotMeasuredError, match="'operater'") as caught:
        figures.api(phase(full_run(2)), "operater")
    assert str(caught.value) == snapshot


def test_an_identity_that_was_silent_in_this_phase_is_zero() -> None:
    assert figures.api(phase(full_run(2)), "kwok").requests == 0


def test_two_roles_of_one_user_cannot_be_distinguished() -> None:
    sim = full_run(2, identities={"operator": "admin", "harness": "admin"})
    with pytest.raises(NotMeasuredError, match="shares its user"):
        figures.api(phase(sim), "operator")
    assert figures.api(phase(sim), "admin").requests == 2


def test_a_broken_audit_log_is_not_zero() -> None:
    sim = full_run(2)
    moment = next(r.at for r in sim.records() if isinstance(r, rec.Mark)) + 1_000_000_000
    sim.add(rec.SourceFailed(at=moment, source="audit", message="rotated away"))
    result = analyse(sim.records())
    deploy, steady, delete = result.phases
    assert figures.api(deploy, "operator").requests == 5 - 1
    with pytest.raises(NotMeasuredError, match="broke off: rotated away"):
        figures.api(steady, "operator")
    assert steady.trigger_writes is None
    assert figures.noop(steady).state == "inconclusive"
    assert delete.audit_complete is False
    # Once it is read again before the next phase begins, that phase is whole.
    sim.request((moment - sim.at(0)) / 1e6 + 500, user="recorder", verb="get", path="/readyz")
    assert figures.api(analyse(sim.records()).phases[2], "operator").requests == 3


def test_an_audit_log_that_ends_before_its_phase_was_read_is_a_hole_too() -> None:
    sim = Simulation()
    sim.phase("p", 100, 900)
    sim.request(200, verb="get", **POD)
    sim.add(rec.SourceFailed(at=sim.at(1000), source="audit", message="silent"))
    assert phase(sim, "p").audit_complete is False
    sim.request(905, verb="get", **POD)
    assert phase(sim, "p").audit_complete is True


def test_no_audit_log_at_all() -> None:
    with pytest.raises(NotMeasuredError, match="no source"):
        figures.api(phase(full_run(2, audited=False)), "operator")


def test_cpu_of_a_phase(snapshot: SnapshotAssertion) -> None:
    steady = phase(full_run(2))
    found = figures.cpu(steady, "operator")
    assert found.seconds == found.at_least == pytest.approx(0.4 * 9.99)
    assert found.cores == pytest.approx(0.4, rel=1e-3)
    assert (found.rss_bytes, found.peak_rss_bytes) == (100_000_000, 105_000_000)
    with pytest.raises(NotMeasuredError, match=r"'opera'.*\n.*kube-apiserver") as caught:
        figures.cpu(steady, "opera")
    assert str(caught.value) == snapshot


def test_milestones() -> None:
    deploy = phase(full_run(3), "deploy")
    found = figures.milestone(deploy, "pods-ready")
    assert found.server[0] <= found.server[1] == found.seconds <= found.observed
    assert (found.clock, found.held_to_end) == ("server", True)
    with pytest.raises(NotMeasuredError, match=r"no milestone 'x'.*\n.*pods-created"):
        figures.milestone(deploy, "x")


def test_reconciles() -> None:
    steady = phase(full_run(2))
    assert figures.reconciles(steady, "podcliqueset") == 1
    assert figures.reconciles(steady, "podcliqueset", result="error") == 0
    with pytest.raises(NotMeasuredError, match=r"no controller 'x'.*\n.*podcliqueset"):
        figures.reconciles(steady, "x")
    with pytest.raises(NotMeasuredError, match=r"no result 'requeue'.*\n.*error, success"):
        figures.reconciles(steady, "podcliqueset", result="requeue")


def test_per_object_needs_objects() -> None:
    with pytest.raises(UsageError):
        traffic({"verb": "get", **POD}).per_object(0)


def test_a_no_op_is_proven() -> None:
    found = figures.noop(phase(full_run(2)))
    assert (found.state, found.why, found.object_writes, found.object_reads) == ("no-writes", (), 0, 1)
    assert found.per_trigger("podcliqueset") == 1


def test_a_write_disproves_a_no_op() -> None:
    sim = full_run(2)
    done = next(r.at for r in sim.records() if isinstance(r, rec.Mark))
    sim.write(PCS, "pcs", (done - sim.at(0)) / 1e6 + 50, verb="patch", fields={}, took=2)
    found = figures.noop(phase(sim))
    assert (found.state, found.object_writes) == ("writes", 1)


def test_a_no_op_is_inconclusive_without_its_proofs(snapshot: SnapshotAssertion) -> None:
    records = full_run(2).records()

    def why(*kept: rec.AnyRecord) -> str:
        steady = analyse(kept).phases[1]
        found = figures.noop(steady)
        assert found.state == "inconclusive"
        return "; ".join(found.why)

    harness = "grovescale:harness"
    assert why(*(r for r in records if not isinstance(r, rec.Mark))) == snapshot(name="no trigger")
    unlogged = (r for r in records if not (isinstance(r, rec.Request) and r.user == harness and r.verb == "patch"))
    assert why(*unlogged) == snapshot(name="trigger not in the log")
    unscraped = (r for r in records if not (isinstance(r, rec.Scraped) and r.edge == "end:steady-state"))
    assert why(*unscraped) == snapshot(name="not scraped")
    silent = (r for r in records if not (isinstance(r, rec.Request) and "operator" in r.user))
    assert why(*silent) == snapshot(name="silent")


def test_a_no_op_without_a_reconcile_proves_nothing(snapshot: SnapshotAssertion) -> None:
    records = [
        r.__class__(**{f: getattr(r, f) for f in r.__struct_fields__} | {"samples": {}})
        if isinstance(r, rec.Scraped) and r.edge in ("end:steady-state", "start:delete", "end:delete")
        else r
        for r in full_run(2).records()
    ]
    found = figures.noop(analyse(records).phases[1])
    assert found.state == "inconclusive"
    assert "\n".join(found.why) == snapshot


def test_late_objects_in_one_line(snapshot: SnapshotAssertion) -> None:
    late = rec.LateObject(
        at=1,
        phase="p",
        milestone="ready",
        object=rec.ObjectRef(resource="pods", namespace="t", name="a"),
        owner="PodClique x",
        reason="PodScheduled is False",
        events=["one", "FailedScheduling: no nodes"],
    )
    text = figures.late_text(late)
    assert text.startswith("ready waits for pods t/a ")
    assert text.endswith("FailedScheduling: no nodes")
    assert text == snapshot


def test_a_phase_as_plain_data() -> None:
    plain = figures.as_plain(phase(full_run(2)))
    assert plain["name"] == "steady-state"
    assert plain["cpu"][0]["process"] == "kube-apiserver"


def test_missing_rights_are_those_that_were_refused_the_most_frequent_first() -> None:
    sim = Simulation()
    sim.phase("p", 100, 900)
    no_role = 'jobs.batch is forbidden: User "operator" cannot create resource "jobs" in API group "batch"'
    seen = [
        ("list", "pods", 403, ""),
        ("get", "pods", 404, ""),
        *[("list", "configmaps", 403, "")] * 2,
        *[("create", "jobs", 403, no_role)] * 3,
        # In a namespace that is being deleted, by a quota, by a webhook: there was a right to these.
        ("create", "pods", 403, "unable to create new content: its namespace is being terminated"),
        ("create", "pods", 403, ""),
        ("create", "pods", 403, "exceeded quota: few"),
        ("update", "pods", 403, 'admission webhook "x" denied the request'),
    ]
    for index, (verb, resource, code, message) in enumerate(seen):
        sim.request(200 + index, verb=verb, resource=resource, code=code, namespace="t", message=message)
    assert phase(sim, "p").missing_rights == (
        "create jobs (403, 3 times)",
        "list configmaps (403, 2 times)",
        "list pods (403, 1 time)",
    )
