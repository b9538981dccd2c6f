"""RBAC rules for an operator's ServiceAccount, from ClusterRoles, Roles, or plain rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..definitions import Mistakes
from ..errors import DefinitionError
from ..suggestions import with_all
from . import manifests
from .manifests import Keys, Manifest, Object
from .schema import OperatorDefinition, PolicyRule

RBAC = "rbac.authorization.k8s.io"

# Bindings in a kustomize output have no effect: the identity is the harness' own.
_PASSED_OVER = ("ServiceAccount", "ClusterRoleBinding", "RoleBinding", "Namespace")


class Grant(msgspec.Struct, frozen=True):
    """Rules for the whole cluster, or for one namespace."""

    rules: list[PolicyRule]
    source: str
    namespaced: bool = False
    namespace: str = ""
    """Namespace of a Role; empty: the identity's own."""


def read(file: Path) -> list[Grant]:
    """Return the grants of a file: ClusterRoles and Roles, a mapping with ``rules``, or a list of rules.

    Ignores Bindings and ServiceAccounts: the harness creates the identity. Raises DefinitionError with ``file:line``.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{file}:1: cannot be read: {error}") from error
    grants = [
        grant
        for document, line in manifests.documents(text, str(file))
        for grant in _grants(document, f"{file}:{line}")
    ]
    if not grants:
        raise DefinitionError(f"{file}:1: grants nothing", next_step="Give ClusterRoles, or a list of `rules:`.")
    return grants


def grants(definition: OperatorDefinition) -> list[Grant]:
    """Return all grants of a definition."""
    if isinstance(definition.rbac, str):
        return read(Path(definition.rbac))
    return [Grant(definition.rbac, definition.source)] if definition.rbac else []


def objects(definition: OperatorDefinition) -> list[Manifest]:
    """Return the ClusterRoles, Roles and bindings that grant a definition's rules to its ServiceAccount."""
    found: list[Manifest] = []
    for index, grant in enumerate(grants(definition)):
        name = f"grovescale-{definition.name}" + (f"-{index}" if index else "")
        found += [Manifest(obj, grant.source) for obj in _role(definition, grant, name)]
    return found


def _role(definition: OperatorDefinition, grant: Grant, name: str) -> list[Object]:
    prefix = "" if grant.namespaced else "Cluster"
    metadata: dict[str, str] = {"name": name}
    if grant.namespaced:
        metadata["namespace"] = grant.namespace or definition.identity.namespace
    rules = [msgspec.to_builtins(rule) for rule in grant.rules]
    subject = {
        "kind": "ServiceAccount",
        "name": definition.service_account,
        "namespace": definition.identity.namespace,
    }
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{prefix}Role",
            "metadata": metadata,
            "rules": [{key: value for key, value in rule.items() if value} for rule in rules],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{prefix}RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name},
            "subjects": [subject],
        },
    ]


def _grants(document: Any, where: str) -> list[Grant]:
    if isinstance(document, list):
        return [Grant(_rules(document, where, (), namespaced=False), where)]
    if not isinstance(document, dict):
        raise DefinitionError(f"{where}: {document!r:.60} is neither a role nor a list of rules")
    kind = document.get("kind")
    if kind in _PASSED_OVER:
        return []
    if kind not in (None, "ClusterRole", "Role"):
        raise DefinitionError(f"{where}: kind: {kind} grants nothing", next_step="It may belong under `manifests:`.")
    if not document.get("rules"):
        raise DefinitionError(f"{where}: rules: missing")
    namespace = (document.get("metadata") or {}).get("namespace", "")
    namespaced = kind == "Role"
    rules = _rules(document["rules"], where, ("rules",), namespaced=namespaced)
    return [Grant(rules, where, namespaced, namespace if namespaced else "")]


def _rules(rules: Any, where: str, keys: Keys, *, namespaced: bool) -> list[PolicyRule]:
    """Return the rules of a document; ``keys``: their place in it. Raises DefinitionError for every error."""
    if not isinstance(rules, list):
        raise DefinitionError(f"{manifests.place(where, keys)}: is no list of rules")
    mistakes = Mistakes()
    read = []
    for index, written in enumerate(rules):
        place = (*keys, index)
        try:
            one = msgspec.convert(written, PolicyRule)
        except msgspec.ValidationError as error:
            mistakes.errors.append(_misread(str(error), written, where, place))
            continue
        mistakes.errors += [
            DefinitionError(f"{manifests.place(where, (*place, *inside))}: {what}", next_step=next_step)
            for inside, what, next_step in manifests.rule(one, namespaced=namespaced)
        ]
        read.append(one)
    mistakes.demand_none()
    return read


def _misread(message: str, written: Any, where: str, place: Keys) -> DefinitionError:
    names = [field.encode_name for field in msgspec.structs.fields(PolicyRule)]
    for name in written if isinstance(written, dict) else ():
        if name not in names:
            return DefinitionError(
                f"{manifests.place(where, (*place, name))}: unknown field",
                next_step=with_all(name, names, what="Possible here"),
            )
    return DefinitionError(f"{manifests.place(where, place)}: {message[:1].lower()}{message[1:].replace('`', '')}")
