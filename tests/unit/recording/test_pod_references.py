"""What pods cannot start without, by their specs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.recording.pod_references import needed

SPEC: dict[str, Any] = {
    "volumes": [
        {"name": "a", "configMap": {"name": "mounted"}},
        {"name": "b", "secret": {"secretName": "keys"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "disk"}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "projected"}}, {"downwardAPI": {}}]}},
        {"name": "e", "configMap": {"name": "perhaps", "optional": True}},
        {"name": "f", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
        {"name": "g", "emptyDir": {}},
    ],
    "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "first"}}]}],
    "containers": [
        {
            "name": "c",
            "env": [
                {"name": "X", "value": "1"},
                {"name": "Y", "valueFrom": {"configMapKeyRef": {"name": "variable", "key": "y"}}},
                {"name": "Z", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }
    ],
}
NEEDS = [
    "configmaps/mounted",
    "configmaps/projected",
    "configmaps/variable",
    "persistentvolumeclaims/disk",
    "secrets/first",
    "secrets/keys",
]


def encoded(content: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(content))


@pytest.mark.parametrize(
    ("resource", "content"),
    [("pods", {"spec": SPEC}), ("deployments.apps", {"spec": {"replicas": 1, "template": {"spec": SPEC}}})],
)
def test_references_that_are_not_optional_are_needed(resource: str, content: dict[str, Any]) -> None:
    assert needed(resource, encoded(content)) == NEEDS


def test_other_kinds_need_nothing() -> None:
    assert needed("widgets.example.com", encoded({"spec": "any"})) == []


@given(st.sets(st.sampled_from(["volumes", "initContainers", "containers"])), st.booleans())
def test_any_part_of_a_spec_may_be_missing(parts: set[str], null: bool) -> None:
    spec = {part: None if null and part != "containers" else SPEC[part] for part in parts}
    assert set(needed("pods", encoded({"spec": spec}))) <= set(NEEDS)
