"""Where the time went: one simulated phase per suspect, with the truth known beforehand."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.bottlenecks.attribution import ACROSS
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import Timer

from .simulated import IDENTITIES, PCS, PODS, READY, S, Simulation, available, gone, pods

COLLECTOR = {**IDENTITIES, "kube-controller-manager": "kube-controller-manager"}
MARKED = "metadata.deletionTimestamp"


def simulation(**options: Any) -> Simulation:
    """A recording whose watch is prompt, with watches on pods and on the custom resource."""
    sim = Simulation(lag_ms=(0.1, 0.2), **options)
    sim.watch(PODS, 1)
    sim.watch(PCS, 4)
    return sim


def clocks(sim: Simulation, end: float, *, name: str = "deploy", busy: dict[str, tuple[float, float, float]]) -> None:
    """CPU clocks each second and at the phase's edges; ``busy``: process → (from ms, to ms, cores)."""
    for process, (since, until, cores) in busy.items():
        used, moments = 1.0, [100.0, *(ms for ms in range(1000, int(end), 1000)), end - 0.5]
        before = moments[0]
        for moment in moments:
            used += cores * max(0.0, min(moment, until) - max(before, since)) / 1000
            edge = {moments[0]: f"start:{name}", moments[-1]: f"end:{name}"}.get(moment, "")
            sim.cpu(process, moment, used, edge=edge)
            before = moment


def scrapes(sim: Simulation, end: float, samples: dict[str, float], *, name: str = "deploy") -> None:
    sim.scrape(99, {series: 0.0 if "_seconds_" in series else value for series, value in samples.items()},
               edge=f"start:{name}")  # fmt: skip
    sim.scrape(end - 0.2, samples, edge=f"end:{name}")


def finished(sim: Simulation, end: float) -> PhaseResult:
    sim.add(rec.Closed(at=sim.at(end + 500), reason="stopped"))
    return analyse(sim.records()).phases[0]


def seconds(phase: PhaseResult) -> dict[str, float]:
    return {row.suspect: row.seconds for row in phase.bottlenecks}


def deploy(sim: Simulation, *, create: float, bind: float, ready: float, n: int = 4, took: float = 10) -> None:
    """Pods that take each of their steps at these moments (ms), all at once."""
    for index in range(n):
        name = f"pod-{index}"
        sim.write(PODS, name, create - took, verb="create", fields={}, took=took)
        sim.write(PODS, name, bind - took, verb="create", subresource="binding", user="kube-scheduler",
                  fields={READY: "False"}, took=took)  # fmt: skip
        sim.write(PODS, name, ready - took, verb="patch", subresource="status", user="kwok", fields={READY: "True"},
                  took=took)  # fmt: skip


def test_each_step_is_its_actors() -> None:
    sim = simulation()
    sim.phase("deploy", 100, 10_100, pods_ready=pods(4, ready=True))
    deploy(sim, create=1100, bind=4100, ready=9100)
    clocks(sim, 10_100, busy={"operator": (0, 0, 0)})
    found = seconds(finished(sim, 10_100))
    assert found["scheduler"] == pytest.approx(3.0, abs=0.01)
    assert found["kwok"] == pytest.approx(5.0, abs=0.01)
    assert found["operator-api"] == pytest.approx(0.01, abs=0.002)
    # It was waited for without doing anything, and after the last step nothing was waited for at all.
    assert found["operator-idle"] == pytest.approx(0.99, abs=0.02)
    assert found["held"] == pytest.approx(1.0, abs=0.02)
    assert "operator-rate-limit" not in found


def test_the_parts_add_up_to_the_phase() -> None:
    sim = simulation()
    sim.phase("deploy", 100, 10_100, pods_ready=pods(4, ready=True))
    deploy(sim, create=3100, bind=4100, ready=9100, took=500)
    clocks(sim, 10_100, busy={"operator": (0, 3000, 0.4)})
    phase = finished(sim, 10_100)
    assert sum(row.seconds for row in phase.bottlenecks if row.suspect not in ACROSS) == pytest.approx(10.0, abs=0.01)


