"""Kubernetes objects from YAML text, as ``kubectl apply -f`` reads them, with line numbers in the errors.

JSON-safe by construction: dates stay strings, keys are strings, a duplicate key is an error (plain YAML readers take
the last one silently).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ..definitions import Mistakes, dotted, line_of, node_at
from ..errors import DefinitionError
from ..suggestions import did_you_mean, with_all
from ..yaml_errors import readable
from . import placeholders

Object = dict[str, Any]
Keys = tuple[str | int, ...]
"""A place in an object: ``("rules", 0, "verbs")``."""


class Manifest(msgspec.Struct, frozen=True):
    """One object and its source position."""

    object: Object
    source: str
    """``file:line`` of the object's first line."""


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One rule of a role."""

    verbs: list[str]
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    non_resource_urls: list[str] = msgspec.field(default=[], name="nonResourceURLs")


class _Problem(Exception):
    def __init__(self, message: str, line: int, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.next_step = next_step


class _Loader(yaml.CSafeLoader):
    pass


# Dates stay strings, as the API server would get them.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class _Documents(_Loader):
    def close(self) -> None:
        self.dispose()


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Object:
    result: Object = {}
    loader.flatten_mapping(node)
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node)
        line = key_node.start_mark.line
        if not isinstance(key, str):
            raise _Problem(f"key {key!r} is not a text: write it in quotes", line)
        if key in result:
            raise _Problem(f"key {key!r} is there twice", line)
        result[key] = loader.construct_object(value_node, deep=True)
    return result


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str, source: str, *, rules: bool = False) -> list[Manifest]:
    """Return the objects of a multi-document YAML text; ``List`` kinds are expanded, empty documents omitted.

    ``source``: name of the text in errors. ``rules``: a document may also be a list of RBAC rules, or a mapping with
    ``rules`` alone; it is returned as a ClusterRole. Raises DefinitionError with ``source:line``.
    """
    manifests: list[Manifest] = []
    for document, line in documents(text, source):
        if rules and (isinstance(document, list) or (isinstance(document, dict) and list(document) == ["rules"])):
            manifests.append(_role_of_rules(document, f"{source}:{line}"))
            continue
        try:
            manifests += _objects(document, source, line - 1)
        except _Problem as problem:
            raise DefinitionError(
                f"{source}:{problem.line + 1}: {problem.message}", next_step=problem.next_step
            ) from None
    return manifests


def documents(text: str, source: str) -> list[tuple[Any, int]]:
    """Return each non-empty YAML document with its first line (from 1)."""
    found: list[tuple[Any, int]] = []
    with readable(source), contextlib.closing(_Documents(text)) as loader:
        try:
            while loader.check_node():
                node = loader.get_node()
                assert node is not None
                document = loader.construct_document(node)
                if document is not None:
                    found.append((document, node.start_mark.line + 1))
        except _Problem as problem:
            raise DefinitionError(
                f"{source}:{problem.line + 1}: {problem.message}", next_step=problem.next_step
            ) from None
    return found


def place(source: str, keys: Keys) -> str:
    """Return ``file:line: path.to.value`` for a place in a document; ``source``: ``file:line`` of its first line."""
    file, _, line = source.rpartition(":")
    path = Path(file)
    node = None
    if path.is_file():
        documents = yaml.compose_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        node = next((found for found in documents if found.start_mark.line + 1 == int(line)), None)
    number = line_of(node, keys) if node_at(node, keys[:1]) is not None else int(line)
    return f"{file}:{number}: {dotted(keys)}"


def title(obj: Object) -> str:
    """Return the name of an object for messages: ``PodCliqueSet demo/big``."""
    metadata = obj.get("metadata", {})
    name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
    namespace = metadata.get("namespace")
    return f"{obj.get('kind')} {namespace}/{name}" if namespace else f"{obj.get('kind')} {name}"


def _role_of_rules(document: Any, source: str) -> Manifest:
    """Return plain rules as a ClusterRole. Raises DefinitionError for every error in them."""
    keys, written = ((), document) if isinstance(document, list) else (("rules",), document["rules"])
    mistakes = Mistakes()
    mistakes.errors += [
        DefinitionError(f"{place(source, (*keys, *inside))}: {what}", next_step=next_step)
        for inside, what, next_step in rules_of(written, namespaced=False)
    ]
    mistakes.demand_none()
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "rules"}, "rules": written}
    return Manifest(role, source)


def _objects(document: Any, source: str, line: int) -> list[Manifest]:
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List") and "items" in document:
        if not isinstance(document["items"], list):
            raise _Problem("items: is no list", line)
        return [manifest for item in document["items"] for manifest in _objects(item, source, line)]
    _check(document, line)
    return [Manifest(document, f"{source}:{line + 1}")]


def _check(document: Any, line: int) -> None:
    if not isinstance(document, dict):
        raise _Problem(f"a Kubernetes object is a mapping, this is {document!r:.60}", line)
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            near = did_you_mean(field, [str(key) for key in document if key not in ("apiVersion", "kind")])
            raise _Problem(
                f"{field}: missing", line, f"It has {near.removeprefix('Did you mean ').rstrip('?')}." if near else ""
            )
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise _Problem(f"metadata.name: missing in this {document['kind']}", line)
    for field in ("name", "generateName", "namespace"):
        if not isinstance(metadata.get(field, ""), str):
            raise _Problem(f"metadata.{field}: {metadata[field]!r} is not a text: write it in quotes", line)
    for field in ("labels", "annotations"):
        _check_texts(metadata.get(field), f"metadata.{field}", line)


def _check_texts(mapping: Any, path: str, line: int) -> None:
    if mapping is None:
        return
    if not isinstance(mapping, dict):
        raise _Problem(f"{path}: is no mapping", line)
    for key, value in mapping.items():
        if not isinstance(value, str):
            raise _Problem(f"{path}.{key}: {value!r} is not a text: write it in quotes", line)


CRD = "CustomResourceDefinition"
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
RBAC = "rbac.authorization.k8s.io"
ROLES = ("ClusterRole", "Role")
BINDINGS = ("ClusterRoleBinding", "RoleBinding")
ACCOUNT = "ServiceAccount"

_POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
# All kinds of the groups whose kinds have a field of their own: a misspelt one would be left out.
_KINDS = {
    "apiextensions.k8s.io": (CRD,),
    "admissionregistration.k8s.io": (*WEBHOOKS, *_POLICIES, *(f"{kind}Binding" for kind in _POLICIES)),
    RBAC: (*ROLES, *BINDINGS),
}

Found = tuple[Keys, str, str]
"""Place in an object, problem, next step."""

_CHOICES = {
    "sideEffects": ("None", "NoneOnDryRun"),
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Exact", "Equivalent"),
    "reinvocationPolicy": ("Never", "IfNeeded"),
}
_NEEDED = ("name", "clientConfig", "sideEffects", "admissionReviewVersions")
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")
_RULE_LISTS = ("operations", "apiGroups", "apiVersions", "resources")


def errors(found: Iterable[Manifest]) -> Iterator[DefinitionError]:
    """Yield what an API server would reject in CRDs, webhook configurations and roles, and misspelt kinds of them."""
    for manifest in found:
        check = _BY_KIND.get(manifest.object["kind"], _kind)
        for keys, what, next_step in check(manifest.object):
            yield DefinitionError(f"{place(manifest.source, keys)}: {what}", next_step=next_step)


def group(obj: Object) -> str:
    """Return the API group of an object; empty for the core group."""
    return str(obj["apiVersion"]).rpartition("/")[0]


def _kind(obj: Object) -> Iterator[Found]:
    kinds = _KINDS.get(group(obj), ())
    if kinds and obj["kind"] not in kinds:
        yield ("kind",), f"{group(obj)} has no kind {obj['kind']}", with_all(obj["kind"], kinds, what="Known")


def rules_of(written: Any, *, namespaced: bool) -> Iterator[Found]:
    """Yield the errors of a list of rules; places are relative to it."""
    if not isinstance(written, list):
        yield (), "is no list of rules", ""
        return
    for index, item in enumerate(written):
        try:
            one = msgspec.convert(item, PolicyRule)
        except msgspec.ValidationError as error:
            yield from _misread(str(error), item, index)
            continue
        for keys, what, next_step in rule(one, namespaced=namespaced):
            yield (index, *keys), what, next_step


def _misread(message: str, written: Any, index: int) -> Iterator[Found]:
    names = [field.encode_name for field in msgspec.structs.fields(PolicyRule)]
    unknown = [name for name in (written if isinstance(written, dict) else ()) if name not in names]
    for name in unknown:
        yield (index, name), "unknown field", with_all(name, names, what="Possible here")
    if not unknown:
        yield (index,), f"{message[:1].lower()}{message[1:].replace('`', '')}", ""


def rule(one: PolicyRule, *, namespaced: bool) -> Iterator[Found]:
    """Yield the errors of a rule of a ClusterRole, or of a Role; places are relative to it."""
    if not one.verbs:
        yield ("verbs",), "a rule needs one verb or more", ""
    if one.non_resource_urls:
        if namespaced:
            yield ("nonResourceURLs",), "cannot be granted in a namespace", "Write a ClusterRole."
        if one.api_groups or one.resources or one.resource_names:
            yield ("nonResourceURLs",), "cannot be in one rule with resources", "Write two rules."
        return
    if not one.api_groups:
        yield ("apiGroups",), "missing", 'The core group, of pods and services, is written [""].'
    if not one.resources:
        yield ("resources",), "missing", "Name one resource or more, in the plural: [pods]."


def _crd(obj: Object) -> Iterator[Found]:
    if obj["apiVersion"] != "apiextensions.k8s.io/v1":
        yield ("apiVersion",), f"{obj['apiVersion']} is not served", "Write apiextensions.k8s.io/v1."
    spec = as_mapping(obj.get("spec"))
    names = as_mapping(spec.get("names"))
    lacking: list[tuple[Keys, Mapping[str, Any]]] = [
        (("spec", key), spec) for key in ("group", "scope", "versions") if not spec.get(key)
    ]
    lacking += [(("spec", "names", key), names) for key in ("kind", "plural") if not names.get(key)]
    for keys, inside in lacking:
        key = str(keys[-1])
        if key in inside:
            yield keys, "is empty", "Name one version or more." if key == "versions" else f"Give it a {key}."
        else:
            yield keys, "missing", did_you_mean(key, [*spec, *names])
    if lacking:
        return
    wanted = f"{names['plural']}.{spec['group']}"
    if obj["metadata"].get("name") != wanted:
        yield ("metadata", "name"), f"{obj['metadata'].get('name')!r} is not <plural>.<group>", f"Write {wanted}."
    if spec["scope"] not in ("Namespaced", "Cluster"):
        hint = with_all(str(spec["scope"]), ("Namespaced", "Cluster"), what="Use")
        yield ("spec", "scope"), f"{spec['scope']!r} is not possible", hint
    yield from _versions(spec["versions"])


def _role(obj: Object) -> Iterator[Found]:
    if "rules" not in obj and "aggregationRule" not in obj:
        yield ("rules",), "missing", did_you_mean("rules", obj)
    for keys, what, next_step in rules_of(obj.get("rules") or [], namespaced=obj["kind"] == "Role"):
        yield ("rules", *keys), what, next_step


def _versions(versions: Any) -> Iterator[Found]:
    if not isinstance(versions, list):
        yield ("spec", "versions"), "is no list", ""
        return
    stored = [str(as_mapping(version).get("name")) for version in versions if as_mapping(version).get("storage")]
    if len(stored) != 1:
        what = f"{' and '.join(stored)} are stored" if stored else "none is stored"
        yield ("spec", "versions"), what, "Write `storage: true` for exactly one."
    for index, version in enumerate(map(as_mapping, versions)):
        place = ("spec", "versions", index)
        for key in ("name", "served", "storage"):
            if key not in version:
                yield (*place, key), "missing", did_you_mean(key, version)
        if not as_mapping(version.get("schema")).get("openAPIV3Schema"):
            yield (*place, "schema", "openAPIV3Schema"), "missing", did_you_mean("schema", version)


def _webhooks(obj: Object) -> Iterator[Found]:
    hooks = obj.get("webhooks")
    if not isinstance(hooks, list):
        yield ("webhooks",), "missing" if hooks is None else "is no list", did_you_mean("webhooks", obj)
        return
    for index, hook in enumerate(map(as_mapping, hooks)):
        for keys, what, next_step in _webhook(hook):
            yield ("webhooks", index, *keys), what, next_step


def _webhook(hook: Mapping[str, Any]) -> Iterator[Found]:
    for key in _NEEDED:
        if not hook.get(key):
            yield (key,), "missing", did_you_mean(key, [name for name in hook if name not in _NEEDED])
    if hook.get("name") and str(hook["name"]).count(".") < 2:
        yield ("name",), f"{hook['name']!r} has fewer than three parts", "Write it as validate.pods.example.com."
    for key, choices in _CHOICES.items():
        if hook.get(key, choices[0]) not in choices:
            yield (key,), f"{hook[key]!r} is not possible", with_all(str(hook[key]), choices, what="Use")
    timeout = hook.get("timeoutSeconds", 10)
    if not isinstance(timeout, int) or not 1 <= timeout <= 30:
        yield ("timeoutSeconds",), f"{timeout!r} is not from 1 to 30", ""
    if hook.get("clientConfig"):
        yield from _client_config(as_mapping(hook["clientConfig"]))
    for index, one in enumerate(hook.get("rules") or []):
        yield from _webhook_rule(("rules", index), as_mapping(one))


def _client_config(config: Mapping[str, Any]) -> Iterator[Found]:
    if "url" not in config and "service" not in config:
        yield ("clientConfig",), "neither url nor service", did_you_mean("service", config)
    for name in placeholders.names(str(config.get("url", ""))):
        if name not in placeholders.PROVIDED:
            yield (
                ("clientConfig", "url"),
                f"unknown placeholder {{{name}}}",
                with_all(name, placeholders.PROVIDED, what="Known"),
            )


def _webhook_rule(place: Keys, one: Mapping[str, Any]) -> Iterator[Found]:
    for key in _RULE_LISTS:
        if not isinstance(one.get(key), list) or not one[key]:
            yield (*place, key), "missing" if not one.get(key) else "is no list", did_you_mean(key, one)
    for index, operation in enumerate(one.get("operations") or []):
        if operation not in _OPERATIONS:
            hint = with_all(str(operation), _OPERATIONS, what="There are")
            yield (*place, "operations", index), f"{operation!r} is no operation", hint


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a value that is a mapping; an empty one for any other."""
    return value if isinstance(value, dict) else {}


_BY_KIND = {CRD: _crd, **dict.fromkeys(WEBHOOKS, _webhooks), **dict.fromkeys(ROLES, _role)}
