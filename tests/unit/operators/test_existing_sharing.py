"""How an object that is there differs from the one that is wanted, in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.operator.install import differences

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text(alphabet="ab", max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "x", "y"]), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert list(differences(value, value)) == []


@given(there=values, wanted=values)
def test_what_is_reported_is_reported_both_ways(there: Any, wanted: Any) -> None:
    assert bool(list(differences(there, wanted))) == bool(list(differences(wanted, there)))


@given(there=st.dictionaries(st.sampled_from("abc"), scalars), key=st.sampled_from("abc"), value=scalars)
def test_one_change_is_one_difference(there: dict[str, Any], key: str, value: Any) -> None:
    wanted = {**there, key: value}
    assert len(list(differences(there, wanted))) == int(key not in there or there[key] != value)


def schema(kind: str, *, served: bool = True) -> dict[str, Any]:
    properties = {"replicas": {"type": kind}}
    return {"spec": {"versions": [{"name": "v1", "served": served, "schema": {"properties": properties}}]}}


@pytest.mark.parametrize(
    ("there", "wanted", "reported"),
    [
        (
            schema("string"),
            schema("integer"),
            "spec.versions[v1].schema.properties.replicas.type: is 'string', wanted 'integer'",
        ),
        (schema("string", served=False), schema("string"), "spec.versions[v1].served: is false, wanted true"),
        ({"a": 1}, {}, "a: is there, not wanted"),
        ({}, {"a": {"b": 1}}, "a: is not there, wanted {'b': 1}"),
        ({"l": [{"name": "a"}]}, {"l": [{"name": "b"}, {"name": "a"}]}, "l[b]: is not there, wanted"),
        ({"l": [1, 2]}, {"l": [2, 1]}, "l: is [1, 2], wanted [2, 1]"),
    ],
)
def test_in_words(there: Any, wanted: Any, reported: str) -> None:
    assert list(differences(there, wanted)) == [reported]


def test_long_values_are_cut() -> None:
    (reported,) = differences({"a": "x" * 500}, {"a": "y"})
    assert len(reported) < 100
