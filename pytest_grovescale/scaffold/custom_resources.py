"""A project's custom resources: their definitions, a sample object of each, and how to tell that one is done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from ..operator.manifests import CRD, Object
from .facts import Facts, Found

_PREFERRED = ("config/crd/bases/", "config/crd/", "crds/", "deploy/crds/", "charts/")
_SAMPLES = ("config/samples/", "samples/", "examples/", "example/", "docs/", "deploy/")
_DONE = (
    *("Complete", "Completed", "Succeeded", "Done", "Finished"),
    *("Ready", "Available", "Healthy", "Active", "Synced", "Bound", "Running"),
)
"""Values of a condition's type, or of a phase, that mean that nothing is left to be done; the first found counts.

Those that are the last one of all stand first: an object whose Job runs is Running for a while, and Complete for ever.
"""
_PASSING = ("Running", "Active")
"""Values that pass where Jobs do the work: their pods end."""
_NOT_DONE = re.compile(
    r"fail|err|degraded|unknown|invalid|reject|denied|abort|cancel|expired|lost|unhealthy|unavail|terminat|delet|remov"
    r"|ing$|progress|scheduled|queued|started|^(?:new|init|none|in|up)",
    re.IGNORECASE,
)
_BEGUN = re.compile("scheduled|started", re.IGNORECASE)
"""Those that last where there is no other."""
"""Values of a phase that do not last, or are no success."""
_COMPARED = re.compile(r"""(?:[=!]=|\bcase)\s*["'](\w+)["']|["'](\w+)["']\s*[=!]=""")
_IN_COLUMN = re.compile(r"""\.status\.conditions\[\?\(\s*@\.type\s*==\s*["'](\w+)["']\s*\)\]\.status""")
_CONDITION_TYPE = re.compile(r"""(?:type|cond)\w*["']?(?:\s+[\w.]+)?\s*:?[:=]\s*["'](\w+)["']""", re.IGNORECASE)
"""A literal that something named after a type or a condition is: ``typeAvailable = "Available"``."""
_PHASES = ("phase", "state")
_OBSERVES = re.compile(r"""\.Status\.ObservedGeneration\s*=|["']observedGeneration["']\s*[:,\]]""")
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
        return _mapping(_property(self.schema, "status").get("properties"))


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """An object to be replicated, and what it comes with."""

    object: Object
    """Without namespace, status, and what an API server adds."""
    companions: tuple[Object, ...] = ()
    """Secrets and ConfigMaps in the sample's file, and those among the samples that it names."""
    source: str
    """File of the sample; that of the CRD where there is no sample."""
    made_from_schema: bool = False