def test_an_instant_is_split_among_the_objects_that_wait() -> None:
    sim = simulation()
    sim.phase("deploy", 100, 2100, pods_ready=pods(4, ready=True))
    for index in range(4):
        name, bound = f"pod-{index}", 100.5 if index else 2100.0
        sim.write(PODS, name, 100, verb="create", fields={}, took=0.2)
        sim.write(PODS, name, bound - 0.4, verb="create", subresource="binding", user="kube-scheduler",
                  fields={READY: "False"}, took=0.2)  # fmt: skip
        if index:
            sim.write(PODS, name, 2099, verb="patch", user="kwok", fields={READY: "True"}, took=0.5)
    found = seconds(finished(sim, 2100))
    assert found["scheduler"] == pytest.approx(0.5, abs=0.01)
    assert found["kwok"] == pytest.approx(1.5, abs=0.01)


def test_an_operator_on_cpu(snapshot: SnapshotAssertion) -> None:
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040)
    clocks(sim, 5100, busy={"operator": (100, 4100, 1.0)})
    phase = finished(sim, 5100)
    assert seconds(phase)["operator-cpu"] == pytest.approx(4.0, abs=0.05)
    assert "CPU 80 % " in phase.bottleneck
    assert phase.bottleneck == snapshot


def waited(sim: Simulation, end: float, name: str = "deploy", **asked: tuple[float, float | None]) -> None:
    """CPU reads at a phase's edges; process → (cores used, threads that waited for one), even over the phase."""
    for process, (cores, waiting) in asked.items():
        for ms, edge in ((100.0, f"start:{name}"), (end - 0.5, f"end:{name}")):
            sim.add(
                rec.CpuRead(
                    at=sim.at(ms), process=process.replace("_", "-"), pid=10, cpu_ns=round((ms - 100) * 1e6 * cores),
                    waiting_ns=None if waiting is None else round((ms - 100) * 1e6 * waiting), rss_bytes=1, edge=edge,
                )
            )  # fmt: skip


def test_an_operator_that_has_no_core(snapshot: SnapshotAssertion) -> None:
    """Runnable and not running: others have the cores. That is no CPU time of the operator's."""
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040)
    waited(sim, 5100, operator=(0.25, 0.5))
    phase = finished(sim, 5100)
    found = seconds(phase)
    assert found["operator-cpu"] == pytest.approx(0.25 * 5, abs=0.01)
    assert found["operator-core-wait"] == pytest.approx(0.5 * 5, abs=0.01)
    evidence = next(row.evidence for row in phase.bottlenecks if row.suspect == "operator-core-wait")
    assert " 2.50 s " in evidence
    assert evidence == snapshot(name="evidence")
    assert " core 50 % of deploy; " in phase.bottleneck
    assert "CPU 25 %" in phase.bottleneck
    assert phase.bottleneck == snapshot(name="bottleneck")


def test_more_threads_than_time_share_it() -> None:
    """Eight threads wait for a core that one has: the time is split as theirs is, and stays the phase's."""
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5097, bind=5098, ready=5099, took=0.1)
    waited(sim, 5100, operator=(1.0, 7.0))
    found = seconds(finished(sim, 5100))
    assert found["operator-cpu"] == pytest.approx(5 / 8, abs=0.02)
    assert found["operator-core-wait"] == pytest.approx(5 * 7 / 8, abs=0.02)


