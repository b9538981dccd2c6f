"""Names of series: text and parts are the same thing, written two ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.exposition.families import Family, MetricType, Series, family_of, parse, text

from .samples import TEXTS, UTF8_LABELS


@given(TEXTS, st.dictionaries(UTF8_LABELS, TEXTS, max_size=4))
def test_what_is_written_is_parsed(name: str, labels: dict[str, str]) -> None:
    assert parse(text(name, labels)) == Series(name, labels)


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("up", {}, "up"),
        ("up", {"b": "2", "a": "1"}, 'up{a="1",b="2"}'),
        ("up", {"a": 'x"y\\z\n'}, r'up{a="x\"y\\z\n"}'),
        ("my.metric", {}, '{"my.metric"}'),
        ("my.metric", {"a": "1"}, '{"my.metric",a="1"}'),
        ("up", {"my.label": "1"}, 'up{"my.label"="1"}'),
        ("up", {"a": "{}, =", "b": ""}, 'up{a="{}, =",b=""}'),
        ("a:b_1", {}, "a:b_1"),
        ("1a", {}, '{"1a"}'),
    ],
)
def test_series_are_written_as_prometheus_would(name: str, labels: dict[str, str], expected: str) -> None:
    assert text(name, labels) == expected
    assert parse(expected) == Series(name, labels)


@given(st.dictionaries(UTF8_LABELS, TEXTS, max_size=4))
def test_the_order_of_labels_makes_no_difference(labels: dict[str, str]) -> None:
    assert text("x", dict(reversed(labels.items()))) == text("x", labels)


@pytest.mark.parametrize(
    ("sample", "kind", "family"),
    [
        ("h_bucket", "histogram", "h"),
        ("h_created", "histogram", "h"),
        ("s_sum", "summary", "s"),
        ("s_bucket", "summary", "s_bucket"),
        ("g_sum", "gauge", "g_sum"),
        ("gh_gcount", "gaugehistogram", "gh"),
        ("c_created", "counter", "c_total"),
        ("c_total", "counter", "c_total"),
        ("i_info", "info", "i"),
        ("nothing_sum", "counter", "nothing_sum"),
    ],
)
def test_the_family_of_a_sample(sample: str, kind: MetricType, family: str) -> None:
    names = ("h", "s", "g", "gh", "c_total", "i")
    assert family_of(sample, {name: Family(name=name, type=kind) for name in names}) == family


def test_a_family_of_that_very_name_comes_first() -> None:
    families = {"x": Family(name="x", type="histogram"), "x_sum": Family(name="x_sum", type="gauge")}
    assert family_of("x_sum", families) == "x_sum"
