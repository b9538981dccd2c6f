"""Series against objects: what grows with them is told from what merely comes late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import CheckResult, Severity
from pytest_grovescale.checks import SeriesGrowth
from pytest_grovescale.exposition.families import Family
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec
from tests.unit.analysis.endpoint import Endpoint, at

from .metrics_run import judged, pods, scraped_run

READY = Family(name="my_ready", type="gauge", help="Ready pods.")
REQUESTS = Family(name="rest_client_requests_total", type="counter", help="Requests.")


def deployed(counts: Sequence[int], series: Sequence[Sequence[str]], check: SeriesGrowth | None = None) -> CheckResult:
    """Judge an endpoint that was scraped at so many pods, and had these series each time."""
    endpoint = Endpoint(families=(READY, REQUESTS))
    came: dict[float, list[str]] = {}
    before = 0
    for second, (count, names) in enumerate(zip(counts, series, strict=True)):
        came[second - 0.5] = [f"pod-{number}" for number in range(before, count)]
        before = max(before, count)
        endpoint.answers(second, dict.fromkeys(names, 1.0))
    return judged(check or SeriesGrowth(), endpoint, objects=pods(came))


def by_label(label: str, *values: object) -> list[str]:
    return [f'my_ready{{{label}="{value}"}}' for value in values]


def of_objects(count: int) -> list[str]:
    return by_label("pod", *(f"pod-{number}" for number in range(count)))


def of_ids(count: int) -> list[str]:
    return by_label("hash", *(f"h{number}" for number in range(count)))


FLAT = by_label("phase", "a", "b")


def test_flat_series_pass_at_two_numbers_that_are_far_apart() -> None:
    assert deployed([0, 20], [FLAT, FLAT]).verdict == "pass"
    assert deployed([0, 5], [FLAT, FLAT]).verdict == "inconclusive"
    assert deployed([20, 20], [FLAT, FLAT]).verdict == "inconclusive"
    assert deployed([0, 20], [FLAT, [*FLAT, *by_label("phase", "c")]]).verdict == "inconclusive"


def test_flat_series_pass(snapshot: SnapshotAssertion) -> None:
    found = deployed([0, 10, 20, 50], [FLAT] * 4)
    assert (found.verdict, found.figure) == ("pass", 0)
    assert found.text.endswith(" 0 ≤ 0")
    assert found.text == snapshot


def test_a_label_with_names_of_objects_fails_at_two_numbers_already(snapshot: SnapshotAssertion) -> None:
    found = deployed([0, 20], [FLAT, [*FLAT, *of_objects(20)]])
    assert (found.verdict, found.figure) == ("fail", 1)
    assert "\n".join(found.evidence) == snapshot


def test_names_of_their_owners_are_names_of_objects() -> None:
    found = deployed([0, 20], [FLAT, [*FLAT, *by_label("clique", "pod", "x", "y")]])
    assert found.verdict == "inconclusive"
    endpoint = Endpoint(families=(READY,))
    endpoint.answers(0, dict.fromkeys(FLAT, 1.0))
    endpoint.answers(2, dict.fromkeys([*FLAT, *by_label("clique", "web-0", "web-1", "web-2")], 1.0))
    objects = pods({1: [f"web-{clique}-{pod}" for clique in range(3) for pod in range(4)]})
    assert judged(SeriesGrowth(), endpoint, objects=objects).figure == pytest.approx(0.25)


def test_a_series_of_each_of_the_users_objects_that_goes_with_it_is_a_note() -> None:
    """Whether it goes and whether it names pods decides how severe it is where no test declares the check."""

    def severity(label: str, values: Sequence[str], at_last: Sequence[str]) -> Severity | None:
        endpoint = Endpoint(families=(READY,))
        for second, names in ((0, []), (2, values), (4, at_last)):
            endpoint.answers(second, dict.fromkeys([*FLAT, *by_label(label, *names)], 1.0))
        objects = pods({1: [f"web-{owner}-{pod}" for owner in range(3) for pod in range(4)]})
        assert judged(SeriesGrowth(), endpoint, objects=objects).verdict == "fail"
        return SeriesGrowth().severity(scraped_run(endpoint, objects=objects))

    owners = ["t/web-0", "t/web-1", "t/web-2"]
    assert severity("set", owners, []) == "note"
    assert severity("set", owners, owners[:1]) is None
    assert severity("pod", ["web-0-0", "web-0-1", "web-1-0"], []) is None


@pytest.mark.parametrize(("shards", "severity"), [(2, "note"), (12, None)])
def test_series_of_the_few_parts_of_each_of_the_users_objects(shards: int, severity: Severity | None) -> None:
    def kind(resource: str, names: Mapping[str, str]) -> list[rec.AnyRecord]:
        spec = WatchSpec(resource=resource, path=f"/apis/a.io/v1/namespaces/t/{resource.partition('.')[0]}")
        objects = [
            rec.ObjectSeen(
                at=at(1), watch=resource, change="added", name=name, namespace="t", uid=f"uid-{name}", owner=owner
            )
            for name, owner in names.items()
        ]
        return [rec.WatchOpened(at=at(0), watch=resource, spec=spec, mode="stream"), *objects]

    roots = {f"db-{number}": "" for number in range(3)}
    parts = {f"{root}-s{number}": f"uid-{root}" for root in roots for number in range(shards)}
    endpoint = Endpoint(families=(READY,))
    for moment, names in ((0, list[str]()), (2, list(parts)), (4, [])):
        endpoint.answers(moment, dict.fromkeys([*FLAT, *by_label("shard", *names)], 1.0))
    objects = [
        *kind("databases.a.io", roots),
        *kind("shards.a.io", parts),
        *kind("services", parts),
        *pods({1: [f"{part}-{pod}" for part in parts for pod in range(3)]}),
    ]
    assert SeriesGrowth().severity(scraped_run(endpoint, objects=objects)) == severity


def test_few_series_for_many_objects_that_no_label_names_are_a_note() -> None:
    def severity(each: int) -> Severity | None:
        endpoint = Endpoint(families=(READY,))
        counts = [0, 100, 200, 300, 400, 500]
        for second, count in enumerate(counts):
            endpoint.answers(2 * second, dict.fromkeys(of_ids(1 + count // each), 1.0))
        objects = pods({2 * second: [f"web-{pod}" for pod in range(count)] for second, count in enumerate(counts)})
        assert judged(SeriesGrowth(), endpoint, objects=objects).verdict == "fail"
        return SeriesGrowth().severity(scraped_run(endpoint, objects=objects))

    assert severity(100) == "note"
    assert severity(2) is None


def test_buckets_of_few_values_are_no_series_of_objects() -> None:
    """A histogram for each controller, which comes with the first reconcile of each."""
    took = Family(name="my_seconds", type="histogram", help="Times.")
    bounds = ["1", "2", "3", "4", "5", "6", "7", "+Inf"]
    endpoint = Endpoint(families=(took,))
    counts = [0, 20, 40, 60, 80, 100]
    for second, count in enumerate(counts):
        names = [f"c{number}" for number in range(count // 50)]
        endpoint.answers(
            2 * second,
            {f'my_seconds_bucket{{controller="{name}",le="{le}"}}': 1.0 for name in names for le in bounds}
            | {f'my_seconds_{part}{{controller="{name}"}}': 1.0 for name in names for part in ("sum", "count")},
        )
    objects = pods({2 * second: [f"web-{pod}" for pod in range(count)] for second, count in enumerate(counts)})
    assert SeriesGrowth().severity(scraped_run(endpoint, objects=objects)) == "note"


def test_growth_by_other_values_needs_numbers_enough(snapshot: SnapshotAssertion) -> None:
    counts = [0, 10, 20, 30, 40, 50]
    assert deployed(counts, [of_ids(1 + count) for count in counts]).verdict == "fail"
    assert deployed(counts[:4], [of_ids(1 + count) for count in counts[:4]]).verdict == "inconclusive"
    found = deployed(counts[:2], [of_ids(1 + count) for count in counts[:2]])
    assert found.verdict == "inconclusive"
    assert found.text.endswith(" my_ready")
    assert found.text == snapshot


@pytest.mark.parametrize("late", range(1, 7))
def test_series_that_come_late_once_are_no_growth(late: int, snapshot: SnapshotAssertion) -> None:
    counts = [0, 100, 200, 300, 400, 500, 600]
    found = deployed(counts, [FLAT + (by_label("phase", "c", "d", "e") if i >= late else []) for i in range(7)])
    assert found.verdict == "pass"
    assert any("my_ready; see preinitialized_series()" in line for line in found.evidence)
    assert "\n".join(found.evidence) == snapshot


def test_a_slope_that_is_allowed_passes() -> None:
    counts = [0, 10, 20, 30, 40, 50]
    series = [of_objects(count // 2) for count in counts]
    assert deployed(counts, series, SeriesGrowth(slope_max=0.5)).verdict == "pass"
    assert deployed(counts, series, SeriesGrowth(slope_max=0.4)).verdict == "fail"


def test_built_in_families_are_let_off_unless_they_are_named() -> None:
    counts = [0, 10, 20, 30, 40, 50]
    series = [[f'rest_client_requests_total{{code="{code}"}}' for code in range(1 + count)] for count in counts]
    assert deployed(counts, series).verdict == "pass"
    assert deployed(counts, series, SeriesGrowth(family="rest_client_*")).verdict == "fail"


def test_a_counter_of_objects_that_are_gone_still_counts() -> None:
    counts = [0, 10, 20, 30, 30, 30]
    series = [of_objects(count) for count in (0, 10, 20, 30, 30, 30)]
    assert deployed(counts, series).figure == pytest.approx(1)


def test_without_objects_or_scrapes_nothing_is_known(snapshot: SnapshotAssertion) -> None:
    assert deployed([0, 0, 0], [FLAT] * 3).text == snapshot
    assert judged(SeriesGrowth(), None, objects=pods({1: ["a"]})).verdict == "inconclusive"
    failing = Endpoint()
    failing.fails(1)
    assert judged(SeriesGrowth(), failing, objects=pods({2: ["a"]})).verdict == "inconclusive"


@given(st.lists(st.integers(0, 200), min_size=2, max_size=6, unique=True).map(sorted), st.integers(0, 5))
def test_a_series_for_each_object_is_a_slope_of_one(counts: list[int], constant: int) -> None:
    series = [[*by_label("phase", *range(constant)), *of_objects(count)] for count in counts]
    found = deployed(counts, series)
    if counts[-1] - counts[0] >= 3:
        assert found.verdict == "fail"
        assert found.figure == pytest.approx(1)
    else:
        assert found.verdict != "fail"


@given(st.lists(st.integers(0, 5), min_size=3, max_size=12), st.integers(0, 20))
def test_a_constant_number_of_series_never_fails(steps: list[int], constant: int) -> None:
    counts = [sum(steps[: i + 1]) for i in range(len(steps))]
    found = deployed(counts, [by_label("phase", *range(constant))] * len(counts))
    assert found.verdict != "fail"


@given(st.lists(st.integers(1, 50), min_size=2, max_size=8), st.integers(0, 3))
def test_series_that_follow_their_objects_late_are_as_many(steps: list[int], lag: int) -> None:
    """Scrapes while objects come show fewer series than objects; those at rest show how many each brings."""
    came = [0, *(sum(steps[: i + 1]) for i in range(len(steps)))]
    counts = [*came, *[came[-1]] * (lag + 1)]
    series = [of_objects(counts[max(0, scrape - lag)]) for scrape in range(len(counts))]
    found = deployed(counts, series, SeriesGrowth(slope_max=1))
    assert (found.verdict, found.figure) == ("pass", 1) if counts[-1] >= 3 else found.verdict != "fail"


@pytest.mark.parametrize("lag", range(3))
def test_growth_by_other_values_shows_however_late_it_follows(lag: int) -> None:
    counts = [0, 10, 20, 30, 40, 50, 60, 70, *[70] * (lag + 1)]
    series = [of_ids(1 + counts[max(0, scrape - lag)]) for scrape in range(len(counts))]
    found = deployed(counts, series)
    assert (found.verdict, found.figure) == ("fail", 1)
