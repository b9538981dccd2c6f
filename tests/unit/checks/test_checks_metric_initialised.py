"""Series that are there from the first scrape on, and those that are not."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_grovescale.checks import PreinitializedSeries
from pytest_grovescale.exposition.families import Family
from tests.unit.analysis.endpoint import Endpoint

from .metrics_run import judged, said

ERRORS = Family(name="my_errors_total", type="counter", help="Errors.")
TIMES = Family(name="my_seconds", type="histogram", help="Times.")
CHECK = PreinitializedSeries(families=["my_errors_total"])
A, B = 'my_errors_total{kind="a"}', 'my_errors_total{kind="b"}'


def served(*scrapes: dict[str, float], families: Any = (ERRORS, TIMES)) -> Endpoint:
    found = Endpoint(families=families)
    for second, samples in enumerate(scrapes):
        found.answers(second, samples, edge="start:deploy" if not second else "")
    return found


@pytest.mark.parametrize(
    ("scrapes", "expected"),
    [
        ([{A: 0, B: 0}, {A: 1, B: 0}], "pass: "),
        ([{A: 3, B: 0}, {A: 4, B: 0}], "inconclusive: "),
        ([{A: 0}, {A: 1, B: 1}], "fail: "),
        ([{A: 0, B: 0}, {A: 1}], "fail: "),
        ([{}, {A: 1}], "fail: "),
        ([{}, {}], "fail: "),
        ([{A: float("nan")}, {A: float("nan")}], "inconclusive: "),
        ([{A: 0}], "inconclusive: operator was scraped only once"),
        ([{}], "fail: "),
    ],
)
def test_what_comes_late_or_goes_fails(scrapes: list[dict[str, float]], expected: str) -> None:
    assert said(CHECK, served(*scrapes)).startswith(expected)


def test_the_late_ones_are_named_with_their_time() -> None:
    found = judged(CHECK, served({A: 0}, {A: 1}, {A: 1, B: 1}))
    assert found.text == "label sets of my_errors_total that were not there, with 0, from the first scrape on 1 > 0"
    assert found.evidence == (f"{B} came 2.0 s after the first scrape; set it to 0 when the program starts",)
    gone = judged(CHECK, served({A: 0, B: 0}, {A: 1}, {A: 1, B: 1}))
    assert gone.evidence == (f"{B} was not there 1.0 s after the first scrape, though it had been before",)


@pytest.mark.parametrize(
    "work", ['controller_runtime_reconcile_total{controller="x"}', 'workqueue_adds_total{name="x"}']
)
def test_what_counts_before_there_is_work_did_not_begin_with_0(work: str) -> None:
    found = judged(CHECK, served({A: 7, B: 0, work: 0}, {A: 7, B: 0, work: 9}))
    assert (found.verdict, found.figure) == ("fail", 1)
    assert found.evidence == (f"{A} began with 7, before anything was reconciled; set it to 0 when the program starts",)
    assert said(CHECK, served({A: 0, B: 0, work: 0}, {A: 7, B: 0, work: 9})).startswith("pass: ")


def test_what_had_counted_before_anybody_looked_is_left_open() -> None:
    work = 'workqueue_adds_total{name="x"}'
    found = judged(CHECK, served({A: 7, B: 0, work: 3}, {A: 8, B: 0, work: 9}))
    assert found.verdict == "inconclusive"
    assert found.text.endswith(f"{A} had counted before the first scrape: whether it began with 0 was not seen")


def test_a_gauge_may_begin_with_anything() -> None:
    gauge = Family(name="my_limit", type="gauge", help="Limit.")
    scrapes = [{"my_limit": 7.0, "workqueue_adds_total": 0.0}] * 2
    assert said(PreinitializedSeries(["my_limit"]), served(*scrapes, families=(gauge,))).startswith("pass: ")


def test_every_combination_of_declared_values_is_demanded() -> None:
    check = PreinitializedSeries(["my_errors_total"], labels={"controller": ["x", "y"], "kind": ["a", "b"]})
    all_sets = {f'my_errors_total{{controller="{c}",kind="{k}",shard="1"}}': 0.0 for c in "xy" for k in "ab"}
    assert said(check, served(all_sets, all_sets)).startswith("pass: ")
    few = dict(list(all_sets.items())[:1])
    found = judged(check, served(few, few))
    assert (found.verdict, found.figure) == ("fail", 3)
    assert found.evidence[0] == (
        'my_errors_total{controller="x",kind="b"} was never served; set it to 0 when the program starts'
    )
    assert judged(check, served({A: 0}, {A: 0})).figure == 4


def test_a_family_without_samples_is_not_initialised() -> None:
    assert judged(CHECK, served({}, {})).evidence == (
        "my_errors_total has no series, only a TYPE line; give it all its label sets when the program starts",
    )
    never = judged(PreinitializedSeries(families=["my_error_total"]), served({A: 0}, {A: 1}))
    assert never.verdict == "fail"
    assert "no family 'my_error_total'; did you mean my_errors_total?" in never.evidence[0]


def test_a_histogram_is_one_label_set_however_many_series() -> None:
    whole = {f'my_seconds_bucket{{le="{le}",op="x"}}': 0.0 for le in ("1", "+Inf")}
    whole |= {'my_seconds_sum{op="x"}': 0.0, 'my_seconds_count{op="x"}': 0.0}
    check = PreinitializedSeries(families=["my_*"])
    found = judged(check, served({A: 0}, {A: 0, **whole}))
    assert found.figure == 1
    assert found.evidence[0].startswith('my_seconds{op="x"} came 1.0 s')
    assert judged(check, served({A: 0, **whole}, {A: 0, **whole})).evidence == (
        "my_errors_total: 1 label sets",
        "my_seconds: 1 label sets",
    )


def test_no_scrape_is_inconclusive() -> None:
    assert said(CHECK, None).startswith("inconclusive: ")
    failing = Endpoint()
    failing.fails(1, "no answer within 5 s")
    assert said(CHECK, failing) == "inconclusive: operator was never scraped: no answer within 5 s"
