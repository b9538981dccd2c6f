"""Series that are there from the first scrape on, and those that are not."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_grovescale.checks.metrics.shape import Initialised
from pytest_grovescale.exposition.families import Family
from tests.unit.analysis.endpoint import Endpoint

from .metrics_run import judged, said

ERRORS = Family(name="my_errors_total", type="counter", help="Errors.")
TIMES = Family(name="my_seconds", type="histogram", help="Times.")
CHECK = Initialised(families=["my_errors_total"])
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
        ([{A: 3, B: 0}, {A: 4, B: 0}], "pass: "),
        ([{A: 0}, {A: 1, B: 1}], "fail: "),
        ([{A: 0, B: 0}, {A: 1}], "fail: "),
        ([{}, {A: 1}], "fail: "),
        ([{}, {}], "fail: "),
        ([{A: float("nan")}, {A: float("nan")}], "pass: "),
        ([{A: 0}], "inconclusive: operator was scraped only once"),
        ([{}], "fail: "),
    ],
)
def test_what_comes_late_or_goes_fails(scrapes: list[dict[str, float]], expected: str) -> None:
    assert said(CHECK, served(*scrapes)).startswith(expected)


def test_the_late_ones_are_named_with_their_time() -> None:
    found = judged(CHECK, served({A: 0}, {A: 1}, {A: 1, B: 1}))
    assert found.text == "label sets of my_errors_total that were not there from the first scrape on: 1, at most 0"
    assert found.evidence == (f"{B} came 2.0 s after the first scrape; set it to 0 when the program starts",)
    gone = judged(CHECK, served({A: 0, B: 0}, {A: 1}, {A: 1, B: 1}))
    assert gone.evidence == (f"{B} was not there 1.0 s after the first scrape, though it had been before",)


def test_a_family_without_samples_is_not_initialised() -> None:
    assert judged(CHECK, served({}, {})).evidence == (
        "my_errors_total has no series, only a TYPE line; give it all its label sets when the program starts",
    )
    never = judged(Initialised(families=["my_error_total"]), served({A: 0}, {A: 1}))
    assert never.verdict == "fail"
    assert "no family 'my_error_total'; did you mean my_errors_total?" in never.evidence[0]


def test_a_histogram_is_one_label_set_however_many_series() -> None:
    whole = {f'my_seconds_bucket{{le="{le}",op="x"}}': 0.0 for le in ("1", "+Inf")}
    whole |= {'my_seconds_sum{op="x"}': 0.0, 'my_seconds_count{op="x"}': 0.0}
    check = Initialised(families=["my_*"])
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
