"""Kubernetes' own kinds that an operator without custom resources works on: namespaces, ConfigMaps, …"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..operator.manifests import Object
from .custom_resources import CustomResource, references
from .facts import Facts
from .program import Program, rules_of_markers

_POD: Mapping[str, Any] = {"spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]}}


def _with_pods(name: str) -> Mapping[str, Any]:
    """Return the spec of what makes pods; ``name``: of the object, whose own pods its selector finds."""
    labels = {"app": name}
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, **_POD}}


_KINDS: Mapping[str, tuple[str, str, bool, Mapping[str, Any]]] = {
    "namespaces": ("v1", "Namespace", False, {}),
    "configmaps": ("v1", "ConfigMap", True, {"data": {"key": "value"}}),
    "secrets": ("v1", "Secret", True, {"stringData": {"key": "value"}}),
    "services": ("v1", "Service", True, {"spec": {"ports": [{"port": 80}], "selector": {"app": "service"}}}),
    "serviceaccounts": ("v1", "ServiceAccount", True, {}),
    "pods": ("v1", "Pod", True, _POD),
    "persistentvolumeclaims": (
        "v1",
        "PersistentVolumeClaim",
        True,
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    "deployments": ("apps/v1", "Deployment", True, {"spec": {"replicas": 1, **_with_pods("deployment")}}),
    "statefulsets": (
        "apps/v1",
        "StatefulSet",
        True,
        {"spec": {"replicas": 1, "serviceName": "none", **_with_pods("statefulset")}},
    ),
    "daemonsets": ("apps/v1", "DaemonSet", True, {"spec": _with_pods("daemonset")}),
    "jobs": (
        "batch/v1",
        "Job",
        True,
        {"spec": {"template": {"spec": {**_POD["spec"], "restartPolicy": "Never"}}}},
    ),
    "ingresses": (
        "networking.k8s.io/v1",
        "Ingress",
        True,
        {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
    ),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy", True, {"spec": {"podSelector": {}}}),
}
"""Plural → version, kind, whether in a namespace, content of a small object."""
WORKS = {"Deployment": "Available", "Pod": "Ready", "Job": "Complete"}
"""Kind → the condition by which Kubernetes says that such an object does what it is for."""
COPIES_ANNOTATIONS = {"Deployment", "StatefulSet", "DaemonSet"}
"""Kinds whose annotations cause work: a label triggers instead."""
MARK = {"app.kubernetes.io/part-of": "scale-test"}
"""Labels of the objects of a workload: the cluster has others of their kind."""
_SAMPLES = re.compile(r"(^|/)(samples?|examples?|demos?)(/|\.ya?ml$)")
_QUALIFIED = re.compile(r"""["'`=]((?:[a-z0-9-]+\.)+[a-z]{2,}/[A-Za-z0-9][A-Za-z0-9._-]*)""")
"""A label or an annotation with a prefix, as in ``"acme.io/team"``."""
_COMPARED = re.compile(r"""(["'`]?[\w./-]+["'`]?)[\])]+\s*[!=]==?\s*["'`]([\w.-]+)["'`]""")
"""What is looked up, and the text beside it: ``[AUTO] === 'true'``, ``.get("acme.io/auto") == "true"``."""


def builtin_resource(facts: Facts, found: Program) -> CustomResource | None:
    """Return the kind of Kubernetes' own that a program works on, by its rights and its sources; None without one.

    That which it watches and does not create, of several that which its sources name most often. None where its role
    names other groups: its kinds are custom resources, whose definitions are elsewhere.
    """
    rules = [rule for role in facts.of_kind("ClusterRole", "Role") for rule in role.object.get("rules") or []]
    rules = rules or rules_of_markers(found.text)
    groups = {str(group) for rule in rules for group in rule.get("apiGroups") or []}
    if any("." in group and not group.endswith(".k8s.io") for group in groups):
        return None
    watched, created = _allowed(rules, {"watch", "list"}), _allowed(rules, {"create"})
    named = {plural: len(_naming(kind).findall(found.text)) for plural, (_, kind, _, _) in _KINDS.items()}
    candidates = [plural for plural in _KINDS if named[plural] and (plural in watched or not rules)]
    ranked = sorted(
        candidates, key=lambda plural: (not _reconciled(plural, found.text), plural in created, -named[plural])
    )
    return next(_resources(ranked), None)


