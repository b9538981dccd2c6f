"""Equations between series over a run: at rest, at work, and with something missing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks import Invariant
from pytest_grovescale.errors import UsageError
from tests.unit.checks.scraped_run import (
    ACTIVE,
    DONE,
    FAILED,
    LIMIT,
    OWN_CONFLICTS,
    OWN_ERRORS,
    SENT,
    TIMES,
    TYPES,
    ScrapedRun,
    controllers,
)

BY_CONTROLLER = f"sum({OWN_ERRORS}) by (controller) == sum({FAILED}) by (controller)"
CONFLICTS = f'sum(increase({OWN_CONFLICTS})) <= sum(increase({SENT}{{code="409",method=~"PUT|PATCH"}}))'


def errors(own: Mapping[str, float], built_in: Mapping[str, float], *, active: float = 0) -> dict[str, float]:
    conflicts = controllers(OWN_ERRORS, own, error_type="conflict")
    return {
        **conflicts,
        **controllers(OWN_ERRORS, dict.fromkeys(own, 1.0), error_type="internal"),
        **controllers(FAILED, {name: value + 1 for name, value in built_in.items()}),
        **controllers(ACTIVE, {"a": active}),
    }


def test_an_equation_that_holds_for_each_group_passes(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(errors({"a": 0, "b": 0}, {"a": 0, "b": 0}), edge="start:deploy")
    run.scrape(errors({"a": 7, "b": 2}, {"a": 7, "b": 2}), edge="end:deploy")
    verdict, text = run.judged(Invariant(BY_CONTROLLER))
    assert verdict == "pass"
    assert "controller=a: 8 " in text
    assert text == snapshot


def test_one_that_holds_only_of_all_together_fails_with_the_group(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(errors({"a": 0, "b": 0}, {"a": 0, "b": 0}), edge="start:deploy")
    run.scrape(errors({"a": 7, "b": 2}, {"a": 2, "b": 7}), edge="end:deploy")
    verdict, text = run.judged(Invariant(BY_CONTROLLER))
    assert verdict == "fail"
    assert "controller=a: 8 " in text
    assert text == snapshot
    assert run.judged(Invariant(f"sum({OWN_ERRORS}) == sum({FAILED})"))[0] == "pass"


def test_what_is_under_way_is_judged_by_its_own_tolerance(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(errors({"a": 0}, {"a": 0}), edge="start:deploy")
    run.scrape(errors({"a": 5}, {"a": 3}, active=4))
    run.scrape(errors({"a": 9}, {"a": 9}), edge="end:deploy")
    assert run.judged(Invariant(BY_CONTROLLER))[0] == "pass"
    assert run.judged(Invariant(BY_CONTROLLER, running=2))[0] == "pass"
    verdict, text = run.judged(Invariant(BY_CONTROLLER, running=1))
    assert verdict == "fail"
    assert text == snapshot


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (2, "pass"),
        (1, "fail"),
        # Nobody knows how much may be in hand.
        (None, "pass"),
    ],
)
def test_by_default_each_worker_may_have_one_event_in_hand(
    workers: float | None, expected: str, snapshot: SnapshotAssertion
) -> None:
    run = ScrapedRun()
    limits = controllers(LIMIT, {"a": workers, "b": 9}) if workers is not None else {}
    run.scrape(errors({"a": 0}, {"a": 0}) | limits, edge="start:deploy")
    run.scrape(errors({"a": 5}, {"a": 3}, active=1) | limits)
    run.scrape(errors({"a": 9}, {"a": 9}) | limits, edge="end:deploy")
    verdict, text = run.judged(Invariant(BY_CONTROLLER))
    assert verdict == expected
    assert text == snapshot
    assert run.judged(Invariant(BY_CONTROLLER, running="off"))[0] == "pass"


def test_what_is_no_count_of_events_is_judged_at_rest_only(snapshot: SnapshotAssertion) -> None:
    stated = Invariant(f"sum({TIMES}_sum) == sum(objects)")
    run = ScrapedRun()
    for apart, active in ((0, 0), (50, 1), (0, 0)):
        served = {f"{TIMES}_sum": 5.0 + apart, f"{TIMES}_count": 5.0, "objects": 5.0}
        served |= controllers(ACTIVE, {"a": active}) | controllers(LIMIT, {"a": 1})
        run.scrape(served, types={**TYPES, "objects": "gauge"}, edge="" if active else "end:deploy")
    assert run.judged(stated)[1] == snapshot


def test_scrapes_at_work_alone_prove_nothing_but_a_fault() -> None:
    run = ScrapedRun()
    limits = controllers(LIMIT, {"a": 1})
    run.scrape(errors({"a": 3}, {"a": 3}, active=1) | limits)
    assert run.judged(Invariant(BY_CONTROLLER))[0] == "inconclusive"
    assert run.judged(Invariant(BY_CONTROLLER, running=0))[0] == "pass"
    run.scrape(errors({"a": 9}, {"a": 4}, active=1) | limits)
    assert run.judged(Invariant(BY_CONTROLLER))[0] == "fail"


def test_an_edge_at_which_workers_work_is_not_at_rest(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(errors({"a": 5}, {"a": 3}, active=4), edge="end:deploy")
    verdict, text = run.judged(Invariant(BY_CONTROLLER))
    assert verdict == "inconclusive"
    assert text == snapshot


def test_without_gauges_of_workers_the_edges_are_at_rest() -> None:
    run = ScrapedRun()
    served = {series: value for series, value in errors({"a": 5}, {"a": 3}).items() if ACTIVE not in series}
    run.scrape(served, edge="end:deploy")
    assert run.judged(Invariant(BY_CONTROLLER))[0] == "fail"


def test_a_tolerance_is_for_rest_too() -> None:
    run = ScrapedRun()
    run.scrape(errors({"a": 5}, {"a": 3}), edge="end:deploy")
    assert run.judged(Invariant(BY_CONTROLLER, tolerance=2))[0] == "pass"
    assert run.judged(Invariant(BY_CONTROLLER, tolerance=1.9))[0] == "fail"


@pytest.mark.parametrize("refused", [0, 4])
def test_conflicts_are_no_more_than_the_requests_that_met_one(refused: float, snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(sent(conflicts=3, refused=3), edge="start:deploy")
    run.scrape(sent(conflicts=3 + refused, refused=7), edge="end:deploy")
    assert run.judged(Invariant(CONFLICTS))[0] == "pass"
    run.scrape(sent(conflicts=8, refused=7), edge="end:delete")
    verdict, text = run.judged(Invariant(CONFLICTS))
    assert verdict == "fail"
    assert text == snapshot


def test_a_code_that_was_never_answered_counts_as_none_where_codes_are_counted(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(sent(conflicts=0, refused=None), edge="end:deploy")
    verdict, text = run.judged(Invariant(CONFLICTS))
    assert verdict == "pass"
    assert text == snapshot
    run.scrape(sent(conflicts=1, refused=None), edge="end:delete")
    assert run.judged(Invariant(CONFLICTS))[0] == "fail"


def test_a_restart_takes_nothing_away_from_what_has_grown(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    for conflicts, refused, edge in ((0, 0, "start:a"), (5, 6, "end:a"), (1, 1, "start:b"), (3, 3, "end:b")):
        run.scrape(sent(conflicts=conflicts, refused=refused), edge=edge)
    verdict, text = run.judged(Invariant(f"sum(increase({OWN_CONFLICTS})) <= 7"))
    assert verdict == "fail"
    assert text == snapshot


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("sum(absent) == 0", " absent"),
        (f"sum({DONE}) == sum({FAILED})", DONE),
        (f'sum({FAILED}{{result="x"}}) == 0', "'result'"),
        (f'sum({ACTIVE}{{controller="z"}}) == 0', f'{ACTIVE}{{controller="z"}}'),
        (f"sum(increase({ACTIVE})) == 0", ACTIVE),
    ],
)
def test_a_missing_series_is_inconclusive_and_not_zero(expression: str, what: str, snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(errors({"a": 0}, {"a": 0}), edge="end:deploy")
    verdict, text = run.judged(Invariant(expression))
    assert verdict == "inconclusive"
    assert what in text
    assert text == snapshot


def test_the_family_of_a_histogram_says_what_its_samples_are(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape({"x_seconds_sum": 1, "x_seconds_count": 2}, types={"x_seconds": "histogram"}, edge="end:a")
    verdict, text = run.judged(Invariant("sum(x_seconds) == 0"))
    assert verdict == "inconclusive"
    assert "x_seconds_count, x_seconds_sum" in text
    assert text == snapshot
    assert run.judged(Invariant("sum(x_seconds_count) == 2"))[0] == "pass"


def test_a_metric_that_is_served_no_longer_leaves_a_doubt(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape(errors({"a": 2}, {"a": 2}), edge="start:deploy")
    run.scrape(controllers(FAILED, {"a": 9}), edge="end:deploy")
    verdict, text = run.judged(Invariant(BY_CONTROLLER))
    assert verdict == "inconclusive"
    assert OWN_ERRORS in text
    assert text == snapshot


def test_nan_equals_nothing() -> None:
    run = ScrapedRun()
    run.scrape({"x": float("nan"), "y": float("nan")}, types={"x": "gauge", "y": "gauge"}, edge="end:deploy")
    verdict, text = run.judged(Invariant("sum(x) == sum(y)"))
    assert (verdict, text.splitlines()[0]) == ("inconclusive", "sum(x) is NaN")


def test_a_wrong_expression_is_refused_where_it_is_written() -> None:
    with pytest.raises(UsageError, match="character 8"):
        Invariant("sum(a) = sum(b)")


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=6), st.integers(1, 50))
def test_a_constant_on_one_side_breaks_an_equation(steps: list[tuple[int, int]], constant: int) -> None:
    run, (total_a, total_b) = ScrapedRun(), (0, 0)
    for number, (a, b) in enumerate(steps):
        total_a, total_b = total_a + a, total_b + b
        run.scrape(errors({"a": total_a, "b": total_b}, {"a": total_a, "b": total_b}), edge=f"end:{number}")
    assert run.judged(Invariant(BY_CONTROLLER))[0] == "pass"
    assert run.judged(Invariant(f"sum({OWN_ERRORS}) + {constant} == sum({FAILED})"))[0] == "fail"
    assert run.judged(Invariant(f"sum({OWN_ERRORS}) + {constant} >= sum({FAILED})"))[0] == "pass"


def sent(*, conflicts: float, refused: float | None) -> dict[str, float]:
    served = {f'{SENT}{{code="200",host="h",method="PUT"}}': 50.0, f'{SENT}{{code="409",host="h",method="POST"}}': 9.0}
    if refused is not None:
        served[f'{SENT}{{code="409",host="h",method="PATCH"}}'] = refused
    return served | controllers(OWN_CONFLICTS, {"a": conflicts}, target_kind="PodClique")


def test_a_gauge_is_held_against_the_objects_that_the_watches_showed(snapshot: SnapshotAssertion) -> None:
    run = ScrapedRun()
    run.scrape({"op_pods": 0}, edge="start:deploy")
    run.pods_seen(3)
    run.scrape({"op_pods": 2}, edge="end:deploy")
    verdict, text = run.judged(Invariant('sum(op_pods) == objects("pods")'))
    assert verdict == "fail"
    assert text == snapshot
    assert run.judged(Invariant('sum(op_pods) == objects("pods") - 1', tolerance=1))[0] == "pass"
    assert run.judged(Invariant('sum(op_pods) == objects("pod")'))[0] == "inconclusive"