class Milestone(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on the workload that holds once the operator is done, as an expression of a test."""

    name: str
    expression: str
    """``widgets`` is the workload, ``count`` its number of objects."""
    reason: str
    """What it is derived from."""
    is_guess: bool


def custom_resources(facts: Facts) -> list[CustomResource]:
    """Return the kinds that a project defines, each once: of several files with one, the one in the usual place."""
    best: dict[str, Found] = {}
    for found in sorted(facts.of_kind(CRD), key=lambda found: _rank(found.file, _PREFERRED)):
        best.setdefault(found.name, found)
    return [resource for found in best.values() for resource in _resource(found)]


def _resource(found: Found) -> Iterable[CustomResource]:
    spec = _mapping(found.object.get("spec"))
    names = _mapping(spec.get("names"))
    versions = [_mapping(version) for version in spec.get("versions") or []]
    stored = next((version for version in versions if version.get("storage")), None)
    if stored is None or not names.get("kind") or not names.get("plural"):
        return
    subresources = _mapping(stored.get("subresources"))
    yield CustomResource(
        group=str(spec.get("group", "")),
        version=str(stored.get("name", "")),
        kind=str(names["kind"]),
        plural=str(names["plural"]),
        namespaced=spec.get("scope") != "Cluster",
        schema=_mapping(_mapping(stored.get("schema")).get("openAPIV3Schema")),
        columns=tuple(_mapping(column) for column in stored.get("additionalPrinterColumns") or []),
        scale=_mapping(subresources.get("scale")),
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
            not _mapping(found.object.get("spec")),
            _rank(found.file, _SAMPLES)[:2],
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
    return Sample(
        object=_completed(_stripped(chosen.object), resource),
        companions=tuple(_stripped(found.object) for found in companions),
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

    By the sample's name, where that or the field's path says which kind it is; or by a field as ``databaseRef.name``,
    or ``database`` of an object that is made from its schema.
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
            if value == name and (is_of_kind or word in field or is_telling):
                yield Reference(path, kind, value, is_to_sample=True)
                break
            by_field = re.search(rf"{re.escape(word)}(name|ref(erence)?(name)?)$", field) is not None
            # Of a value that says nothing, the field's own name does.
            by_field = by_field or (value == PLACEHOLDER and str(path[-1]).lower() == word)
            if by_field or (is_of_kind and path[-1] == "name"):
                yield Reference(path, kind, value, is_to_sample=False)
                break


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
    properties = _mapping(schema.get("properties"))
    lacking = {
        name: minimal_value(_mapping(properties.get(name)), name)
        for name in schema.get("required") or []
        if name not in value and "default" not in _mapping(properties.get(name))
    }
    return {name: _filled(inner, _mapping(properties.get(name))) for name, inner in value.items()} | lacking


def _minimal(resource: CustomResource) -> Object:
    properties = _mapping(resource.schema.get("properties"))
    required = {*(resource.schema.get("required") or []), *(["spec"] if "spec" in properties else [])}
    content = {
        name: minimal_value(_mapping(schema), name)
        for name, schema in properties.items()
        if name in required and name not in ("apiVersion", "kind", "metadata", "status")
    }
    of_spec = _mapping(_property(resource.schema, "spec").get("properties"))
    for name in _COUNTS:
        if isinstance(content.get("spec"), dict) and _mapping(of_spec.get(name)).get("type") == "integer":
            content["spec"].setdefault(name, minimal_value(_mapping(of_spec[name]), name))
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
            schema = {**_mapping(part), **schema}
    is_open = "properties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    kind = schema.get("type", "object" if is_open else "")
    if kind == "object":
        properties = _mapping(schema.get("properties"))
        return {each: minimal_value(_mapping(properties.get(each)), each) for each in schema.get("required") or []}
    if kind == "array":
        items = _mapping(schema.get("items"))
        return [minimal_value(items, name.removesuffix("s")) for _ in range(int(schema.get("minItems", 0)))]
    if kind in ("integer", "number"):
        least = schema.get("minimum", min(1, schema.get("maximum", 1)))
        return max(least, min(1, schema.get("maximum", 1)))
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
    properties = _mapping(schema.get("properties"))
    needed = [_mapping(properties.get(name)) for name in schema.get("required") or []]
    inner = [*needed, *([_mapping(schema["items"])] if "items" in schema else [])]
    return bool(schema.get("pattern")) or any(has_pattern(one) for one in inner)


# ---- when is one done?


def milestones(
    resource: CustomResource, obj: Object, source: str, workload: str, *, runs_jobs: bool = False
) -> list[Milestone]:
    """Return the milestones of a deployment that can be derived, best first; none where nothing can.

    ``obj``: the sample; ``source``: the program's text, whose literals name condition types and phases; ``workload``:
    the variable of the workload in the test. Declared by the CRD: a printer column with a condition, a scale
    subresource. The rest is guessed from the fields of the status and the program's literals. ``runs_jobs``: it makes
    Jobs, whose pods end.
    """
    resource = _with_status(resource, source)
    condition = _condition(resource, source)
    if condition is not None:
        return [condition_milestone(workload, *condition)]
    for field in _PHASES:
        if (schema := _mapping(resource.status.get(field))).get("type") == "string":
            values = _phases(schema.get("enum") or [], source)
            known = [value for value in _DONE if value in values and not (runs_jobs and value in _PASSING)]
            # A word of its own, as Issued: the last that the CRD lists, or the only one.
            own = [value for value in schema.get("enum") or sorted(values) if value in values]
            is_only = len(values) == 1 and not schema.get("enum")
            own = [value for value in own if not (_NOT_DONE.search(value) and not (is_only and _BEGUN.search(value)))]
            own = [value for value in own if value not in _PASSING]
            known = known or (own[-1:] if schema.get("enum") or len(own) == 1 else [])
            if known:
                return [
                    Milestone(
                        name=known[0].lower(),
                        expression=f'{workload}.status({field}="{known[0]}")',
                        reason=f"status.{field} is {known[0]} when it is done",
                        is_guess=True,
                    )
                ]
    for field in (value.lower() for value in _DONE if not (runs_jobs and value in _PASSING)):
        if _mapping(resource.status.get(field)).get("type") == "boolean":
            return [
                Milestone(
                    name=field,
                    expression=f"{workload}.status({field}=True)",
                    reason=f"status.{field} is true when it is done",
                    is_guess=True,
                )
            ]
    if replicas := _replicas(resource, obj, workload):
        return [replicas]
    if "observedGeneration" in resource.status and _OBSERVES.search(source):
        return [
            Milestone(
                name="observed",
                expression=f"{workload}.status(observedGeneration=1)",
                reason="the operator writes status.observedGeneration when it is done",
                is_guess=True,
            )
        ]
    return []


_IN_STATUS = re.compile(r"\.status\.(\w+)$")
_FIELD = re.compile(r"^\s*\w+\s+([\w.\[\]*]+)\s+`json:\"(\w+)", re.MULTILINE)
_GO_TYPES = {"string": "string", "bool": "boolean", "int": "integer", "int32": "integer", "int64": "integer"}


def _with_status(resource: CustomResource, source: str) -> CustomResource:
    """Return a resource whose schema leaves its status open, with the fields that are known otherwise.

    Those of the struct of a program in Go, and of printer columns.
    """
    if resource.status:
        return resource
    struct = re.search(rf"^type {resource.kind}Status struct \{{(.*?)^\}}", source, re.MULTILINE | re.DOTALL)
    fields = {name: {"type": _GO_TYPES.get(type_, "")} for type_, name in _FIELD.findall(struct[1])} if struct else {}
    for column in resource.columns:
        if found := _IN_STATUS.match(str(column.get("jsonPath", ""))):
            fields.setdefault(found[1], {"type": str(column.get("type", ""))})
    properties = {**_mapping(resource.schema.get("properties")), "status": {"properties": fields}}
    return msgspec.structs.replace(resource, schema={**resource.schema, "properties": properties})


_SET = re.compile(r"""(?:phase|state)\w*["']?\]?\s*(?::?=|:|,)\s*["']\w+["']""", re.IGNORECASE)
_VALUE = re.compile(r"""["'](\w+)["'](?!\s*[:\]])""")
"""A literal that a phase or a state gets: ``phase = "Online"``, ``{"state": "Scheduled"}``."""


def _phases(declared: Sequence[str], source: str) -> set[str]:
    """Return the values that a phase may reach: those of the CRD that the program sets, by its literals.

    Without a declaration those on lines that name a phase or a state, if there are any.
    """
    compared = {value for pair in _COMPARED.findall(source) for value in pair if value}
    text = _COMPARED.sub("", source)
    named = literals(text)
    if declared:
        known = set(declared) & (named | compared)
        return known or set(declared)
    lines = "\n".join(line for line in text.splitlines() if re.search(r"phase|state(?!ful)", line, re.IGNORECASE))
    if literals(lines) & set(_DONE):
        return literals(lines)
    # Both values of a line with a condition count, and no keys.
    given = {value for line in text.splitlines() if _SET.search(line) for value in _VALUE.findall(line)}
    return given or named & set(_DONE)


def condition_milestone(workload: str, type_: str, reason: str, is_guess: bool) -> Milestone:
    """Return the milestone of a condition that is True."""
    return Milestone(
        name=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type_).lower(),
        expression=f'{workload}.status(conditions={{"{type_}": "True"}})',
        reason=reason,
        is_guess=is_guess,
    )


def _condition(resource: CustomResource, source: str) -> tuple[str, str, bool] | None:
    columns = [match[1] for column in resource.columns if (match := _IN_COLUMN.match(str(column.get("jsonPath", ""))))]
    for type_ in sorted(columns, key=lambda each: _DONE.index(each) if each in _DONE else len(_DONE)):
        return type_, f"the CRD shows the condition {type_} in a column", type_ not in _DONE
    if "conditions" not in resource.status or not _sets_conditions(source):
        return None
    named = set(_CONDITION_TYPE.findall(source))
    known = [type_ for type_ in _DONE if type_ in named]
    return (known[0], f"the program has a condition {known[0]}, as it seems", True) if known else None


def _sets_conditions(source: str) -> bool:
    return bool(re.search(r"ConditionTrue|SetStatusCondition|[\"']conditions[\"']", source))


def _replicas(resource: CustomResource, obj: Object, workload: str) -> Milestone | None:
    """Return the milestone of a scale subresource: status and spec agree on the number."""
    in_spec, in_status = (str(resource.scale.get(key, "")) for key in ("specReplicasPath", "statusReplicasPath"))
    number: Any = obj
    for key in in_spec.strip(".").split("."):
        number = number.get(key) if isinstance(number, dict) else None
    ready = next((name for name in ("readyReplicas", "availableReplicas") if name in resource.status), "")
    field = ready or in_status.removeprefix(".status.")
    if not isinstance(number, int) or not number or not field or "." in field:
        return None
    return Milestone(
        name="replicas-ready" if ready else "replicas",
        expression=f"{workload}.status({field}={number})",
        reason=f"status.{field} reaches the sample's {in_spec.lstrip('.')}",
        is_guess=True,
    )


def literals(source: str) -> set[str]:
    """Return the words that stand alone in quotes."""
    return set(re.findall(r"[\"'](\w+)[\"']", source))


def _property(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _mapping(_mapping(schema.get("properties")).get(name))


def _rank(file: str, preferred: tuple[str, ...]) -> tuple[int, int, str]:
    first = next((i for i, folder in enumerate(preferred) if file.startswith(folder)), len(preferred))
    return first, file.count("/"), file


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
