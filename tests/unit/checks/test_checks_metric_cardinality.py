"""How many series, with which labels: counted as Prometheus stores them, and no pass without series."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks import Labels, Series
from pytest_grovescale.exposition.families import Family
from pytest_grovescale.recording import records as rec
from tests.unit.analysis.endpoint import Endpoint, at

from .metrics_run import judged, said
from .noop_run import in_words

OPS = Family(name="my_ops_total", type="counter", help="Operations.")
TIMES = Family(name="my_seconds", type="histogram", help="Times.")
DEPTH = Family(name="workqueue_depth", type="gauge", help="Current depth.")


def served(*scrapes: dict[str, float], families: Any = (OPS, TIMES, DEPTH), edges: Any = ()) -> Endpoint:
    found = Endpoint(families=families)
    for second, samples in enumerate(scrapes):
        found.answers(second, samples, edge=edges[second] if edges else "")
    return found


def ops(n: int) -> dict[str, float]:
    return {f'my_ops_total{{op="{i}"}}': 1.0 for i in range(n)}


HISTOGRAM = {f'my_seconds_bucket{{le="{le}"}}': 1.0 for le in ("1", "2", "+Inf")} | {
    "my_seconds_sum": 1.0,
    "my_seconds_count": 1.0,
}


@pytest.mark.parametrize(
    ("check", "scrapes", "expected"),
    [
        (Series(max=3), [ops(3)], "pass: .* 3 ≤ 3"),
        (Series(max=3), [ops(4)], "fail: .* 4 > 3"),
        (Series(max=3), [ops(4), ops(1)], "fail: .* 4 > 3"),
        (Series(max=4), [HISTOGRAM], "fail: .* 5 > 4"),
        (
            Series(max=3, family="my_ops_total"),
            [{**ops(3), **HISTOGRAM}],
            "pass: .* my_ops_total 3",
        ),
        (Series(max=3, family="my_*"), [{**ops(3), **HISTOGRAM}], r"fail: .* my_\* 8"),
        (Series(max=3, family="my_seconds"), [HISTOGRAM], "fail: .* 5 > 3"),
        (Series(max=3), [{**ops(3), "workqueue_depth": 1.0}], "pass: .* 3 ≤ 3"),
        (Series(max=3, family="*"), [{**ops(3), "workqueue_depth": 1.0}], r"fail: .* \* 4 > 3"),
        (Series(max=0, family="other_*"), [ops(3)], "pass: "),
        (Series(max=3, family="my_op_total"), [ops(3)], "inconclusive: .* my_op_total"),
        (Series(max=3, family="my_seconds"), [ops(3)], "inconclusive: .* my_seconds"),
        (Series(max=3), [{}], "inconclusive: "),
        (Series(max=3), [{"my_ops_total": math.nan}], "pass: .* 1 ≤ 3"),
        (Series(max=3, target="other"), [ops(1)], "inconclusive: .*'other'"),
    ],
    ids=in_words,
)
def test_series_are_counted_as_they_are_stored(
    check: Any, scrapes: Any, expected: str, snapshot: SnapshotAssertion
) -> None:
    found = said(check, served(*scrapes))
    assert re.match(expected, found)
    assert found == snapshot


def test_a_family_that_appears_in_the_middle_counts_from_there(snapshot: SnapshotAssertion) -> None:
    endpoint = served(ops(2), {**ops(2), **HISTOGRAM}, edges=("end:deploy", "end:delete"))
    assert said(Series(max=2, phase="deploy"), endpoint).startswith("pass: ")
    found = judged(Series(max=2), endpoint)
    assert (found.verdict, found.figure) == ("fail", 7)
    assert [line.partition(" ")[0] for line in found.evidence[1:]] == ["my_seconds:", "my_ops_total:"]
    assert "\n".join(found.evidence) == snapshot


def test_no_scrape_is_no_pass(snapshot: SnapshotAssertion) -> None:
    for name, found in {
        "no endpoint": said(Series(max=3), None),
        "no edge": said(Series(max=3, phase="deploy"), served(ops(2))),
    }.items():
        assert found.startswith("inconclusive: ")
        assert found == snapshot(name=name)


def test_an_endpoint_that_failed_in_the_end_may_have_served_more(snapshot: SnapshotAssertion) -> None:
    endpoint = served(ops(2))
    endpoint.fails(1, "line 200001: more than 200,000 series")
    found = said(Series(max=3), endpoint)
    assert found.startswith("inconclusive: ")
    assert " 2 ≤ 3; " in found
    assert found == snapshot
    assert said(Series(max=1), endpoint).startswith("fail: ")
    endpoint.answers(2, ops(2))
    assert said(Series(max=3), endpoint).startswith("pass: ")


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 40))
def test_the_most_that_was_ever_served_decides(counts: list[int], bound: int) -> None:
    found = judged(Series(max=bound), served(*map(ops, counts)))
    assert found.figure == max(counts)
    assert found.verdict == ("pass" if max(counts) <= bound else "fail")


# ---- labels

NAMESPACED = {'my_ops_total{namespace="a"}': 1.0, 'my_ops_total{namespace="b"}': 1.0}
QUEUE = {'workqueue_depth{controller="c",name="c",priority="0"}': 1.0}


@pytest.mark.parametrize(
    ("check", "samples", "expected"),
    [
        (Labels(forbidden=["namespace"]), NAMESPACED, "fail: .* 1 > 0"),
        (Labels(forbidden=["pod"]), NAMESPACED, "pass: "),
        (Labels(forbidden=["name"]), {**NAMESPACED, **QUEUE}, "pass: "),
        (Labels(forbidden=["name"], family="workqueue_*"), {**NAMESPACED, **QUEUE}, "fail: "),
        (Labels(forbidden=["pod"]), {'workqueue_depth{name="c",pod="x"}': 1.0}, "fail: "),
        (Labels(allowed_values={"namespace": ["a", "b", "c"]}), NAMESPACED, "pass: "),
        (Labels(allowed_values={"namespace": ["a"]}), NAMESPACED, "fail: "),
        (Labels(allowed_values={"namspace": ["a"]}), NAMESPACED, "inconclusive: .*'namspace'"),
        (
            Labels(forbidden=["namespace"], family="other"),
            NAMESPACED,
            "inconclusive: .* other",
        ),
        (Labels(forbidden=["namespace"]), {}, "inconclusive: "),
    ],
    ids=in_words,
)
def test_labels_are_those_of_the_operators_own_families(
    check: Any, samples: Any, expected: str, snapshot: SnapshotAssertion
) -> None:
    found = said(check, served(samples))
    assert re.match(expected, found)
    assert found == snapshot


def test_a_label_is_reported_with_examples_and_what_to_do(snapshot: SnapshotAssertion) -> None:
    found = judged(Labels(forbidden=["namespace"]), served(NAMESPACED))
    assert len(found.evidence) == 1
    assert all(series in found.evidence[0] for series in NAMESPACED)
    assert found.evidence[0] == snapshot


def test_a_label_that_was_there_only_for_a_while_was_there() -> None:
    assert said(Labels(forbidden=["namespace"]), served(ops(1), NAMESPACED, ops(1))).startswith("fail: ")


def test_objects_are_counted_by_resource_and_once() -> None:
    from pytest_grovescale.analysis.metrics.history import ObjectsSeen

    from .metrics_run import pods

    seen = ObjectsSeen()
    for record in [*pods({1: ["web-0-a", "web-0-b"], 2: ["web-0-a", "api-1-c"]})]:
        seen.feed(record)
    gone = rec.ObjectSeen(at=at(3), watch="w1", change="deleted", name="web-0-a", namespace="t")
    seen.feed(gone)
    assert [seen.count("pods", at(second)) for second in (0, 1, 2, 3)] == [0, 2, 3, 3]
    assert seen.count("nodes", at(3)) == 0
    assert (seen.growing(at(0)), seen.growing(at(2))) == ("pods", "")
    assert seen.named(["web-0", "web-0-a", "uid-api-1-c", "web", "api", "ap", "other", ""]) == [
        "web-0",
        "web-0-a",
        "uid-api-1-c",
        "web",
        "api",
    ]
