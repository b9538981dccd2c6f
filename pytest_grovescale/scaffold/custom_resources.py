"""A project's custom resources: their definitions, and a sample object of each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from ..operator.manifests import CRD, Object, as_mapping
from .facts import Facts, Found

_PREFERRED = ("config/crd/bases/", "config/crd/", "crds/", "deploy/crds/", "charts/")
_REFUSED = re.compile(r"malformed|invalid|fail(?:ure|ing|ed)|broken|negative|(?<![a-z])bad(?![a-z])", re.IGNORECASE)
"""In the path of what is there to be refused."""
_SAMPLES = ("config/samples/", "samples/", "examples/", "example/", "docs/", "deploy/")
_COUNTS = ("replicas", "size", "members", "instances", "nodes", "count")
"""Names of numbers that say how much an object is to make: nothing, where they are missing."""


class CustomResource(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of object that the project defines, in its stored version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    schema: Mapping[str, Any]
    columns: tuple[Mapping[str, Any], ...] = ()
    """``additionalPrinterColumns``."""
    scale: Mapping[str, Any] = {}
    """``subresources.scale``."""
    has_status: bool = False
    """Whether it has a status subresource."""
    file: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def target(self) -> str:
        """As a condition names it: ``websites.web.example.com``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def status(self) -> Mapping[str, Any]:
        """The properties of its status."""
        return as_mapping(_property(self.schema, "status").get("properties"))


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """An object to be replicated, and what it comes with."""

    object: Object
    """Without namespace, status, and what an API server adds."""
    companions: tuple[Object, ...] = ()
    """Secrets and ConfigMaps in the sample's file, and those among the samples that it names."""
    source: str
    """File of the sample; that of the CRD where there is no sample."""
    made_from_schema: bool = False


def custom_resources(facts: Facts) -> list[CustomResource]:
    """Return the kinds that a project defines, each once: of several files with one, the one in the usual place."""
    best: dict[str, Found] = {}
    for found in sorted(facts.of_kind(CRD), key=lambda found: _rank(found.file, _PREFERRED)):
        best.setdefault(found.name, found)
    return [resource for found in best.values() for resource in _resource(found)]


def _resource(found: Found) -> Iterable[CustomResource]:
    spec = as_mapping(found.object.get("spec"))
    names = as_mapping(spec.get("names"))
    versions = [as_mapping(version) for version in spec.get("versions") or []]
    stored = next((version for version in versions if version.get("storage")), None)
    if stored is None or not names.get("kind") or not names.get("plural"):
        return
    subresources = as_mapping(stored.get("subresources"))
    yield CustomResource(
        group=str(spec.get("group", "")),
        version=str(stored.get("name", "")),
        kind=str(names["kind"]),
        plural=str(names["plural"]),
        namespaced=spec.get("scope") != "Cluster",
        schema=as_mapping(as_mapping(stored.get("schema")).get("openAPIV3Schema")),
        columns=tuple(as_mapping(column) for column in stored.get("additionalPrinterColumns") or []),
        scale=as_mapping(subresources.get("scale")),
        has_status="status" in subresources,
        file=found.file,
    )


# ---- samples


def sample(facts: Facts, resource: CustomResource) -> Sample:
    """Return the project's own sample of a kind, else the smallest object that its schema allows."""
    of_kind = [found for found in facts.objects if found.group == resource.group and found.kind == resource.kind]
    ranked = sorted(
        of_kind,
        key=lambda found: (
            not as_mapping(found.object.get("spec")),
            _REFUSED.search(found.file) is not None,
            _rank(found.file, _SAMPLES)[:2],
            not found.name,
            found.object["apiVersion"] != resource.api_version,
            # As kubebuilder names its own: GROUP_VERSION_KIND.yaml.
            not PurePosixPath(found.file).stem.endswith(f"_{resource.kind.lower()}"),
            found.file,
        ),
    )
    if not ranked:
        return Sample(object=_minimal(resource), source=resource.file, made_from_schema=True)
    chosen = ranked[0]
    named = {value for _, value in texts(chosen.object)}
    companions = [
        found
        for found in facts.of_kind("Secret", "ConfigMap")
        if found.file == chosen.file or (found.name in named and _rank(found.file, _SAMPLES)[0] < len(_SAMPLES))
    ]
    # Samples of several files share a name: the one beside the sample is meant.
    companions.sort(key=lambda found: found.file != chosen.file)
    by_name = {(found.kind, found.name): found for found in reversed(companions)}
    return Sample(
        object=_completed(_stripped(chosen.object), resource),
        companions=tuple(_stripped(found.object) for found in companions if found is by_name[found.kind, found.name]),
        source=chosen.file,
    )


