"""What the definition of a custom resource promises of its objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from pytest_grovescale import resources
from pytest_grovescale.recording.declared_fields import of_definition

STATUS = {"type": "object", "properties": {"ready": {"type": "integer"}, "list": {"items": {"properties": {"a": {}}}}}}
SCHEMA = {"properties": {"spec": {"properties": {"any": {"additionalProperties": True}}}, "status": STATUS}}


def definition(schema: dict[str, Any] = SCHEMA, **version: Any) -> bytes:
    served = {"name": "v1", "schema": {"openAPIV3Schema": schema}, **version}
    return msgspec.json.encode({"spec": {"versions": [{"name": "v1beta1"}, served]}})


def test_a_definition_says_its_status_and_its_scale() -> None:
    text = resources.find("fixtures/crds/grove", "podcliques.yaml").read_text()
    found = of_definition(msgspec.json.encode(yaml.safe_load(text)), "v1alpha1")
    assert found is not None
    assert {"observedGeneration", "readyReplicas", "selector"} <= set(found.status)
    assert found.scale == {"replicas": "status.replicas", "selector": "status.selector"}
    assert found.subresource
    assert not found.blank_columns


def test_a_version_that_is_not_served_or_has_no_schema() -> None:
    assert of_definition(definition(), "v2") is None
    bare = of_definition(definition(), "v1beta1")
    assert bare is not None
    assert not bare.status
    assert not bare.subresource


@pytest.mark.parametrize(
    ("path", "blank"),
    [
        (".status.ready", False),
        (".status.readdy", True),
        (".status.list[0].a", False),
        (".status.list[*].b", True),
        ('.status.list[?(@.type=="Ready")].a', False),
        (".spec.any.thing", False),
        (".spec.other", True),
        (".metadata.creationTimestamp", False),
        (".status.ready.deeper", True),
        (".status['ready']", False),
        (".status..ready", False),
        (".status[", False),
    ],
)
def test_a_column_of_what_no_object_can_have(path: str, blank: bool) -> None:
    found = of_definition(definition(additionalPrinterColumns=[{"name": "Ready", "jsonPath": path}]), "v1")
    assert found is not None
    assert found.blank_columns == ({"Ready": path} if blank else {})


def test_what_a_schema_leaves_open_may_be_there() -> None:
    open_status = {"properties": {"status": {"x-kubernetes-preserve-unknown-fields": True}}}
    columns = [{"name": "Ready", "jsonPath": ".status.ready"}]
    found = of_definition(definition(open_status, additionalPrinterColumns=columns), "v1")
    assert found is not None
    assert not found.blank_columns
