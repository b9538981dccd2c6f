"""Metrics over time: which families are drawn, by which label, and that rates are of growth."""

from __future__ import annotations

import math

import pytest

from pytest_grovescale.analysis.metrics.history import history_of
from pytest_grovescale.analysis.metrics.summary import MAX_CURVES, MAX_LINES, MAX_SCRAPES, Curves, curves_of, grouped
from pytest_grovescale.exposition.families import Family

from .endpoint import DEPTH, ERRORS, LATENCY, RECONCILES, T0, Endpoint, working


def drawn(*endpoints: Endpoint) -> dict[str, Curves]:
    records = [record for endpoint in endpoints for record in endpoint.records]
    return {curves.name: curves for curves in curves_of(history_of(records), T0)}


def test_series_first_then_what_reports_most_then_its_own_and_last_what_stood_still() -> None:
    assert list(drawn(working())) == [
        "series",
        f"{DEPTH}, by name",
        f"{RECONCILES}, by controller",
        LATENCY,
        ERRORS,
    ]


def test_series_of_all_targets() -> None:
    found = drawn(working(), working("kwok", scrapes=3))["series"]
    assert [(line.name, line.values[0], line.values[-1]) for line in found.lines] == [
        ("operator", 7, 12),
        ("kwok", 7, 12),
    ]
    assert found.lines[1].at_s == (1.0, 3.0, 5.0)


def test_a_gauge_is_drawn_as_it_is() -> None:
    found = drawn(working(scrapes=6))[f"{DEPTH}, by name"]
    assert found.unit == "value"
    assert {line.name: line.values for line in found.lines} == {
        "clique": (0, 1, 2, 0, 1, 2),
        "set": (3, 2, 1, 0, 1, 2),
    }


def test_a_counter_is_drawn_as_its_growth_until_the_next_scrape() -> None:
    found = drawn(working(scrapes=4))[f"{RECONCILES}, by controller"]
    assert found.unit == "per-second"
    assert {line.name: line.values for line in found.lines} == {
        "clique": (20, 20, 20, None),
        "set": (5, 5.5, 5, None),
    }


def test_a_histogram_is_drawn_as_its_observations() -> None:
    (line,) = drawn(working(scrapes=5))[LATENCY].lines
    assert line.values == (None, 5, 2.5, 2.5, None)


def test_a_counter_that_began_again_has_grown_by_what_it_shows() -> None:
    endpoint = Endpoint(families=[Family(name=ERRORS, type="counter")])
    for second, value in enumerate([5, 9, 2, 4]):
        endpoint.answers(second, {ERRORS: value})
    assert drawn(endpoint)[ERRORS].lines[0].values == (4, 2, 2, None)


def test_what_is_no_number_is_a_gap() -> None:
    endpoint = Endpoint(families=[Family(name=DEPTH, type="gauge")])
    for second, value in enumerate([1.0, math.nan, math.inf, 2.0]):
        endpoint.answers(second, {DEPTH: value})
    assert drawn(endpoint)[DEPTH].lines[0].values == (1, None, None, 2)


def test_only_the_operators_own_families_are_drawn() -> None:
    names = list(drawn(working("kube-scheduler")))
    assert names == [
        "series",
        f"kube-scheduler: {DEPTH}, by name",
        f"kube-scheduler: {RECONCILES}, by controller",
    ]


def test_never_scraped_is_no_chart() -> None:
    endpoint = Endpoint()
    endpoint.fails(1)
    assert drawn(endpoint) == {}


def test_the_label_that_reports_most_and_can_be_drawn() -> None:
    series = [f'm{{pod="{pod}",result="{result}",zone="z"}}' for pod in range(20) for result in ("ok", "bad", "late")]
    label, groups = grouped(dict.fromkeys(series, 1))
    assert (label, sorted(groups), {len(group) for group in groups.values()}) == ("result", ["bad", "late", "ok"], {20})


def test_the_label_that_was_asked_for_if_it_reports_anything() -> None:
    series = dict.fromkeys([f'm{{a="{a}",b="{b}",c="c"}}' for a in range(2) for b in range(5)], 1)
    assert [grouped(series, by=label)[0] for label in ("a", "b", "c", "d", "")] == ["a", "b", "b", "b", "b"]


def test_values_of_least_weight_are_added_up() -> None:
    label, groups = grouped({f'm{{pod="{pod}"}}': pod for pod in range(20)})
    assert label == "pod"
    assert list(groups) == [*(str(pod) for pod in range(12, 20)), "12 others"]
    assert len(groups) == MAX_LINES + 1


def test_a_series_without_the_label_has_a_line() -> None:
    assert grouped({'m{a="1"}': 1, "m": 1})[1] == {"1": ['m{a="1"}'], "no a": ["m"]}


def test_a_single_series_is_one_line() -> None:
    assert grouped({"m": 1}) == ("", {"all": ["m"]})


@pytest.mark.parametrize("scrapes", [1, 2, MAX_SCRAPES, MAX_SCRAPES + 1, 1000])
def test_long_runs_are_thinned_and_keep_their_ends(scrapes: int) -> None:
    for curves in drawn(working(scrapes=scrapes)).values():
        for line in curves.lines:
            assert len(line.at_s) == len(line.values) == min(scrapes, MAX_SCRAPES)
            assert (line.at_s[0], line.at_s[-1]) == (1.0, 1.0 + 2 * (scrapes - 1))


def test_no_more_charts_than_a_reader_looks_at() -> None:
    families = [Family(name=f"own_{number}", type="gauge") for number in range(50)]
    endpoint = Endpoint(families=families)
    endpoint.answers(1, {family.name: 1.0 for family in families})
    assert len(drawn(endpoint)) == MAX_CURVES
