"""What a run's scrapes come to: series and families at first, at last and at most, and how well a target answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.metrics.history import history_of
from pytest_grovescale.analysis.metrics.summary import MAX_OWN, MAX_RETYPED, summaries, summary
from pytest_grovescale.analysis.result import FamilySummary, RetypedFamily
from pytest_grovescale.exposition.families import Family, MetricType
from pytest_grovescale.recording import records as rec

from .endpoint import DEPTH, ERRORS, LATENCY, RECONCILES, Endpoint, at, working

KINDS: tuple[MetricType, ...] = ("counter", "gauge", "histogram")


def test_series_and_families() -> None:
    (found,) = summaries(history_of(working().records))
    assert (found.target, found.scrapes, found.failures) == ("operator", 12, 0)
    assert (found.series_first, found.series_last, found.series_peak) == (7, 12, 12)
    assert found.families == 4
    assert found.own == (
        FamilySummary(family=LATENCY, type="histogram", series_first=0, series_last=5, series_peak=5),
        FamilySummary(
            family=ERRORS,
            type="counter",
            series_first=1,
            series_last=1,
            series_peak=1,
            value_first=0.0,
            value_last=22.0,
            value_max=22.0,
        ),
    )
    assert (found.took_p50_ms, found.took_p99_ms) == (4.5, 5.1)
    assert found.up_share == 1.0


def test_a_family_that_changes_its_type_is_marked() -> None:
    records = [
        rec.Scraped(
            at=at(second), target="operator", samples={"x": second}, families={"x": Family(name="x", type=kind)}
        )
        for second, kind in enumerate(KINDS * 20)
    ]
    (found,) = summaries(history_of(records))
    assert (found.type_changes, len(found.retyped)) == (59, MAX_RETYPED)
    assert found.retyped[0] == RetypedFamily(
        family="x", before="counter", after="gauge", when="1.0 s after the first scrape"
    )
    target = history_of(records).target()
    assert [target.families_at(scrape)["x"].type for scrape in range(4)] == [*KINDS, "counter"]


def test_series_that_go_are_no_longer_counted() -> None:
    endpoint = Endpoint()
    endpoint.answers(0, {f'{DEPTH}{{name="{name}"}}': 1 for name in "abc"})
    endpoint.answers(1, {f'{DEPTH}{{name="{name}"}}': 1 for name in "ab"} | {f'{ERRORS}{{kind="x"}}': 1})
    endpoint.answers(2, {f'{DEPTH}{{name="a"}}': 1})
    endpoint.answers(3, {f'{DEPTH}{{name="{name}"}}': 1 for name in "ac"})
    (found,) = summaries(history_of(endpoint.records))
    assert (found.series_first, found.series_peak, found.series_last, found.families) == (3, 3, 2, 1)
    assert [(own.family, own.series_first, own.series_last, own.series_peak) for own in found.own] == [
        (ERRORS, 0, 0, 1)
    ]


def test_one_that_never_answered_has_no_figures() -> None:
    endpoint = Endpoint()
    endpoint.fails(1, "HTTP 401")
    endpoint.fails(9, "HTTP 403")
    (found,) = summaries(history_of(endpoint.records))
    assert (found.scrapes, found.failures, found.failure, found.up_share) == (0, 2, "HTTP 403", 0.0)
    assert (found.series_first, found.series_last, found.series_peak, found.took_p50_ms) == (None, None, None, None)


def test_a_failure_counts_for_as_long_as_it_lasted() -> None:
    endpoint = Endpoint()
    endpoint.answers(0, {DEPTH: 1})
    endpoint.fails(4)
    endpoint.answers(10, {DEPTH: 2})
    endpoint.answers(20, {DEPTH: 2})
    (found,) = summaries(history_of(endpoint.records))
    assert found.up_share == pytest.approx(0.7)


def test_one_attempt_is_up_or_down() -> None:
    up, down = Endpoint(), Endpoint()
    up.answers(3, {DEPTH: 1})
    down.fails(3)
    assert [summaries(history_of(endpoint.records))[0].up_share for endpoint in (up, down)] == [1.0, 0.0]


def test_an_endpoint_that_serves_nothing_has_no_series() -> None:
    endpoint = Endpoint(families=())
    endpoint.answers(1, {})
    (found,) = summaries(history_of(endpoint.records))
    assert (found.scrapes, found.series_first, found.series_peak, found.families) == (1, 0, 0, 0)


def test_the_operator_comes_first() -> None:
    records = [*working("etcd").records, *working("operator").records, *working("kwok").records]
    assert [found.target for found in summaries(history_of(records))] == ["operator", "etcd", "kwok"]


def test_families_without_end_are_counted_and_the_largest_listed() -> None:
    endpoint = Endpoint(families=())
    endpoint.answers(1, {f"family_{number}": 1 for number in range(100)} | {f'large{{a="{n}"}}': 1 for n in range(5)})
    (found,) = summaries(history_of(endpoint.records))
    assert found.own_families == 101
    assert len(found.own) == MAX_OWN
    assert found.own[0].family == "large"


def test_names_of_libraries_are_not_its_own() -> None:
    endpoint = Endpoint(families=())
    endpoint.answers(1, {RECONCILES: 1, "go_goroutines": 9, "python_info": 1, "process_cpu_seconds_total": 1, "own": 1})
    (found,) = summaries(history_of(endpoint.records))
    assert [family.family for family in found.own] == ["own"]


SCRAPE = st.dictionaries(
    st.sampled_from([f'{name}{{a="{a}"}}' for name in ("x", "y") for a in range(4)]), st.floats(0, 9)
)


@given(st.lists(SCRAPE, min_size=1, max_size=8))
def test_it_counts_what_each_whole_scrape_held(scrapes: list[dict[str, float]]) -> None:
    endpoint = Endpoint(families=())
    for second, samples in enumerate(scrapes):
        endpoint.answers(second, samples)
    found = summary(history_of(endpoint.records).target())
    sizes = [len(samples) for samples in scrapes]
    assert (found.series_first, found.series_last, found.series_peak) == (sizes[0], sizes[-1], max(sizes))
    last = {series.partition("{")[0] for series in scrapes[-1]}
    assert found.families == len(last)
    assert {family.family for family in found.own if family.series_last} == last
