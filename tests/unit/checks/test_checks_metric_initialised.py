"""Series that are there from the first scrape on, and those that are not."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

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
        ([{A: 0}], "inconclusive: "),
        ([{}], "fail: "),
    ],
    ids=["from 0", "from 3", "late", "gone", "all late", "never", "no number", "one scrape", "one empty scrape"],
)
def test_what_comes_late_or_goes_fails(
    scrapes: list[dict[str, float]], expected: str, snapshot: SnapshotAssertion
) -> None:
    found = said(CHECK, served(*scrapes))
    assert found.startswith(expected)
    assert found == snapshot


def test_the_late_ones_are_named_with_their_time(snapshot: SnapshotAssertion) -> None:
    found = judged(CHECK, served({A: 0}, {A: 1}, {A: 1, B: 1}))
    assert found.text.endswith(" 1 > 0")
    assert found.text == snapshot(name="text")
    assert found.evidence[0].startswith(f"{B} ")
    assert "\n".join(found.evidence) == snapshot(name="late")
    gone = judged(CHECK, served({A: 0, B: 0}, {A: 1}, {A: 1, B: 1}))
    assert gone.evidence[0].startswith(f"{B} ")
    assert "\n".join(gone.evidence) == snapshot(name="gone")


@pytest.mark.parametrize(
    "work",
    ['controller_runtime_reconcile_total{controller="x"}', 'workqueue_adds_total{name="x"}'],
    ids=["done", "added"],
)
def test_what_counts_before_there_is_work_did_not_begin_with_0(work: str, snapshot: SnapshotAssertion) -> None:
    found = judged(CHECK, served({A: 7, B: 0, work: 0}, {A: 7, B: 0, work: 9}))
    assert (found.verdict, found.figure) == ("fail", 1)
    assert found.evidence[0].startswith(f"{A} ")
    assert "\n".join(found.evidence) == snapshot
    assert said(CHECK, served({A: 0, B: 0, work: 0}, {A: 7, B: 0, work: 9})).startswith("pass: ")


def test_what_had_counted_before_anybody_looked_is_left_open(snapshot: SnapshotAssertion) -> None:
    work = 'workqueue_adds_total{name="x"}'
    found = judged(CHECK, served({A: 7, B: 0, work: 3}, {A: 8, B: 0, work: 9}))
    assert found.verdict == "inconclusive"
    assert A in found.text
    assert found.text == snapshot


def test_a_gauge_may_begin_with_anything() -> None:
    gauge = Family(name="my_limit", type="gauge", help="Limit.")
    scrapes = [{"my_limit": 7.0, "workqueue_adds_total": 0.0}] * 2
    assert said(PreinitializedSeries(["my_limit"]), served(*scrapes, families=(gauge,))).startswith("pass: ")


def test_every_combination_of_declared_values_is_demanded(snapshot: SnapshotAssertion) -> None:
    check = PreinitializedSeries(["my_errors_total"], labels={"controller": ["x", "y"], "kind": ["a", "b"]})
    all_sets = {f'my_errors_total{{controller="{c}",kind="{k}",shard="1"}}': 0.0 for c in "xy" for k in "ab"}
    assert said(check, served(all_sets, all_sets)).startswith("pass: ")
    few = dict(list(all_sets.items())[:1])
    found = judged(check, served(few, few))
    assert (found.verdict, found.figure) == ("fail", 3)
    assert found.evidence[0].startswith('my_errors_total{controller="x",kind="b"} ')
    assert "\n".join(found.evidence) == snapshot
    assert judged(check, served({A: 0}, {A: 0})).figure == 4


def test_a_family_without_samples_is_not_initialised(snapshot: SnapshotAssertion) -> None:
    assert "\n".join(judged(CHECK, served({}, {})).evidence) == snapshot(name="empty")
    never = judged(PreinitializedSeries(families=["my_error_total"]), served({A: 0}, {A: 1}))
    assert never.verdict == "fail"
    assert " my_errors_total" in never.evidence[0]
    assert "\n".join(never.evidence) == snapshot(name="unknown")


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


def test_no_scrape_is_inconclusive(snapshot: SnapshotAssertion) -> None:
    assert said(CHECK, None).startswith("inconclusive: ")
    failing = Endpoint()
    failing.fails(1, "no answer within 5 s")
    assert said(CHECK, failing).startswith("inconclusive: ")
    assert said(CHECK, failing) == snapshot
