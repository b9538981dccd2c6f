"""Gauge, increase and rate: what is asked, and that no data, failure and zero stay three different answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import NotMeasuredError, PrometheusError, UsageError
from pytest_grovescale.prometheus.statistics import (
    Asked,
    Group,
    NoData,
    QueryFailed,
    Statistics,
    Value,
    asked_for,
    gathered,
    query_text,
    short_text,
)

FAILED = QueryFailed("q", "timeout", "no answer within 10 s")


def of(
    asked: Asked,
    answer: dict[Group, float] | QueryFailed,
    short: dict[Group, float] | QueryFailed | None = None,
    by: tuple[str, ...] = ("name",),
) -> Statistics:
    return gathered([asked], [answer], {asked.metric: short or {}}, at=100.0, window_s=30.0, by=by)


def test_rates_are_summed_after_they_are_taken(snapshot: SnapshotAssertion) -> None:
    asked = Asked("rate", 'adds{name=~"p.*"}')
    assert query_text(asked, ["name", "job"], 30) == snapshot(name="rate")
    assert query_text(Asked("increase", "adds"), [], 0.25) == "sum (increase(adds[250ms]))"
    assert query_text(Asked("gauge", "depth"), ["name"], 30) == "sum by (name) (depth)"
    assert short_text("adds", ["name"], 30) == snapshot(name="short")


def test_each_is_asked_once() -> None:
    found = asked_for(["a"], ["b", "b"], ["b"])
    assert found == [Asked("gauge", "a"), Asked("increase", "b"), Asked("rate", "b")]
    with pytest.raises(UsageError, match="asked for nothing"):
        asked_for([], [], [])
    with pytest.raises(UsageError, match=r"Give a list: rate=\['up'\]"):
        asked_for([], [], "up")


def test_zero_no_data_and_failure_are_three_answers() -> None:
    rate = Asked("rate", "adds")
    found = of(rate, {("a",): 0.0}, {("b",): 1.0})
    assert found.figure("rate", "adds", "a") == Value(0.0)
    assert found.figure("rate", "adds", "b") == NoData("fewer than two samples in 30.0 s")
    assert found.figure("rate", "adds", "c") == NoData("no sample in 30.0 s")
    assert of(rate, FAILED).figure("rate", "adds", "a") == FAILED
    assert of(Asked("gauge", "depth"), {}).figure("gauge", "depth", "a") == NoData("no series of it now")


def test_only_a_value_is_a_value(snapshot: SnapshotAssertion) -> None:
    rate = Asked("rate", "adds")
    assert of(rate, {("a",): 0.0}).value("rate", "adds", "a") == 0.0
    with pytest.raises(NotMeasuredError, match="no data: ") as caught:
        of(rate, {}, {("a",): 1.0}).value("rate", "adds", "a")
    assert str(caught.value) == snapshot
    with pytest.raises(PrometheusError, match="no answer within 10 s"):
        of(rate, FAILED).value("rate", "adds", "a")


def test_a_series_that_is_left_out_of_a_sum_shows(snapshot: SnapshotAssertion) -> None:
    found = of(Asked("increase", "adds"), {("a",): 5.0}, {("a",): 2.0})
    assert found.figure("increase", "adds", "a") == Value(5.0, left_out=2)
    with pytest.raises(NotMeasuredError, match="2 series") as caught:
        found.value("increase", "adds", "a")
    assert str(caught.value) == snapshot


def test_a_sum_is_not_believed_when_what_it_left_out_is_unknown() -> None:
    assert of(Asked("increase", "adds"), {("a",): 5.0}, FAILED).figure("increase", "adds", "a") == FAILED


def test_what_was_not_asked_is_a_mistake(snapshot: SnapshotAssertion) -> None:
    found = of(Asked("gauge", "depth"), {("a",): 1.0})
    with pytest.raises(UsageError, match="rate of depth") as metric:
        found.figure("rate", "depth", "a")
    assert str(metric.value) == snapshot(name="metric")
    with pytest.raises(UsageError, match="by name") as group:
        found.figure("gauge", "depth")
    assert str(group.value) == snapshot(name="group")


groups = st.tuples(st.sampled_from("abc"))
answers = st.dictionaries(groups, st.floats(allow_nan=False))
counts = st.dictionaries(groups, st.integers(1, 5).map(float))


@given(answer=answers, short=counts)
def test_every_group_that_prometheus_knows_is_there_and_no_other(
    answer: dict[Group, float], short: dict[Group, float]
) -> None:
    found = of(Asked("rate", "adds"), answer, short)
    assert set(found.groups()) == set(answer) | set(short)
    for group in found.groups():
        figure = found.figure("rate", "adds", *group)
        assert isinstance(figure, Value) == (group in answer)
        if isinstance(figure, Value):
            assert figure.left_out == short.get(group, 0)
