"""Field paths: the narrow decoder finds exactly what a look-up in the whole object finds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from pytest_grovescale.errors import UsageError
from pytest_grovescale.recording.fieldpath import Index, Key, Projection, Select, Step, lookup, parse

NAMES = st.sampled_from(["a", "b", "type", "x.y/z", "with space", 'q"uote', "ü", "f0", "]"])
VALUES = st.sampled_from(["a", "b", "Ready", "true", "1", "2.5"])


def written(steps: tuple[Step, ...]) -> str:
    text = ""
    for step in steps:
        match step:
            case Key(name) if not text or name in ("a", "b", "type", "f0"):
                text += f".{name}" if text else name
            case Key(name):
                text += f"[{msgspec.json.encode(name).decode()}]"
            case Index(number):
                text += f"[{number}]"
            case Select(key, value):
                text += f"[{key}={value}]"
    return text


STEPS = st.one_of(
    NAMES.map(Key),
    st.integers(0, 2).map(Index),
    st.tuples(st.sampled_from(["a", "type"]), VALUES).map(lambda t: Select(*t)),
)
PATHS = st.tuples(st.sampled_from(["a", "b", "type"]).map(Key), st.lists(STEPS, max_size=3)).map(
    lambda t: (t[0], *t[1])
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from([2.5, 1e20]), VALUES)
OBJECTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=25,
)


@given(st.lists(PATHS, max_size=5), st.dictionaries(NAMES, OBJECTS, max_size=4))
def test_narrow_decode_equals_generic_lookup(paths: list[tuple[Step, ...]], obj: dict[str, Any]) -> None:
    texts = [written(steps) for steps in paths]
    expected = {}
    for text, steps in zip(texts, paths, strict=True):
        assert parse(text) == steps
        found = lookup(obj, steps)
        if found is not UNSET:
            expected[text] = found
    data = msgspec.json.encode(obj)
    assert msgspec.json.encode(Projection(texts)(data), order="sorted") == msgspec.json.encode(expected, order="sorted")
    assert Projection(texts)(msgspec.Raw(data)) == Projection(texts)(data)


POD = {
    "metadata": {
        "name": "p",
        "labels": {"grove.io/podclique": "c"},
        "annotations": {"a.b/c": "1", "kubernetes.io/x": "y"},
    },
    "spec": {"containers": [{"image": "i0"}, {"image": "i1"}], "schedulingGates": [{"name": "g"}]},
    "status": {
        "phase": "Running",
        "replicas": 0,
        "conditions": [None, {"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}, {"type": "Ready"}],
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("status.phase", "Running"),
        ("status.replicas", 0),
        ("status.conditions[type=Ready].status", "True"),
        ("status.conditions[type=Ready]", {"type": "Ready", "status": "True"}),
        ('metadata.annotations["a.b/c"]', "1"),
        ("metadata.labels", {"grove.io/podclique": "c"}),
        ("spec.containers[1].image", "i1"),
        ("spec.schedulingGates", [{"name": "g"}]),
        ("spec.schedulingGates[0].name", "g"),
    ],
)
def test_paths_of_a_pod(path: str, value: Any) -> None:
    assert Projection([path])(msgspec.json.encode(POD)) == {path: value}


@pytest.mark.parametrize(
    "path", ["spec.nodeName", "status.phase.deeper", "status.conditions[type=Other].status", "spec.containers[2].image"]
)
def test_lacking_paths_are_left_out(path: str) -> None:
    assert Projection([path])(msgspec.json.encode(POD)) == {}


def test_null_is_a_value_and_not_a_way() -> None:
    assert Projection(["a", "a.b"])(b'{"a":null}') == {"a": None}


@pytest.mark.parametrize(
    "path", ["", ".", "a.", "a..b", "a[", "a[]", "a[x", "[0]", 'a["x]', "a b", "a[x=y", 'a["\\q"]', "a]"]
)
def test_what_is_no_path_is_refused_with_the_place(path: str) -> None:
    with pytest.raises(UsageError, match="field path"):
        parse(path)