def test_what_others_took_from_a_component_is_not_blamed_on_it() -> None:
    """4 s until kwok's write, of which kwok had no core for half: nor had the API server, under its requests."""
    sim = simulation(identities=COLLECTOR)
    sim.phase("deploy", 100, 10_100, pods_ready=pods(4, ready=True))
    deploy(sim, create=1100, bind=4100, ready=8100, took=1000)
    waited(sim, 10_100, operator=(0.0, 0.0), kwok=(0.1, 0.3), kube_scheduler=(0.05, 0.1),
           kube_apiserver=(0.5, 1.5), etcd=(0.1, 0.5), kube_controller_manager=(0.1, 0.2))  # fmt: skip
    phase = finished(sim, 10_100)
    found = seconds(phase)
    # The clocks are read at the phase's edges alone: all that kwok asked for fits into its turns of 4 s.
    assert found["kwok-core-wait"] == pytest.approx(3.0, abs=0.01)
    assert found["scheduler-core-wait"] == pytest.approx(1.0, abs=0.01)
    # Requests of 1 s each: the operator's, the scheduler's; kwok's are covered by its own time.
    assert found["api-server-core-wait"] == pytest.approx((1.0 + 1.0) * 2.0 / 2.6, abs=0.05)
    assert found["kwok"] == pytest.approx(1.0, abs=0.01)
    assert found["scheduler"] == pytest.approx(3.0 - 1.0 - 2.0 / 2.6, abs=0.05)
    assert found["controller-manager-core-wait"] == 0
    parts = sum(row.seconds for row in phase.bottlenecks if row.suspect not in ACROSS)
    assert parts == pytest.approx(phase.seconds)


def test_a_wait_for_a_core_that_was_not_measured_is_no_zero(snapshot: SnapshotAssertion) -> None:
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040)
    waited(sim, 5100, operator=(0.5, None), kwok=(0.1, None), kube_apiserver=(0.1, 0.2))
    phase = finished(sim, 5100)
    assert {suspect for suspect in seconds(phase) if suspect.endswith("core-wait")} == {"api-server-core-wait"}
    assert "operator-core-wait: " in phase.missing["bottlenecks"]
    assert phase.missing["bottlenecks"] == snapshot


def test_an_operator_that_waits_for_the_api_server() -> None:
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040, took=5)
    for ms in range(100, 4900, 100):
        sim.request(ms, 80, verb="create", resource="services", namespace="t", name=f"s{ms}", code=201)
    clocks(sim, 5100, busy={"operator": (100, 5100, 0.1)})
    found = seconds(finished(sim, 5100))
    # 80 of every 100 ms; the time on CPU is taken out of the gaps first.
    assert found["operator-api"] == pytest.approx(48 * 0.08, abs=0.05)
    assert found["operator-cpu"] == pytest.approx(0.49, abs=0.02)


def test_what_only_the_client_sees_of_a_request_is_the_apis_too(snapshot: SnapshotAssertion) -> None:
    latency = 'rest_client_request_duration_seconds_{}{{host="h",verb="POST"}}'
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040, took=10)
    for ms in range(140, 4900, 100):
        sim.request(ms, 10, verb="create", resource="services", namespace="t", name=f"s{ms}", code=201)
    clocks(sim, 5100, busy={"operator": (0, 0, 0)})
    scrapes(sim, 5100, {latency.format("sum"): 52 * 0.090, latency.format("count"): 52})
    phase = finished(sim, 5100)
    assert seconds(phase)["operator-api"] == pytest.approx(48 * 0.09 + 0.09, abs=0.1)
    evidence = next(row.evidence for row in phase.bottlenecks if row.suspect == "operator-api")
    assert "90.0 ms each" in evidence
    assert " 80.0 ms " in evidence
    assert evidence == snapshot


def test_an_operator_held_by_its_rate_limit() -> None:
    limiter = 'rest_client_rate_limiter_duration_seconds_sum{host="h",verb="POST"}'
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040, took=5)
    for ms in range(100, 4900, 100):
        sim.request(ms, 20, verb="create", resource="services", namespace="t", name=f"s{ms}", code=201)
    clocks(sim, 5100, busy={"operator": (0, 0, 0)})
    scrapes(sim, 5100, {limiter: 200.0})
    found = seconds(finished(sim, 5100))
    assert found["operator-rate-limit"] == pytest.approx(4.9, abs=0.05)
    assert found["operator-api"] < 0.02
    assert found["held"] == pytest.approx(0.06, abs=0.02)


