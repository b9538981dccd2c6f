"""The CRDs as files: structural, with status subresources, and no field that the operator reads left out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from pytest_grovescale import resources as bundled
from pytest_grovescale.reference_operator import objects, resources
from pytest_grovescale.reference_operator.resources import Resource

KINDS: list[tuple[Resource, type[objects.Object]]] = [
    (resources.PODCLIQUESET, objects.PodCliqueSet),
    (resources.PODCLIQUE, objects.PodClique),
    (resources.SCALING_GROUP, objects.ScalingGroup),
    (resources.PODGANG, objects.PodGang),
]


def schema(resource: Resource) -> Any:
    path = bundled.root() / "fixtures/crds/grove" / f"{resource.plural}.yaml"
    crd = yaml.safe_load(path.read_text())
    assert crd["metadata"]["name"] == f"{resource.plural}.{resource.group}"
    (version,) = crd["spec"]["versions"]
    assert version["name"] == resource.version
    assert "status" in version["subresources"]
    return version["schema"]["openAPIV3Schema"]


def fields(found: Any, prefix: str = "") -> set[str]:
    """Return the paths of all fields of a schema; items of lists count as their list."""
    result: set[str] = set()
    for name, child in found.get("properties", {}).items():
        inner = child.get("items", child) if child.get("type") == "array" else child
        result |= {f"{prefix}{name}"} | fields(inner, f"{prefix}{name}.")
    return result


def read(kind: Any, prefix: str = "") -> set[str]:
    """Return the paths of all fields that a struct decodes."""
    result: set[str] = set()
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        path = f"{prefix}{field.encode_name}"
        result.add(path)
        inner: Any = field.type
        if isinstance(inner, msgspec.inspect.UnionType):
            inner = next(t for t in inner.types if not isinstance(t, msgspec.inspect.NoneType))
        if isinstance(inner, msgspec.inspect.ListType):
            inner = inner.item_type
        if isinstance(inner, msgspec.inspect.StructType):
            result |= read(inner.cls, f"{path}.")
    return result


@pytest.mark.parametrize(("resource", "kind"), KINDS, ids=lambda v: getattr(v, "kind", ""))
def test_every_field_that_is_read_is_in_the_schema(resource: Resource, kind: type[objects.Object]) -> None:
    missing = {f for f in read(kind) if f.startswith(("spec", "status"))} - fields(schema(resource))
    # A PodClique takes its autoscaler from its set's template.
    assert {f for f in missing if not f.startswith("spec.autoScalingConfig")} == set()


@pytest.mark.parametrize(("resource", "kind"), KINDS, ids=lambda v: getattr(v, "kind", ""))
def test_nothing_beside_pod_specs_and_metrics_is_kept_unchecked(resource: Resource, kind: object) -> None:
    def unchecked(found: Any, path: str = "") -> set[str]:
        result = {path} if found.get("x-kubernetes-preserve-unknown-fields") else set()
        for name, child in found.get("properties", {}).items():
            result |= unchecked(child, f"{path}/{name}")
        return result | (unchecked(found["items"], path) if "items" in found else set())

    assert all("podSpec" in path or path.endswith("/metrics") for path in unchecked(schema(resource)))
