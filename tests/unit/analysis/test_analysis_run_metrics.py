"""Metrics of a run: what is measured has a key, what is not has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.controller_result import ReconcileRow, Saturation
from pytest_grovescale.analysis.phase_result import ApiRow, CpuResult, MilestoneResult, PhaseResult
from pytest_grovescale.analysis.result import Result, TestResult
from pytest_grovescale.analysis.run_metrics import (
    default_gates,
    describe,
    metrics_of,
    phase_of,
    saturated_phases,
    units_of,
    window_name,
    windows_of,
)
from pytest_grovescale.recording.records import Machine

from .simulated import Simulation

SAMPLE = Path(__file__).parents[3] / "reports/sample/result.json"


def cpu(seconds: float, window_s: float = 10.0, **other: Any) -> CpuResult:
    return CpuResult(
        process="operator",
        seconds=seconds,
        window_s=window_s,
        cores=seconds / window_s,
        rss_bytes=90_000_000,
        peak_rss_bytes=100_000_000,
        **other,
    )


def request(verb: str, count: int, category: Any = "object", resource: str = "pods") -> ApiRow:
    return ApiRow(
        identity="operator",
        user="operator",
        verb=verb,
        resource=resource,
        code=200,
        category=category,
        count=count,
        p50_ms=1.0,
        p99_ms=2.0,
    )


def phase(name: str, **fields: Any) -> PhaseResult:
    values: dict[str, Any] = {"outcome": "passed", "started": "2026-01-31T12:00:00.000Z", "seconds": 10.0}
    measured: dict[str, Any] = {"cpu": (cpu(0.1),), "audit_complete": True, "identities_seen": ("operator",)}
    return PhaseResult(name=name, timeout_s=60, **{**values, **measured, **fields})


def window(
    number: int, seconds: float, *, idle: float = 0.02, writes: int = 0, repeat: int = 0, **fields: Any
) -> list[PhaseResult]:
    name = window_name(number, repeat)
    rows = (ReconcileRow(controller="podcliqueset", result="success", count=20),)
    api = (request("get", 40), request("update", 5, "lease"), *((request("patch", writes),) if writes else ()))
    twin = phase(f"{name} (idle)", cpu=(cpu(idle),))
    values: dict[str, Any] = {"cpu": (cpu(seconds),), "api": api, "reconciles": rows, "triggers": 20}
    return [twin, phase(name, idle_twin=twin.name, **{**values, **fields})]


def run(*phases: PhaseResult, **fields: Any) -> TestResult:
    machine = Machine(fingerprint="", cpu="", cores=2, memory_bytes=1, kernel="", python="")
    values: dict[str, Any] = {"scenario_outcome": "passed", "started": "", "seconds": 1.0, "machine": machine}
    return TestResult(test="t", run="r", version="0", phases=phases, **{**values, **fields})


DEPLOY = phase(
    "deploy",
    seconds=12.0,
    milestones=(
        MilestoneResult(
            name="pods-ready", condition="", met=True, observed_s=11.5, server_s=(11.0, 11.25), clock="server"
        ),
        MilestoneResult(name="late", condition="", met=False),
    ),
    cpu=(cpu(4.3),),
    api=(request("create", 1000), request("create", 30, "event"), request("update", 6, "lease")),
    reconciles=(
        ReconcileRow(controller="a", result="success", count=500),
        ReconcileRow(controller="b", result="error", count=2),
    ),
    series=321,
)


def test_metrics_of_a_phase() -> None:
    found = metrics_of(run(DEPLOY))
    assert {key: figure for key, figure in found.items() if figure or not key.startswith("verb:")} == {
        "wall:deploy": 12.0,
        "milestone:deploy/pods-ready": 11.25,
        "cpu:deploy": 4.3,
        "rss:deploy": 100_000_000,
        "api:deploy": 1030,
        "verb:deploy/create": 1000,
        "events:deploy": 30,
        "writes:deploy": 1000,
        "reconciles:deploy": 502,
        "series:deploy": 321,
    }


def test_series_are_those_of_the_whole_scrape_at_the_phases_end() -> None:
    sim = Simulation()
    sim.phase("p", 100, 1000)
    sim.scrape(90, {"go_goroutines": 5, 'x{a="1"}': 1}, edge="start:p")
    sim.scrape(1001, {'x{a="2"}': 1}, edge="end:p")
    sim.phase("unscraped", 2000, 3000)
    found = metrics_of(analyse(sim.records()))
    assert found["series:p"] == 3
    assert "series:unscraped" not in found


def test_what_was_not_measured_is_left_out() -> None:
    dark = msgspec.structs.replace(DEPLOY, audit_complete=False, cpu=(), reconciles=(), series=None)
    assert set(metrics_of(run(dark))) == {"wall:deploy", "milestone:deploy/pods-ready"}


def test_a_part_of_the_cpu_is_not_the_cpu() -> None:
    partly = msgspec.structs.replace(DEPLOY, cpu=(cpu(4.3, lower_bound=True, restarts=1),))
    assert "cpu:deploy" not in metrics_of(run(partly))


def test_a_phase_that_failed_has_no_metrics() -> None:
    assert metrics_of(run(msgspec.structs.replace(DEPLOY, outcome="timeout"))) == {}


def test_a_hold_is_no_wall_time() -> None:
    assert "wall:steady-state" not in metrics_of(run(phase("steady-state", hold_s=30.0)))


def test_cpu_of_a_run_with_profilers_is_not_the_operators() -> None:
    found = metrics_of(run(DEPLOY, *window(1, 0.22), profiled=True))
    assert "api:deploy" in found
    assert not {"cpu:deploy", "noop_cpu", "noop_cpu_per_reconcile"} & found.keys()


def test_noop_cpu_is_the_window_less_its_twin_per_trigger() -> None:
    [found] = windows_of(run(*window(1, 0.22)))
    assert found == {
        "noop_cpu": pytest.approx(0.01),
        "noop_cpu_per_reconcile": pytest.approx(0.01),
        "noop_writes": 0,
        "noop_requests": 2,
        "noop_reconciles": 1,
        "idle_cpu": 0.005,
        "idle_requests": 0,
    }


def test_a_twin_of_another_length_is_scaled() -> None:
    twin, busy = window(1, 0.22)
    twin = msgspec.structs.replace(twin, cpu=(cpu(0.04, window_s=20.0),))
    assert windows_of(run(twin, busy))[0]["noop_cpu"] == pytest.approx(0.01)


def test_without_a_twin_there_is_no_noop_cpu() -> None:
    _, busy = window(1, 0.22)
    [found] = windows_of(run(busy))
    assert "noop_cpu" not in found
    assert found["noop_writes"] == 0


def test_a_window_that_failed_keeps_its_place() -> None:
    found = windows_of(run(*window(1, 0.2), *window(2, 0.2, outcome="failed"), *window(3, 0.4, writes=20)))
    assert found[1] == {}
    assert [w.get("noop_writes") for w in found] == [0, None, 1]


def test_a_window_that_was_measured_again_is_a_window() -> None:
    assert windows_of(run(*window(1, 0.22, repeat=2))) == windows_of(run(*window(1, 0.22)))


def test_metrics_of_all_windows_together() -> None:
    found = metrics_of(run(DEPLOY, *window(1, 0.22), *window(2, 0.42)))
    assert found["noop_cpu"] == pytest.approx(0.015)
    assert not [key for key in found if "noop-" in key]


def test_saturated_phases() -> None:
    full = Saturation(busy_share=0.99, saturated=True)
    assert saturated_phases(run(msgspec.structs.replace(DEPLOY, saturation=full), phase("delete"))) == ("deploy",)


def test_gated_by_default_is_what_does_not_depend_on_who_else_runs() -> None:
    found = metrics_of(run(DEPLOY, *window(1, 0.22), phase("steady-state")))
    gates = default_gates(found)
    assert gates.gated[:3] == ("cpu:deploy", "api:deploy", "reconciles:deploy")
    assert {"noop_cpu", "noop_writes", "noop_requests", "noop_reconciles"} < set(gates.gated)
    assert {"idle_cpu", "idle_requests", "noop_reconciles"} < set(gates.guards) < set(gates.gated)
    assert not {"cpu:deploy", "api:deploy", "noop_cpu"} & set(gates.guards)


def test_verbs_and_events_are_gated_on_where_there_are_enough_of_them() -> None:
    figures = {"wall:deploy": 1.0, "verb:deploy/patch": 500.0, "verb:deploy/get": 3.0, "events:deploy": 40.0}
    assert default_gates(figures).gated == ("verb:deploy/patch", "events:deploy")


def test_words_and_units() -> None:
    assert (describe("cpu:deploy"), units_of("cpu:deploy")) == ("CPU of the operator, deploy", "s")
    assert describe("milestone:deploy/pods-ready") == "deploy: pods-ready"
    assert (phase_of("milestone:deploy/pods-ready"), phase_of("noop_cpu")) == ("deploy", "")
    with pytest.raises(KeyError):
        units_of("function:reconcile")


def test_metrics_of_a_recorded_run() -> None:
    result = msgspec.json.decode(SAMPLE.read_bytes(), type=Result)
    found = metrics_of(result.tests[0])
    assert {"cpu:deploy", "wall:delete", "milestone:deploy/pods-ready", "api:deploy", "rss:deploy"} <= found.keys()
    assert found["noop_writes"] == 0
    assert all(value >= 0 and units_of(key) and describe(key) for key, value in found.items())
