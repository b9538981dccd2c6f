"""Buckets of a run's histograms: full ones fail, few observations prove nothing, native ones need no judging."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks import HistogramBuckets
from pytest_grovescale.exposition.families import Family, NativeHistogram
from pytest_grovescale.recording import records as rec
from tests.unit.analysis.endpoint import Endpoint

from .metrics_run import judged, said
from .noop_run import in_words

MINE = Family(name="my_seconds", type="histogram", help="Times.")
BUILT_IN = Family(name="workqueue_work_duration_seconds", type="histogram", help="How long work takes.")
BOUNDS = ("0.1", "1", "10", "+Inf")


def histogram(
    counts: list[float], *, name: str = "my_seconds", labels: str = "", total: float = 1.0
) -> dict[str, float]:
    """Return the series of a histogram with so many observations in each bucket alone."""
    comma, braces = f",{labels}" if labels else "", f"{{{labels}}}" if labels else ""
    found = {f'{name}_bucket{{le="{le}"{comma}}}': float(sum(counts[: i + 1])) for i, le in enumerate(BOUNDS)}
    return found | {f"{name}_sum{braces}": total, f"{name}_count{braces}": float(sum(counts))}


def served(*scrapes: dict[str, float]) -> Endpoint:
    found = Endpoint(families=(MINE, BUILT_IN))
    for second, samples in enumerate(scrapes):
        found.answers(second, samples)
    return found


@pytest.mark.parametrize(
    ("check", "samples", "expected"),
    [
        (HistogramBuckets(), histogram([50, 30, 20, 0]), "pass: .* my_seconds 0"),
        (HistogramBuckets(), histogram([1000, 2, 0, 0]), "fail: .* 0.998 > 0.95"),
        (HistogramBuckets(), histogram([0, 0, 0, 900]), "fail: "),
        (HistogramBuckets(), histogram([52, 0, 0, 0]), "fail: "),
        (HistogramBuckets(), histogram([51, 0, 0, 0]), "inconclusive: "),
        (HistogramBuckets(share_max=0.4), histogram([500, 300, 200, 0]), "fail: "),
        (HistogramBuckets(), histogram([5, 0, 0, 0]), "inconclusive: .* 5 observations "),
        (HistogramBuckets(), histogram([0, 0, 0, 0]), "inconclusive: "),
        (HistogramBuckets(), {}, "inconclusive: "),
        (HistogramBuckets(), histogram([9e5, 0, 0, 0], name=BUILT_IN.name), "inconclusive: "),
        (HistogramBuckets(family="workqueue_*"), histogram([9e5, 0, 0, 0], name=BUILT_IN.name), "fail: "),
        (HistogramBuckets(family="my_other"), histogram([9, 0, 0, 0]), "inconclusive: .*my_other"),
    ],
    ids=in_words,
)  # fmt: skip
def test_the_fullest_bucket_decides(
    check: Any, samples: dict[str, float], expected: str, snapshot: SnapshotAssertion
) -> None:
    found = said(check, served(samples))
    assert re.match(expected, found)
    assert found == snapshot


def test_label_sets_share_a_layout() -> None:
    apart = histogram([500, 0, 0, 0], labels='op="a"') | histogram([0, 0, 500, 0], labels='op="b"')
    assert said(HistogramBuckets(), served(apart)).startswith("pass: ")


def test_a_full_bucket_is_reported_with_its_cost_and_where_buckets_should_be(snapshot: SnapshotAssertion) -> None:
    found = judged(HistogramBuckets(), served(histogram([1000, 0, 0, 0], total=13.0)))
    assert len(found.evidence) == 1
    assert " 0.013, " in found.evidence[0]
    assert found.evidence[0] == snapshot


def test_a_bucket_that_holds_one_value_alone_reports_it_exactly(snapshot: SnapshotAssertion) -> None:
    found = judged(HistogramBuckets(), served(histogram([0, 1000, 0, 0], total=1000.0)))
    assert (found.verdict, found.figure) == ("pass", 0)
    assert found.evidence[0] == snapshot


def test_native_histograms_are_fine(snapshot: SnapshotAssertion) -> None:
    endpoint = served(histogram([1000, 0, 0, 0]))
    record = endpoint.records[0]
    assert isinstance(record, rec.Scraped)
    native = {"my_seconds": NativeHistogram(schema=3, count=1000.0, sum="13")}
    endpoint.records[0] = msgspec.structs.replace(record, native=native)
    found = said(HistogramBuckets(), endpoint)
    assert found.startswith("inconclusive: ")
    assert found == snapshot


@pytest.mark.parametrize(
    "change",
    [
        {'my_seconds_bucket{le="1"}': 3.0},
        {'my_seconds_bucket{le="1"}': math.nan},
        {'my_seconds_bucket{le="many"}': 3.0},
    ],
    ids=["less", "no count", "no bound"],
)
def test_buckets_that_cannot_be_counted_up_are_reported(change: dict[str, float], snapshot: SnapshotAssertion) -> None:
    found = judged(HistogramBuckets(), served({**histogram([50, 30, 20, 0]), **change}))
    assert found.verdict == "inconclusive"
    assert "\n".join(found.evidence) == snapshot


def test_no_scrape_is_inconclusive() -> None:
    assert said(HistogramBuckets(), None).startswith("inconclusive: ")


@given(st.lists(st.integers(0, 2000), min_size=4, max_size=4), st.floats(0.1, 1.0))
def test_only_what_is_surely_above_fails_and_nothing_above_passes(counts: list[float], share_max: float) -> None:
    # No number of observations has a bound as its mean: one value alone, all on a bound, passes.
    found = judged(HistogramBuckets(share_max=share_max), served(histogram(counts, total=0.777)))
    share = max(counts) / sum(counts) if sum(counts) else None
    if found.verdict == "fail":
        assert share is not None
        assert share > share_max
    if found.verdict == "pass":
        assert share is not None
        assert share <= share_max