def named_resources(facts: Facts, obj: Object) -> Iterator[CustomResource]:
    """Yield the kinds of Kubernetes' own of which a sample names an object that is among the samples: a Deployment.

    Secrets and ConfigMaps stand in the sample's own workload.
    """
    for plural, (_, kind, _, _) in _KINDS.items():
        if kind in ("Secret", "ConfigMap", "ServiceAccount"):
            continue
        names = [found.name for found in facts.of_kind(kind) if is_sample(found.file)]
        if any(one.is_to_sample for name in names for one in references(obj, {kind: name})):
            yield from _resources([plural])


def _resources(plurals: list[str]) -> Iterator[CustomResource]:
    for plural in plurals:
        api_version, kind, namespaced, _ = _KINDS[plural]
        group, _, version = api_version.rpartition("/")
        yield CustomResource(
            group=group, version=version, kind=kind, plural=plural, namespaced=namespaced, schema={}, file=""
        )


def _allowed(rules: list[Object], verbs: set[str]) -> set[str]:
    return {
        str(plural)
        for rule in rules
        if {*verbs, "*"} & set(rule.get("verbs") or [])
        for plural in rule.get("resources") or []
    }


def _naming(kind: str) -> re.Pattern[str]:
    """Return a pattern of a kind's name in any language's case: ``ConfigMaps``, ``config_map``, ``configmap``."""
    words = re.findall(r"[A-Z][a-z]+", kind)
    return re.compile(rf"(?<![a-z]){'[_-]?'.join(words)}", re.IGNORECASE)


def _reconciled(plural: str, source: str) -> bool:
    """Return whether a controller is for this kind: ``For(&corev1.Namespace{})``, ``@kopf.on.create("namespaces")``."""
    _, kind, _, _ = _KINDS[plural]
    in_kopf = rf"@kopf\.on\.\w+\([^)]*[\"'](?:{plural}|{kind}|{kind.lower()})[\"']"
    return bool(re.search(rf"\bFor\(\s*&\w+\.{kind}\{{|{in_kopf}", source))


def sample_of(resource: CustomResource, source: str) -> Object:
    """Return a small object of a kind of Kubernetes' own, with the labels and annotations that the sources look for."""
    api_version, kind, _, content = _KINDS[resource.plural]
    labels = {**MARK, **dict.fromkeys(named_labels(source), "example"), **_asked(source, "label")}
    metadata: Object = {"name": kind.lower(), "labels": labels}
    if annotations := _asked(source, "annotation"):
        metadata["annotations"] = annotations
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def is_sample(file: str) -> bool:
    """Return whether an object of a file is there to be tried: others of Kubernetes' own are the installation's."""
    return bool(_SAMPLES.search(file))


def named_labels(source: str) -> list[str]:
    """Return the labels with a prefix that a program's sources name, by the lines where they stand."""
    return _names(source, "label")


def named_annotations(source: str) -> list[str]:
    """Return those annotations with a prefix that a program's sources name of which no value is known."""
    asked = _asked(source, "annotation")
    return [name for name in _names(source, "annotation") if name not in asked]


def _names(source: str, word: str) -> list[str]:
    found: dict[str, None] = {}
    constants = _constants(source)
    for line in source.splitlines():
        if word in line.lower() and "finalizer" not in line.lower():
            found |= dict.fromkeys(name for name in _QUALIFIED.findall(line) if "kubernetes.io/" not in name)
            looked_up = re.findall(rf"(?i){word}s?(?:\(\))?\??\.?(?:get)?[\[(]\s*&?(?:\w+\.)*(\w+)", line)
            found |= dict.fromkeys(constants[name] for name in looked_up if name in constants)
    return list(found)


def _constants(source: str) -> Mapping[str, str]:
    """Return variable → the label or annotation that it names: ``const autoReload = "acme.io/auto"``."""
    named = re.findall(rf"(\w+)\s*(?::[^=\n]*)?=\s*(?=[\"'`]){_QUALIFIED.pattern}[\"'`]", source)
    return {variable: name for variable, name in named if "kubernetes.io/" not in name}


def _asked(source: str, word: str) -> Mapping[str, str]:
    """Return label or annotation → the value that the sources compare it with: ``annotations[AUTO] == "true"``.

    An object without it is none of the operator's.
    """
    constants = _constants(source)
    found: dict[str, str] = {}
    for line in source.splitlines():
        if word not in line.lower():
            continue
        for key, value in _COMPARED.findall(line):
            name = key.strip("\"'`") if "/" in key else constants.get(key, "")
            if name and "kubernetes.io/" not in name:
                found.setdefault(name, value)
    return found
