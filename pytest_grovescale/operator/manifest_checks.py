"""Errors in an operator's manifests that the API server would reject, found in the files alone.

The rules are those of Kubernetes' own validation: ``pkg/apis/rbac/validation``,
``pkg/apis/admissionregistration/validation`` and ``apiextensions-apiserver/pkg/apis/apiextensions/validation`` of
Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import DefinitionError
from ..suggestions import did_you_mean, with_all
from . import manifests, placeholders
from .manifests import Keys, Manifest, Object
from .schema import PolicyRule

CRD = "CustomResourceDefinition"
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")

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


def crds(found: Iterable[Manifest]) -> Iterator[DefinitionError]:
    """Yield the errors of the objects under ``crds:``."""
    return _each(found, (CRD,), _crd, "Other objects belong under `manifests:`.")


def webhooks(found: Iterable[Manifest]) -> Iterator[DefinitionError]:
    """Yield the errors of the objects under ``webhooks:``."""
    return _each(found, WEBHOOKS, _webhooks, "Other objects belong under `manifests:`.")


def of_any_kind(found: Iterable[Manifest]) -> Iterator[DefinitionError]:
    """Yield the errors of the CRDs, webhook configurations and roles among an operator's manifests."""
    for manifest in found:
        check = _BY_KIND.get(manifest.object["kind"])
        if check is not None:
            yield from _each([manifest], (manifest.object["kind"],), check, "")


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


def _each(found: Iterable[Manifest], kinds: Sequence[str], check: Any, elsewhere: str) -> Iterator[DefinitionError]:
    for manifest in found:
        kind = manifest.object["kind"]
        if kind in kinds:
            wrong: Iterable[Found] = check(manifest.object)
        else:
            hint = did_you_mean(kind, kinds) or elsewhere
            wrong = [(("kind",), f"{kind} is no {' or '.join(kinds)}", hint)]
        for keys, what, next_step in wrong:
            yield DefinitionError(f"{manifests.place(manifest.source, keys)}: {what}", next_step=next_step)


def _crd(obj: Object) -> Iterator[Found]:
    if obj["apiVersion"] != "apiextensions.k8s.io/v1":
        yield ("apiVersion",), f"{obj['apiVersion']} is not served", "Write apiextensions.k8s.io/v1."
    spec = _mapping(obj.get("spec"))
    names = _mapping(spec.get("names"))
    lacking: list[tuple[Keys, str]] = [
        (("spec", key), key) for key in ("group", "scope", "versions") if not spec.get(key)
    ]
    lacking += [(("spec", "names", key), key) for key in ("kind", "plural") if not names.get(key)]
    for keys, key in lacking:
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
    for index, written in enumerate(obj.get("rules") or []):
        try:
            one = msgspec.convert(written, PolicyRule)
        except msgspec.ValidationError as error:
            yield ("rules", index), str(error).replace("`", ""), ""
            continue
        for keys, what, next_step in rule(one, namespaced=obj["kind"] == "Role"):
            yield ("rules", index, *keys), what, next_step


def _versions(versions: Any) -> Iterator[Found]:
    if not isinstance(versions, list):
        yield ("spec", "versions"), "is no list", ""
        return
    stored = [str(_mapping(version).get("name")) for version in versions if _mapping(version).get("storage")]
    if len(stored) != 1:
        what = f"{' and '.join(stored)} are stored" if stored else "none is stored"
        yield ("spec", "versions"), what, "Write `storage: true` for exactly one."
    for index, version in enumerate(map(_mapping, versions)):
        place = ("spec", "versions", index)
        for key in ("name", "served", "storage"):
            if key not in version:
                yield (*place, key), "missing", did_you_mean(key, version)
        if not _mapping(version.get("schema")).get("openAPIV3Schema"):
            yield (*place, "schema", "openAPIV3Schema"), "missing", did_you_mean("schema", version)


def _webhooks(obj: Object) -> Iterator[Found]:
    hooks = obj.get("webhooks")
    if not isinstance(hooks, list):
        yield ("webhooks",), "missing" if hooks is None else "is no list", did_you_mean("webhooks", obj)
        return
    for index, hook in enumerate(map(_mapping, hooks)):
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
        yield from _client_config(_mapping(hook["clientConfig"]))
    for index, one in enumerate(hook.get("rules") or []):
        yield from _webhook_rule(("rules", index), _mapping(one))


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


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


_BY_KIND = {CRD: _crd, **dict.fromkeys(WEBHOOKS, _webhooks), "ClusterRole": _role, "Role": _role}