def test_a_limit_that_is_never_free_is_what_is_waited_for_whatever_others_take() -> None:
    """Other programs have the cores, too: with them the limit would let no more requests through."""
    limiter = 'rest_client_rate_limiter_duration_seconds_sum{host="h",verb="POST"}'
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040, took=5)
    for ms in range(100, 4900, 100):
        sim.request(ms, 80, verb="create", resource="services", namespace="t", name=f"s{ms}", code=201)
    waited(sim, 5100, operator=(0.2, 0.5), kube_apiserver=(0.5, 5.0))
    scrapes(sim, 5100, {limiter: 100.0})
    found = seconds(finished(sim, 5100))
    assert found["operator-rate-limit"] >= 0.9 * 4.9
    assert found["operator-core-wait"] + found["api-server-core-wait"] <= 0.1 * 4.9


def test_no_more_is_the_rate_limits_than_requests_waited_for_it() -> None:
    limiter = 'rest_client_rate_limiter_duration_seconds_sum{host="h",verb="POST"}'
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040, took=5)
    clocks(sim, 5100, busy={"operator": (0, 0, 0)})
    scrapes(sim, 5100, {limiter: 0.5})
    found = seconds(finished(sim, 5100))
    assert found["operator-rate-limit"] == pytest.approx(0.5, abs=0.01)
    assert found["operator-idle"] == pytest.approx(4.4, abs=0.05)
    assert found["held"] == pytest.approx(0.06, abs=0.05)


def test_keys_that_wait_for_a_worker(snapshot: SnapshotAssertion) -> None:
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=5000, bind=5020, ready=5040, took=5)
    scrapes(
        sim,
        5100,
        {
            'workqueue_queue_duration_seconds_sum{controller="podclique",name="podclique"}': 80.0,
            'workqueue_work_duration_seconds_sum{controller="podclique",name="podclique"}': 9.0,
            'controller_runtime_max_concurrent_reconciles{controller="podclique"}': 2.0,
        },
    )
    phase = finished(sim, 5100)
    assert seconds(phase)["operator-queue"] == pytest.approx(4.5)
    evidence = next(row.evidence for row in phase.bottlenecks if row.suspect == "operator-queue")
    assert " podclique " in evidence
    assert "2 workers" in evidence
    assert evidence == snapshot


def test_an_idle_operator_waits_for_those_that_others_wait_for() -> None:
    """Pods whose gate opens when others are ready: meanwhile it is kwok who is waited for, not the operator."""
    sim = simulation()
    sim.phase("deploy", 100, 4100, pods_ready=pods(2, ready=True))
    for index, (gate, ready) in enumerate(((110, 3100), (3110, 4000))):
        name = f"pod-{index}"
        sim.write(PODS, name, 100, verb="create", fields={}, took=1)
        sim.write(PODS, name, gate, verb="patch", fields={}, took=1)
        sim.write(PODS, name, ready, verb="patch", user="kwok", fields={READY: "True"}, took=1)
    clocks(sim, 4100, busy={"operator": (0, 0, 0)})
    found = seconds(finished(sim, 4100))
    assert found["kwok"] == pytest.approx(3.9, abs=0.05)
    assert found["held"] == pytest.approx(0.1, abs=0.05)


def test_a_bound_api_server_and_a_saturated_machine(snapshot: SnapshotAssertion) -> None:
    sim = simulation()
    sim.phase("deploy", 100, 4100, pods_ready=pods(4, ready=True))
    deploy(sim, create=4000, bind=4020, ready=4040)
    clocks(sim, 4100, busy={"operator": (100, 4100, 0.5), "kube-apiserver": (100, 2100, 1.5)})
    phase = finished(sim, 4100)
    found = seconds(phase)
    assert found["api-server"] == pytest.approx(2.0, abs=0.11)
    assert found["machine"] == pytest.approx(2.0, abs=1.01)
    evidence = next(row.evidence for row in phase.bottlenecks if row.suspect == "machine")
    assert "kube-apiserver 60 %, operator 40 %" in evidence
    assert evidence == snapshot


