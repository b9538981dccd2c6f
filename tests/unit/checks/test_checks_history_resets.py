"""Counters that began anew: a restart explains it, nothing else does."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.metrics.counters import increases
from pytest_grovescale.checks import CounterResets
from tests.unit.checks.scraped_run import ACTIVE, DONE, FAILED, TIMES, ScrapedRun, controllers

START = "process_start_time_seconds"


def served(done: float, failed: float = 2, *, start: float = 100.0) -> dict[str, float]:
    return {
        **controllers(DONE, {"a": done, "b": 5}, result="success"),
        **controllers(FAILED, {"a": failed}),
        **controllers(f"{TIMES}_count", {"a": done + failed}),
        **controllers(ACTIVE, {"a": 3 if done < 5 else 0}),
        START: start,
    }


def test_counters_that_only_grow_pass(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    for done in (1, 1, 8):
        run.scrape(served(done))
    verdict, text = run.judged(CounterResets())
    assert verdict == "pass"
    assert " 0 ≤ 0" in text
    assert text == snapshot


def retyped(*values: float, gauge_from: int) -> ScrapedRun:
    """Return a run of a counter that is called a gauge from some scrape on."""
    run = ScrapedRun()
    for scrape, value in enumerate(values):
        run.scrape({"my_total": value}, types={"my_total": "gauge" if scrape >= gauge_from else "counter"})
    return run


def test_a_family_counts_by_the_type_that_it_had_then(snapshot: SnapshotAssertion) -> None:
    verdict, text = retyped(10, 20, 5, 30, 2, 8, gauge_from=4).judged(CounterResets())
    assert verdict == "fail"
    assert " 1 > 0" in text
    assert "my_total 20 → 5" in text
    assert "30 → 2" not in text
    assert text == snapshot
    assert retyped(10, 20, 5, 30, 2, 8, gauge_from=2).judged(CounterResets())[0] == "inconclusive"


def test_one_that_becomes_another_type_is_no_counter_that_never_fell(snapshot: SnapshotAssertion) -> None:
    verdict, text = retyped(10, 20, 5, gauge_from=2).judged(CounterResets())
    assert verdict == "inconclusive"
    assert "my_total, " in text
    assert text == snapshot


def test_what_it_grew_by_is_known_while_it_counts() -> None:
    target = retyped(10, 20, 5, 30, 2, gauge_from=4).target()
    assert increases(target, "my_total") == [0, 10, 15, 40, None]


def test_one_that_falls_fails_with_its_values(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    for done, edge in ((9, "start:deploy"), (4, "end:deploy"), (3, "end:delete")):
        run.scrape(served(done), edge=edge)
    verdict, text = run.judged(CounterResets())
    assert verdict == "fail"
    assert " 4 > 0" in text
    assert f'{DONE}{{controller="a",result="success"}} 9 → 4' in text
    assert text == snapshot
    assert run.judged(CounterResets(max=4))[0] == "pass"


def test_a_restart_of_the_process_explains_it_and_is_reported(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    for done, start in ((9, 100.0), (1, 200.0), (4, 200.0)):
        run.scrape(served(done, 0 if start > 100 else 2, start=start), edge=f"end:{done}")
    verdict, text = run.judged(CounterResets())
    assert verdict == "pass"
    assert " 1 restart " in text
    assert text == snapshot


def test_a_restart_explains_a_series_that_is_served_again_only_later() -> None:
    """A counter by code and method has no series in the new process until it has something to count."""
    run = ScrapedRun()
    for done, failed, start in ((20, 9, 100.0), (1, None, 200.0), (4, 2, 200.0)):
        samples = served(done, failed or 0, start=start)
        run.scrape({series: value for series, value in samples.items() if failed is not None or FAILED not in series})
    assert run.judged(CounterResets())[0] == "pass"
    (late,) = (series for series in served(1) if FAILED in series)
    assert increases(run.target(), late) == [0.0, None, 2.0]


def test_a_restart_of_an_endpoint_without_start_time_shows_in_all_its_counters() -> None:
    run = ScrapedRun()
    for done, failed in ((9, 4), (2, 0)):
        kept = {series: value for series, value in served(done, failed).items() if 'controller="b"' not in series}
        run.scrape({series: value for series, value in kept.items() if series != START})
    assert run.judged(CounterResets())[0] == "pass"
    one = ScrapedRun()
    for done in (9, 2):
        one.scrape({series: value for series, value in served(done).items() if series != START})
    assert one.judged(CounterResets())[0] == "fail"


def test_the_measured_end_of_the_process_explains_it_where_no_start_time_is_served() -> None:
    """Another process may have counted more of one thing than the one before did."""
    run = ScrapedRun()
    run.scrape({series: value for series, value in served(9).items() if series != START})
    fell = {series: value for series, value in served(2, failed=7).items() if series != START}
    run.end_process()
    run.scrape(fell)
    verdict, text = run.judged(CounterResets())
    assert verdict == "pass"
    assert " 1 restart " in text
    (late,) = (series for series in fell if FAILED in series)
    assert increases(run.target(), late) == [0.0, 7.0]
    again = ScrapedRun()
    again.scrape({series: value for series, value in served(9).items() if series != START})
    again.scrape(fell)
    assert again.judged(CounterResets())[0] == "fail"


def test_a_time_of_creation_that_moves_is_a_reset_though_the_counter_has_overtaken() -> None:
    run = ScrapedRun()
    series = f'{DONE}{{controller="a",result="success"}}'
    run.scrape(served(4), created={series: "100.5"})
    run.scrape(served(9), created={series: "100.5"})
    assert run.judged(CounterResets())[0] == "pass"
    run.scrape(served(12), created={series: "107.25"})
    verdict, text = run.judged(CounterResets())
    assert verdict == "fail"
    assert f"{series} 9 → 12" in text


def test_a_gauge_may_fall() -> None:
    run = ScrapedRun()
    for value in (5.0, 1.0):
        run.scrape({**controllers(ACTIVE, {"a": value}), **controllers(DONE, {"a": 1}, result="success")})
    assert run.judged(CounterResets())[0] == "pass"


def test_one_scrape_and_no_counter_are_no_answer(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(served(4))
    assert run.judged(CounterResets())[0] == "inconclusive"
    gauges = ScrapedRun()
    for value in (5.0, 1.0):
        gauges.scrape(controllers(ACTIVE, {"a": value}))
    verdict, text = gauges.judged(CounterResets())
    assert verdict == "inconclusive"
    assert text == snapshot


def test_a_sum_of_what_is_under_way_may_fall() -> None:
    run = ScrapedRun()
    for value in (0.3, 0.1, 0.2):
        name = "http_server_requests_active_seconds"
        types = {"my_total": "counter", name: "summary"}
        run.scrape({"my_total": 1, f"{name}_sum": value, f"{name}_count": 1}, types=types)
    assert run.judged(CounterResets())[0] == "pass"
