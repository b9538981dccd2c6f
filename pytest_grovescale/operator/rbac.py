"""What an operator's ServiceAccount may do: its rules, or the roles and bindings of its manifests.

Each grant gets a role and a binding of its own name, so that it never meets those of an installed operator on a shared
cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from .manifests import ACCOUNT, BINDINGS, RBAC, ROLES, Manifest, Object, PolicyRule
from .schema import Identity


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Rules, or a role of the cluster, for the whole cluster or for one namespace."""

    source: str
    rules: list[PolicyRule] = []
    role: tuple[str, str] | None = None
    """Kind and name of a role that is not in the manifests: ``ClusterRole``, ``system:auth-delegator``."""
    namespace: str | None = None
    """None: the whole cluster; empty: the identity's own namespace."""


class Account(NamedTuple):
    """A ServiceAccount."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def accounts(found: Iterable[Manifest]) -> list[Account]:
    """Return the ServiceAccounts that bindings name, each once. One without a namespace is in its binding's."""
    return list(dict.fromkeys(account for one in found for account in _subjects(one.object)))


def grants(found: Sequence[Manifest], account: Account | None) -> tuple[list[Grant], list[Manifest]]:
    """Return the grants of roles and bindings, and the roles that grant nothing.

    ``account``: whose bindings count; None: there are none, and all roles are granted.
    """
    roles = {_key(one.object): one for one in found if one.object["kind"] in ROLES}
    if account is None:
        return [_granted(one, key[2] if key[0] == "Role" else None, roles) for key, one in roles.items()], []
    bound: list[Grant] = []
    used = set()
    for binding in found:
        obj = binding.object
        if account not in _subjects(obj):
            continue
        namespace = None if obj["kind"] == "ClusterRoleBinding" else obj["metadata"].get("namespace", "")
        kind, name = str(obj["roleRef"]["kind"]), str(obj["roleRef"]["name"])
        key = kind, name, (namespace or "") if kind == "Role" else ""
        if (role := roles.get(key)) is None:
            bound.append(Grant(source=binding.source, role=(kind, name), namespace=namespace))
        else:
            used.add(key)
            bound.append(_granted(role, namespace, roles))
    return bound, [role for key, role in roles.items() if key not in used]


def objects(operator: str, given: Sequence[Grant], identity: Identity) -> list[Manifest]:
    """Return the roles and bindings that give a ServiceAccount its grants."""
    found: list[Manifest] = []
    for index, grant in enumerate(given):
        name = f"grovescale-{operator}" + (f"-{index}" if index else "")
        found += [Manifest(obj, grant.source) for obj in _objects(grant, name, identity)]
    return found


def _granted(role: Manifest, namespace: str | None, roles: Mapping[Any, Manifest]) -> Grant:
    return Grant(source=role.source, rules=_rules(role.object, roles), namespace=namespace)


def _rules(role: Object, roles: Mapping[Any, Manifest]) -> list[PolicyRule]:
    """Return a role's rules; those of an aggregated ClusterRole are the rules of all that its selectors match."""
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    parts = [
        one.object
        for one in roles.values()
        if any(_selects(selector, one.object["metadata"].get("labels") or {}) for selector in selectors)
    ]
    return [msgspec.convert(rule, PolicyRule) for part in (role, *parts) for rule in part.get("rules") or []]


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def _subjects(obj: Object) -> Iterator[Account]:
    if obj["kind"] in BINDINGS:
        for subject in obj.get("subjects") or []:
            if subject.get("kind") == ACCOUNT:
                yield Account(subject.get("namespace") or obj["metadata"].get("namespace", ""), str(subject["name"]))


def _key(role: Object) -> tuple[str, str, str]:
    return role["kind"], role["metadata"]["name"], role["metadata"].get("namespace", "")


def _objects(grant: Grant, name: str, identity: Identity) -> list[Object]:
    prefix = "Cluster" if grant.namespace is None else ""
    metadata: dict[str, str] = {"name": name}
    if grant.namespace is not None:
        metadata["namespace"] = grant.namespace or identity.namespace
    rules = [msgspec.to_builtins(rule) for rule in grant.rules]
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{prefix}Role",
        "metadata": metadata,
        "rules": [{key: value for key, value in rule.items() if value} for rule in rules],
    }
    kind, referred = grant.role or (role["kind"], name)
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{prefix}RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": referred},
        "subjects": [{"kind": ACCOUNT, "name": identity.service_account, "namespace": identity.namespace}],
    }
    return [binding] if grant.role else [role, binding]
