"""What a custom resource's definition promises of its objects, as far as a recording can hold them against it.

A definition names the fields of a status, those that ``kubectl get`` shows as columns and those that an autoscaler
reads. Nothing enforces that they are ever written: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..kube.client import Client
from ..kube.errors import ApiError
from .records import Declared

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ANSWER_S = 5.0
"""What a watch waits for it, s: late events are worse than fields without a definition."""
_MOST = 64
"""Fields of a status that are looked for."""

_STEP = re.compile(r"\.?(?P<name>[\w-]+)|\[['\"](?P<quoted>[^'\"]+)['\"]\]|\[[^\]'\"]*\]|\[\?\([^)]*\)\]")
_COLUMNS_OF = (".status", ".spec")
_OPEN = ("preserve-unknown-fields", "embedded-resource")
"""What a schema says where it does not name all fields."""


class _Column(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    json_path: str = msgspec.field(name="jsonPath", default="")


class _Scale(msgspec.Struct, frozen=True, rename="camel"):
    status_replicas_path: str = ""
    label_selector_path: str = ""


class _Subresources(msgspec.Struct, frozen=True):
    status: dict[str, Any] | None = None
    scale: _Scale | None = None


class _Schema(msgspec.Struct, frozen=True):
    schema: dict[str, Any] = msgspec.field(name="openAPIV3Schema", default_factory=dict)


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    schema: _Schema = _Schema()
    subresources: _Subresources = _Subresources()
    additional_printer_columns: list[_Column] = []


class _Spec(msgspec.Struct, frozen=True):
    versions: list[_Version] = []


class _Definition(msgspec.Struct, frozen=True):
    spec: _Spec


_decode = msgspec.json.Decoder(_Definition).decode


async def declared(client: Client, resource: str, path: str) -> Declared | None:
    """Return what the definition of a kind says of its objects; None where it has none, or it may not be read.

    ``resource``: ``podcliquesets.grove.io``; ``path``: the URL path of a collection, which says the version.
    """
    try:
        body = await client.request("GET", f"{_DEFINITIONS}/{resource}", timeout=_ANSWER_S)
    except ApiError:
        return None
    return of_definition(body, path.split("/")[3])


def of_definition(definition: bytes, name: str) -> Declared | None:
    """Return what a definition, as JSON, says of the objects of one of its versions; None without that version."""
    versions = _decode(definition).spec.versions
    return next((_of_version(version) for version in versions if version.name == name), None)


def _of_version(version: _Version) -> Declared:
    schema, scale = version.schema.schema, version.subresources.scale
    # An API server takes no schema whose parts are of another type.
    status = schema.get("properties", {}).get("status", {}).get("properties", {})
    scale_paths = {"replicas": scale.status_replicas_path, "selector": scale.label_selector_path} if scale else {}
    return Declared(
        status=list(status)[:_MOST],
        subresource=version.subresources.status is not None,
        scale={what: found.removeprefix(".") for what, found in scale_paths.items() if found},
        blank_columns={
            column.name: column.json_path
            for column in version.additional_printer_columns
            if column.json_path.startswith(_COLUMNS_OF) and not _may_have(schema, column.json_path)
        },
    )


def _may_have(schema: Mapping[str, Any], path: str) -> bool:
    """Return whether an object of a schema may have a field; True for a path that is not understood."""
    for step in _steps(path):
        if step is None or any(schema.get(f"x-kubernetes-{which}") for which in _OPEN):
            return True
        inside = schema.get("properties", {})
        further = schema.get("items") if step == "" else inside.get(step, schema.get("additionalProperties"))
        if further is True:
            return True
        if not isinstance(further, Mapping):
            return False
        schema = further
    return True


def _steps(path: str) -> Iterator[str | None]:
    """Yield the names of a JSONPath; empty for an element of a list, None where it is not understood."""
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            yield None
            return
        yield found["name"] or found["quoted"] or ""
        at = found.end()
