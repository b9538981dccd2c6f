"""What was in force in the runs of two variants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.comparability import in_force
from pytest_grovescale.analysis.result import Scalar

RUN: dict[str, Scalar] = {"nodes": 100, "max_requests_inflight": 400, "variant": "baseline"}


def test_what_both_share_and_in_what_they_differ() -> None:
    found = in_force([RUN, RUN], [RUN | {"variant": "optimized"}])
    assert found.shared == {"nodes": (100,), "max_requests_inflight": (400,)}
    assert found.differing == {"variant": (("baseline",), ("optimized",))}


def test_a_fact_that_one_variant_lacks_is_a_difference() -> None:
    assert in_force([RUN], [RUN | {"qps": 50}]).differing == {"qps": ((), (50,))}


def test_what_varies_alike_in_both_is_shared_with_all_its_values() -> None:
    found = in_force([RUN, RUN | {"nodes": 3}], [RUN | {"nodes": 3}, RUN])
    assert found.shared["nodes"] == (100, 3)
    assert not found.differing


def test_how_long_a_cluster_took_to_start_is_no_condition_of_a_run() -> None:
    found = in_force([RUN | {"start_s": 2.5}], [RUN | {"start_s": 2.6}])
    assert "start_s" not in found.shared | found.differing


FACTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3)


@given(st.lists(FACTS, max_size=4), st.lists(FACTS, max_size=4))
def test_every_fact_is_reported_once_and_with_every_value(a: list[dict[str, int]], b: list[dict[str, int]]) -> None:
    found = in_force(a, b)
    assert not found.shared.keys() & found.differing.keys()
    for name in {name for run in (*a, *b) for name in run}:
        sides = found.differing.get(name) or (found.shared[name], found.shared[name])
        assert [set(side) for side in sides] == [{run[name] for run in runs if name in run} for runs in (a, b)]
