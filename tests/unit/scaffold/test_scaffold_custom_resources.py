"""Samples of custom resources, from their schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.scaffold.custom_resources import minimal_value, references


@pytest.mark.parametrize(
    ("spec", "name", "found"),
    [
        ({"a": "gadget-sample"}, "gadget-sample", True),
        ({"a": "gadget"}, "gadget", None),
        ({"gadget": "one"}, "one", True),
        ({"a": {"kind": "Gadget", "name": "one"}}, "one", True),
        ({"gadgetRef": {"name": "other"}}, "one", False),
        ({"gadgetName": "other"}, "one", False),
        ({"gadgetImage": "other"}, "one", None),
        ({"a": "one"}, "one", None),
        ({"of": {"gadget": "example"}}, "", False),
        ({"of": {"gadget": "other"}}, "", None),
    ],
)
def test_a_reference_to_another_kind(spec: dict[str, Any], name: str, found: bool | None) -> None:
    made = list(references({"kind": "Backup", "metadata": {"name": name}, "spec": spec}, {"Gadget": name}))
    assert [one.is_to_sample for one in made] == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("spec", "is_one"),
    [
        ({"cluster": "sessions"}, True),
        ({"clusterRef": {"name": "sessions"}}, True),
        ({"cluster": "others"}, False),
        ({"clusterDomain": "sessions"}, False),
        ({"cookie": "sessions"}, False),
    ],
)
def test_a_field_that_is_called_as_the_end_of_a_kind_names_its_sample(spec: dict[str, Any], is_one: bool) -> None:
    made = list(
        references({"kind": "CacheUser", "metadata": {"name": "a"}, "spec": spec}, {"CacheCluster": "sessions"})
    )
    assert [one.is_to_sample for one in made] == [True] * is_one


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "default": "a"}, "a"),
        ({"type": "string", "enum": ["x", "y"]}, "x"),
        ({"type": "integer", "minimum": 2.0, "maximum": 10.0}, 2),
        ({"type": "string", "minLength": 9}, "examplexx"),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z"),
        ({"type": "string", "pattern": r"^\d+Mi$"}, "10Mi"),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "maximum": 0}, 0),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, 1),
        ({"type": "array", "minItems": 2, "items": {"type": "boolean"}}, [False, False]),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": {}}}, {"a": 1}),
    ],
)
def test_the_least_value_of_a_schema(schema: dict[str, Any], value: Any) -> None:
    least = minimal_value(schema)
    assert (least, type(least)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schedule", "0 0 1 1 *"),
        ("backupSchedule", "0 0 1 1 *"),
        ("storage_size", "10Mi"),
        ("scheduler", "example"),
        ("baseImage", "registry.k8s.io/pause:3.10"),
    ],
)
def test_a_texts_name_says_which_value_programs_can_read(name: str, value: str) -> None:
    assert minimal_value({"type": "string"}, name) == value


SCHEMAS = st.recursive(
    st.one_of(
        st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-5, 50)),
        st.builds(lambda low: {"type": "string", "minLength": low, "maxLength": low + 5}, st.integers(0, 20)),
        st.just({"type": "boolean"}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda items, n: {"type": "array", "items": items, "minItems": n}, inner, st.integers(0, 3)),
        st.builds(
            lambda properties: {"type": "object", "properties": properties, "required": sorted(properties)},
            st.dictionaries(st.sampled_from(["image", "size", "name", "host"]), inner, max_size=3),
        ),
    ),
)


def allows(schema: dict[str, Any], value: Any) -> bool:
    match schema["type"]:
        case "integer":
            return isinstance(value, int) and value >= schema["minimum"]
        case "string":
            return isinstance(value, str) and schema["minLength"] <= len(value) <= schema["maxLength"]
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return len(value) >= schema["minItems"] and all(allows(schema["items"], item) for item in value)
        case _:
            return value.keys() == schema["properties"].keys() and all(
                allows(schema["properties"][name], item) for name, item in value.items()
            )


@given(SCHEMAS)
def test_a_schema_allows_its_least_value(schema: dict[str, Any]) -> None:
    assert allows(schema, minimal_value(schema))
