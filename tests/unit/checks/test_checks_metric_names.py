"""Names of a run's families: its own alone, and all that were ever served."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks import MetricNames
from pytest_grovescale.exposition.families import Family
from tests.unit.analysis.endpoint import Endpoint

from .metrics_run import judged, said

GOOD = Family(name="my_errors_total", type="counter", help="Errors.")
BAD = Family(name="my_failures", type="counter", help="Errors.")
BUILT_IN = Family(name="go_memstats_alloc_bytes_total", type="counter", help="")


def served(*families: Family) -> Endpoint:
    found = Endpoint(families=families)
    found.answers(0, {family.name: 1.0 for family in families})
    return found


def test_faults_are_reported_with_the_fix(snapshot: SnapshotAssertion) -> None:
    found = judged(MetricNames(), served(GOOD, BAD))
    assert (found.verdict, found.figure, found.bound) == ("fail", 1, 0)
    assert found.text.endswith(" 1 > 0")
    assert found.text == snapshot(name="text")
    assert len(found.evidence) == 1
    assert found.evidence[0].startswith("my_failures [counter-total] ")
    assert found.evidence[0].endswith(" my_failures_total")
    assert found.evidence[0] == snapshot(name="evidence")


def test_families_of_libraries_and_ignored_ones_are_let_off(snapshot: SnapshotAssertion) -> None:
    assert said(MetricNames(), served(GOOD, BUILT_IN)).startswith("pass: ")
    assert said(MetricNames(ignore=["my_fail*"]), served(GOOD, BAD)).startswith("pass: ")
    found = said(MetricNames(), served(BUILT_IN))
    assert found.startswith("inconclusive: ")
    assert found == snapshot


def test_a_family_that_is_gone_and_one_without_samples_are_judged() -> None:
    endpoint = Endpoint(families=(BAD,))
    endpoint.answers(0, {})
    assert said(MetricNames(), endpoint).startswith("fail: ")
    gone = served(GOOD, BAD)
    gone.answers(1, {GOOD.name: 2.0})
    assert said(MetricNames(), gone).startswith("fail: ")


def test_series_without_a_type_line_are_a_family() -> None:
    endpoint = Endpoint(families=())
    endpoint.answers(0, {"my_camelCase": float("nan")})
    assert [line.split("]")[0] for line in judged(MetricNames(), endpoint).evidence] == [
        "my_camelCase [help",
        "my_camelCase [camel-case",
    ]


def test_no_scrape_is_inconclusive() -> None:
    assert said(MetricNames(), None).startswith("inconclusive: ")