class Reference(NamedTuple):
    """A text of a sample that names an object of another kind."""

    path: tuple[str | int, ...]
    kind: str
    value: str
    is_to_sample: bool
    """It is the name of that kind's sample; else its field says so."""


def references(obj: Object, others: Mapping[str, str]) -> Iterator[Reference]:
    """Yield the references to objects of other kinds (kind → name of its sample).

    By the sample's name, where that, the field's path or its last word says which kind it is; or by a field as
    ``databaseRef.name``, or ``database`` of an object that is made from its schema.
    """
    for path, value in texts(obj):
        field = "".join(str(key) for key in path if isinstance(key, str)).lower()
        beside: Any = obj
        for key in path[:-1]:
            beside = beside[key]
        for kind, name in others.items():
            word = kind.lower()
            is_of_kind = isinstance(beside, dict) and beside.get("kind") == kind
            # A sample that is called as its kind is, no more: its name is a word that others use, too.
            is_telling = word in name.lower() and name.lower() != word
            if value == name and (is_of_kind or word in field or is_telling or _ends_with_its_word(field, kind)):
                yield Reference(path, kind, value, is_to_sample=True)
                break
            by_field = re.search(rf"{re.escape(word)}(name|ref(erence)?(name)?)$", field) is not None
            # Of a value that says nothing, the field's own name does.
            by_field = by_field or (value == PLACEHOLDER and str(path[-1]).lower() == word)
            if by_field or (is_of_kind and path[-1] == "name"):
                yield Reference(path, kind, value, is_to_sample=False)
                break


def _ends_with_its_word(field: str, kind: str) -> bool:
    """Return whether a field has the last word of a kind, as ``cluster`` or ``clusterRef`` of a CacheCluster."""
    words = re.findall(r"[A-Z]+[a-z0-9]*", kind)
    endings = ["".join(words[index:]).lower() for index in range(1, len(words))]
    return any(re.search(rf"{ending}(name|ref(erence)?(name)?)?$", field) for ending in endings)


def texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield path and value of the texts of an object, but those that name itself, and kinds."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("apiVersion", "kind") and (*path, key) != ("metadata", "name"):
                yield from texts(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts(inner, (*path, index))
    elif isinstance(value, str):
        yield path, value


def replaced(value: Any, texts: Mapping[tuple[str | int, ...], str], path: tuple[str | int, ...] = ()) -> Any:
    """Return an object with other texts at these paths."""
    if isinstance(value, dict):
        return {key: replaced(inner, texts, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [replaced(inner, texts, (*path, index)) for index, inner in enumerate(value)]
    return texts.get(path, value)


def _stripped(obj: Object) -> Object:
    metadata = {key: obj["metadata"][key] for key in ("name", "labels", "annotations") if obj["metadata"].get(key)}
    if "name" not in metadata:  # it is for kubectl create
        metadata["name"] = obj["metadata"]["generateName"].strip("-")
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")} | {"metadata": metadata}


def _completed(obj: Object, resource: CustomResource) -> Object:
    """Return a sample with what its schema requires and it lacks: `kubebuilder` writes ``spec:`` with a TODO."""
    lacking = {
        key: value
        for key, value in _minimal(resource).items()
        if key not in ("metadata", "apiVersion", "kind") and (obj.get(key) is None)
    }
    found = {key: value for key, value in obj.items() if value is not None} | lacking
    return found | ({"spec": _filled(found["spec"], _property(resource.schema, "spec"))} if "spec" in found else {})


def _filled(value: Any, schema: Mapping[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    properties = as_mapping(schema.get("properties"))
    lacking = {
        name: minimal_value(as_mapping(properties.get(name)), name)
        for name in schema.get("required") or []
        if name not in value and "default" not in as_mapping(properties.get(name))
    }
    return {name: _filled(inner, as_mapping(properties.get(name))) for name, inner in value.items()} | lacking


def _minimal(resource: CustomResource) -> Object:
    properties = as_mapping(resource.schema.get("properties"))
    required = {*(resource.schema.get("required") or []), *(["spec"] if "spec" in properties else [])}
    content = {
        name: minimal_value(as_mapping(schema), name)
        for name, schema in properties.items()
        if name in required and name not in ("apiVersion", "kind", "metadata", "status")
    }
    of_spec = as_mapping(_property(resource.schema, "spec").get("properties"))
    for name in _COUNTS:
        if isinstance(content.get("spec"), dict) and as_mapping(of_spec.get(name)).get("type") == "integer":
            content["spec"].setdefault(name, minimal_value(as_mapping(of_spec[name]), name))
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": {"name": resource.kind.lower()}, **content}


PLACEHOLDER = "example"
_BY_NAME = (
    # Once a year: what is made at a time is not made while a test runs.
    (("schedule", "cron", "crontab"), "0 0 1 1 *"),
    (("interval", "timeout", "period", "ttl", "duration", "retention"), "1m"),
    (("size", "storage", "capacity", "memory", "quota"), "10Mi"),
    (("cpu",), "100m"),
    (("url", "uri", "endpoint"), "https://example.com/"),
    (("host", "hostname", "domain", "fqdn"), "example.com"),
    (("email",), "someone@example.com"),
    (("cidr", "subnet"), "192.0.2.0/24"),
    (("version",), "1.0.0"),
)
"""Last word of a text's name → a value that programs can read, where the schema says no more than that it is a text."""
_FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "duration": "1m",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "8c1f4a7e-5b0d-4c1e-9a53-3d7f0f6f6b11",
    "byte": "Z3JvdmVzY2FsZQ==",
}


def minimal_value(schema: Mapping[str, Any], name: str = "") -> Any:
    """Return a small value that a property's schema allows, with what it requires; ``name``: of the property.

    A pattern cannot be solved in general: its value is a guess, which the API server may refuse.
    """
    for key in ("default", "example", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    for key in ("allOf", "oneOf", "anyOf"):
        for part in schema.get(key) or []:
            schema = {**as_mapping(part), **schema}
    is_open = "properties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    kind = schema.get("type", "object" if is_open else "")
    if kind == "object":
        properties = as_mapping(schema.get("properties"))
        return {each: minimal_value(as_mapping(properties.get(each)), each) for each in schema.get("required") or []}
    if kind == "array":
        items = as_mapping(schema.get("items"))
        return [minimal_value(items, name.removesuffix("s")) for _ in range(int(schema.get("minItems", 0)))]
    if kind in ("integer", "number"):
        least = schema.get("minimum", min(1, schema.get("maximum", 1)))
        number = max(least, min(1, schema.get("maximum", 1)))
        # fabric8's and other generators write bounds of integers as 1.0.
        return math.ceil(number) if kind == "integer" else number
    if kind == "boolean":
        return False
    return _text(schema, name)


def _text(schema: Mapping[str, Any], name: str) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    pattern = str(schema.get("pattern", ""))
    last = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower())[-1]
    known: tuple[str, ...] = (
        *(value for words, value in _BY_NAME if last in words),
        PLACEHOLDER,
        "1",
        "10Mi",
        "1m",
        "example.com",
        "https://example.com/",
        "v1.0.0",
        "1.0.0",
        "nginx:latest",
    )
    if "image" in name.lower():
        known = ("registry.k8s.io/pause:3.10", *known)
    least = int(schema.get("minLength", 0))
    if pattern:
        try:
            fits = [text for text in known if re.search(pattern, text) and len(text) >= least]
        except re.error:
            # Go's expressions have forms that Python's lack.
            fits = []
        return fits[0] if fits else "1"
    return known[0].ljust(least, "x")[: int(schema.get("maxLength", 253))]


def has_pattern(schema: Mapping[str, Any]) -> bool:
    """Return whether a required text of a schema has a pattern."""
    properties = as_mapping(schema.get("properties"))
    needed = [as_mapping(properties.get(name)) for name in schema.get("required") or []]
    inner = [*needed, *([as_mapping(schema["items"])] if "items" in schema else [])]
    return bool(schema.get("pattern")) or any(has_pattern(one) for one in inner)


def _property(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return as_mapping(as_mapping(schema.get("properties")).get(name))


def _rank(file: str, preferred: tuple[str, ...]) -> tuple[int, int, str]:
    first = next((i for i, folder in enumerate(preferred) if file.startswith(folder)), len(preferred))
    return first, file.count("/"), file