@pytest.mark.parametrize(
    ("user", "suspect"),
    [
        ("kube-controller-manager", "garbage-collector"),
        ("system:serviceaccount:kube-system:generic-garbage-collector", "garbage-collector"),
        ("system:serviceaccount:kube-system:namespace-controller", "namespace-controller"),
    ],
)
def test_deletions_wait_for_the_garbage_collector_then_for_kwok(user: str, suspect: str) -> None:
    sim = simulation(identities=COLLECTOR)
    sim.phase("deploy", 50, 90, pods_created=pods(3))
    for index in range(3):
        sim.write(PODS, f"pod-{index}", 55, verb="create", fields={}, took=1)
    sim.phase("delete", 100, 6100, pods_gone=pods(0))
    for index in range(3):
        name = f"pod-{index}"
        sim.write(PODS, name, 4099, verb="delete", user=user, fields={READY: "True"}, took=1)
        sim.write(PODS, name, 6000, verb="delete", user="kwok", took=1)
    sim.add(rec.Closed(at=sim.at(6500), reason="stopped"))
    found = seconds(analyse(sim.records()).phases[1])
    assert found[suspect] == pytest.approx(4.0, abs=0.01)
    assert found["kwok"] == pytest.approx(1.9, abs=0.01)


def test_a_deletecollection_is_a_step_of_each_of_its_objects() -> None:
    sim = simulation()
    sim.phase("deploy", 50, 90, pods_created=pods(3))
    for index in range(3):
        sim.write(PODS, f"pod-{index}", 55, verb="create", fields={}, took=1)
    sim.phase("delete", 100, 4100, pods_gone=pods(0))
    sim.request(1000, 100, verb="deletecollection", resource="pods", namespace="t")
    for index in range(3):
        name = f"pod-{index}"
        sim.events.append((sim.at(1100), PODS, name, "modified", {MARKED: "2026-01-31T12:00:00Z"}))
        sim.write(PODS, name, 4000, verb="delete", user="kwok", took=1)
    sim.add(rec.Closed(at=sim.at(4500), reason="stopped"))
    found = seconds(analyse(sim.records()).phases[1])
    assert found["kwok"] == pytest.approx(2.9, abs=0.01)
    assert found["operator-api"] == pytest.approx(0.1, abs=0.01)


def test_creates_without_a_name_belong_to_the_pods_that_were_seen() -> None:
    sim = simulation()
    sim.phase("deploy", 100, 3100, pods_ready=pods(3, ready=True))
    for index in range(3):
        name = f"pod-{index}"
        sim.write(PODS, name, 1099, verb="create", fields={}, took=1, logged_name="")
        sim.write(PODS, name, 3000, verb="patch", user="kwok", fields={READY: "True"}, took=1)
    clocks(sim, 3100, busy={"operator": (0, 1100, 1.0)})
    found = seconds(finished(sim, 3100))
    assert found["operator-cpu"] == pytest.approx(1.0, abs=0.06)
    assert found["kwok"] == pytest.approx(1.9, abs=0.01)


def test_the_named_object_counts_when_no_other_waits() -> None:
    sim = simulation()
    sim.phase("deploy", 100, 3100, pods_ready=pods(4, ready=True), pcs_available=available(4))
    sim.write(PCS, "pcs", 110, verb="create", user="harness", fields={}, took=1)
    deploy(sim, create=120, bind=140, ready=1100, took=5)
    sim.write(PCS, "pcs", 2900, verb="patch", subresource="status", fields={"status.availableReplicas": 4}, took=100)
    clocks(sim, 3100, busy={"operator": (1100, 2900, 1.0)})
    found = seconds(finished(sim, 3100))
    assert found["kwok"] == pytest.approx(0.96, abs=0.01)
    assert found["operator-cpu"] == pytest.approx(1.8, abs=0.1)


