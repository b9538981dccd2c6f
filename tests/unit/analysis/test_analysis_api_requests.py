"""The operator's own count of its requests, and what it takes the place of."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis import figures
from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.api_requests import READS
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.analysis.run_metrics import default_gates, metrics_of
from pytest_grovescale.errors import NotMeasuredError
from pytest_grovescale.recording import records as rec

from .simulated import PCS, PODS, T0, Simulation, pods

BORN = "process_start_time_seconds"


def series(method: str, code: int | str = 200, host: str = "a:6443") -> str:
    return f'rest_client_requests_total{{code="{code}",host="{host}",method="{method}"}}'


def scraped(before: dict[str, float], after: dict[str, float], *, audited: bool = False) -> Simulation:
    sim = Simulation(audited=audited)
    sim.watch(PODS, 1)
    sim.scrape(90, {BORN: 7.0, **before}, edge="start:p")
    sim.phase("p", 100, 1000, made=pods(0))
    sim.scrape(1010, {BORN: 7.0, **after}, edge="end:p")
    return sim


def phase(sim: Simulation) -> PhaseResult:
    return analyse(sim.records()).phases[0]


def test_rows_are_differences_and_a_series_that_comes_counts_in_full() -> None:
    found = phase(
        scraped(
            {series("GET"): 10, series("POST", 201): 3},
            {series("GET"): 14, series("POST", 201): 3, series("PATCH", 409): 2, series("GET", "<error>"): 1},
        )
    )
    rows = [(row.method, row.code, row.count, row.total) for row in found.client_requests]
    assert rows == [("GET", "200", 4, 14), ("GET", "<error>", 1, 1), ("PATCH", "409", 2, 2), ("POST", "201", 0, 3)]
    assert found.traffic_source == "metrics"
    assert "audit log is no source" in found.missing["audit"]


def test_hosts_are_one_api_server() -> None:
    found = phase(
        scraped({series("GET"): 1, series("GET", host="b"): 5}, {series("GET"): 2, series("GET", host="b"): 7})
    )
    assert [(row.count, row.total) for row in found.client_requests] == [(3, 9)]


def test_an_audit_log_stays_the_better_source() -> None:
    sim = scraped({series("GET"): 1}, {series("GET"): 2}, audited=True)
    sim.request(1100, user="recorder", verb="get", path="/readyz")
    found = phase(sim)
    assert (found.traffic_source, found.client_requests[0].count) == ("audit", 1)


def test_a_log_that_broke_off_falls_back() -> None:
    sim = scraped({series("GET"): 1}, {series("GET"): 2}, audited=True)
    sim.add(rec.SourceFailed(at=sim.at(500), source="audit", message="rotated away"))
    assert phase(sim).traffic_source == "metrics"


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ({series("GET"): 20, BORN: T0 / 1e9}, "restarted"),
        ({series("GET"): 2}, "restarted"),
        ({}, "rest_client_requests_total"),
    ],
    ids=["born later", "fell", "gone"],
)
def test_what_cannot_be_counted_is_left_out_and_says_why(
    after: dict[str, float], why: str, snapshot: SnapshotAssertion
) -> None:
    sim = Simulation(audited=False)
    sim.scrape(90, {BORN: 7.0, series("GET"): 10}, edge="start:p")
    sim.phase("p", 100, 1000)
    gone = [] if series("GET") in after else [series("GET")]
    sim.add(rec.Scraped(at=sim.at(1010), target="operator", edge="end:p", samples=after, gone=gone))
    found = phase(sim)
    assert (found.client_requests, found.traffic_source) == ((), "")
    assert why in found.missing["client_requests"]
    assert found.missing["client_requests"] == snapshot
    with pytest.raises(NotMeasuredError, match=why):
        figures.client_requests(found)


def test_figures_bound_requests_for_objects_from_above() -> None:
    found = figures.client_requests(
        phase(scraped({series("PUT"): 5}, {series("PUT"): 5, series("POST", 201): 4, series("GET"): 7}))
    )
    assert (found.requests, found.by_method) == (11, {"GET": 7, "POST": 4, "PUT": 0})
    assert (found.at_most(rec.WRITES), found.at_most(READS), found.at_most(["delete"])) == (4, 7, 0)
    assert (found.ever_counted(["update"]), found.ever_counted(["delete"])) == (True, False)


def test_a_run_without_a_log_has_the_own_count_as_its_metric_and_gates_on_it() -> None:
    metrics = metrics_of(analyse(scraped({series("GET"): 1}, {series("GET"): 9}).records()))
    assert metrics["client_requests:p"] == 8
    assert "api:p" not in metrics
    assert "client_requests:p" in default_gates(metrics).gated


def test_a_noops_writes_are_known_to_have_changed_their_objects_or_not() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("p", 1000, 5000)
    sim.write(PODS, "a", 900, verb="patch", fields={}, shown=False)  # before the trigger
    sim.add(rec.Mark(at=sim.at(1100), label="trigger", count=1))
    sim.write(PODS, "a", 1101, verb="patch", fields={}, user="harness")
    sim.write(PODS, "a", 2000, verb="patch", fields={}, shown=False)
    sim.write(PODS, "a", 2100, verb="update", fields={}, shown=False, subresource="status")
    sim.write(PODS, "b", 2200, verb="update", fields={})
    sim.write(PODS, "b", 2300, verb="patch", fields={}, shown=False, code=409)
    sim.write(PCS, "c", 2400, verb="patch", fields={}, shown=False)  # not watched
    sim.phase("next", 5100, 6000)
    sim.write(PODS, "a", 5200, verb="patch", fields={}, user="harness")
    effects = phase(sim).write_effects
    assert effects is not None
    assert (effects.writes, effects.without_effect) == (3, 2)


def test_a_json_patch_that_another_write_overtook_is_not_an_invalid_one() -> None:
    sim = Simulation(audited=True)
    sim.phase("p", 1000, 5000)
    patch: dict[str, Any] = {"verb": "patch", "resource": "pods", "namespace": "t"}
    for at, name, code in ((1100, "a", 422), (1150, "a", 422), (1200, "a", 200), (1300, "b", 200), (1400, "b", 422)):
        sim.request(at, **patch, name=name, code=code)
    sim.request(1500, **patch, name="c", code=422)
    sim.request(1600, **patch, name="c", user="harness")
    sim.request(2000, user="recorder", verb="get", path="/readyz")
    rows = [(row.identity, row.code, row.count, row.overtaken) for row in phase(sim).api if row.resource == "pods"]
    assert rows == [("harness", 200, 1, 0), ("operator", 200, 2, 0), ("operator", 422, 4, 2)]


def triggered(*changes: float, triggers: int = 1) -> str:
    """Return what was under way when the first trigger came, at 2000 ms of a phase that ends at 5000."""
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("p", 1000, 5000)
    for number, at in enumerate(sorted(changes)):
        sim.write(PODS, "a", at, verb="patch" if number else "create", fields={"status.n": number})
    if triggers:
        sim.add(rec.Mark(at=sim.at(2000), label="trigger", count=triggers))
    return phase(sim).under_way


def test_what_was_under_way_when_a_trigger_came_is_said_once_it_came_to_rest() -> None:
    assert triggered(100, 1500, 2020, 2100).startswith("pods still changed ")
    assert triggered(100, 2100) == ""
    assert triggered(100, 500) == ""
    assert triggered(1500, triggers=0) == ""
    # What never ends is no end of earlier work.
    assert triggered(*range(1100, 5000, 100)) == ""


def test_without_a_trigger_or_a_log_no_effect_of_writes_is_known() -> None:
    sim = Simulation()
    sim.watch(PODS, 1)
    sim.phase("p", 1000, 5000)
    sim.write(PODS, "a", 2000, verb="patch", fields={})
    assert phase(sim).write_effects is None