def test_who_made_the_pods_may_be_the_harness_itself(snapshot: SnapshotAssertion) -> None:
    sim = simulation()
    sim.phase("deploy", 100, 2100, pods_created=pods(2))
    for index in range(2):
        sim.write(PODS, f"pod-{index}", 2000, verb="create", user="harness", fields={}, took=10)
    phase = finished(sim, 2100)
    assert seconds(phase)["unattributed"] == pytest.approx(1.91, abs=0.01)
    evidence = next(row.evidence for row in phase.bottlenecks if row.suspect == "unattributed")
    assert "harness was waited for 1.91 s" in evidence
    assert evidence == snapshot


def test_without_the_audit_log_only_what_the_clocks_tell_is_there() -> None:
    sim = simulation(audited=False)
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=1000, bind=2000, ready=3000)
    clocks(sim, 5100, busy={"operator": (100, 5100, 1.0), "kube-apiserver": (100, 5100, 0.5)})
    phase = finished(sim, 5100)
    assert set(seconds(phase)) == {"api-server", "machine"}
    assert "audit log" in phase.missing["bottlenecks"]


def test_without_the_operators_clock_nothing_is_said_about_its_cpu(snapshot: SnapshotAssertion) -> None:
    sim = simulation()
    sim.phase("deploy", 100, 5100, pods_ready=pods(4, ready=True))
    deploy(sim, create=1000, bind=2000, ready=3000)
    phase = finished(sim, 5100)
    assert not {"operator-cpu", "operator-rate-limit", "operator-queue", "api-server"} & set(seconds(phase))
    for suspect in ("operator-cpu", "operator-rate-limit", "operator-queue", "api-server"):
        assert f"{suspect}: " in phase.missing["bottlenecks"]
    # It may have been on CPU all the while until the pods were there: that does not count as unattributed.
    assert seconds(phase)["held"] == pytest.approx(2.1, abs=0.01)
    evidence = next(row.evidence for row in phase.bottlenecks if row.suspect == "unattributed")
    assert "0.89 s" in evidence
    assert evidence == snapshot


@pytest.mark.parametrize("milestones", [{}, {"held": Timer(seconds=1)}])
def test_a_phase_that_waits_for_no_object_has_no_table(milestones: dict[str, Any]) -> None:
    sim = simulation()
    sim.phase("steady-state", 100, 5100, **milestones)
    phase = finished(sim, 5100)
    assert phase.bottlenecks == ()
    assert phase.bottleneck == ""
    assert "no milestone" in phase.missing["bottlenecks"]


def test_what_comes_after_the_last_milestone_is_the_tests() -> None:
    """A hold, and writes in it."""
    sim = simulation()
    sim.phase("deploy", 100, 9100, pods_ready=pods(4, ready=True))
    deploy(sim, create=200, bind=300, ready=1100)
    for index in range(4):
        sim.write(PODS, f"pod-{index}", 8000, verb="patch", fields={READY: "True"}, took=5)
    found = seconds(finished(sim, 9100))
    assert found["held"] == pytest.approx(8.0, abs=0.1)


def test_a_phase_that_timed_out_has_a_table() -> None:
    sim = simulation()
    sim.phase("delete", 100, 5100, "timeout", pcs_gone=gone())
    sim.add(rec.MilestoneMet(at=sim.at(100) - 2, phase="other", name="other"))
    sim.request(200, 10, verb="delete", resource="podcliquesets", group="grove.io", namespace="t", name="pcs",
                user="harness")  # fmt: skip
    phase = finished(sim, 5100)
    assert seconds(phase)["unattributed"] == pytest.approx(5.0)
    assert phase.seconds * S == pytest.approx(5 * S)
