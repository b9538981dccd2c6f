"""The roles that a project's operator is bound to, or those that fit best where nothing binds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from ..operator.manifests import Object
from . import program
from .custom_resources import CustomResource
from .deployment import container
from .facts import UP, Facts, Found
from .program import Program

_OF_USERS = re.compile(r"(editor|viewer|admin|metrics-reader|auth|proxy|aggregate|view|edit)[-_]?(role)?$")
_REVIEWS: list[Object] = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]
"""What a server needs that authorizes the readers of its metrics at the API server."""
_EVERYTHING: list[Object] = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]


def rbac(
    facts: Facts, resources: Sequence[CustomResource], found: Program
) -> tuple[str | list[str | Object], list[str]]:
    """Return the files with the operator's roles, or its rules; and what of that is guessed."""
    groups = {resource.group for resource in resources}
    reads = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}] if found.secure_metrics else []
    if bound := _bound(facts, groups, elects_leader=found.elects_leader):
        return _sources(bound, reads), []
    ranked = sorted(facts.of_kind("ClusterRole", "Role"), key=lambda role: _rank(role, groups))
    if ranked and _covers(ranked[0], groups):
        same = [role for role in ranked if _rank(role, groups)[:3] == _rank(ranked[0], groups)[:3]]
        others = [file for file in dict.fromkeys(role.file for role in same) if file != ranked[0].file]
        guesses = [f"roles in {', '.join(others)} may belong to it, too"] if others else []
        return _sources([ranked[0].file], reads + (_REVIEWS if reads else [])), guesses
    if rules := program.rules_of_markers(found.text):
        return [*rules, *reads, *(_REVIEWS if reads else [])], []
    return [*_EVERYTHING], ["no role was found that grants the operator its rights: here it may do anything"]


def may_create(facts: Facts, resource: CustomResource, found: Program) -> set[str]:
    """Return the resources that the operator's rights allow it to create, by their plural; without what ``*`` means."""
    groups = {resource.group}
    files = _bound(facts, groups, elects_leader=False)
    roles = sorted(facts.of_kind("ClusterRole", "Role"), key=lambda role: _rank(role, groups))
    if not files and roles and _covers(roles[0], groups):
        files = [roles[0].file]
    rules = [rule for role in roles if role.file in files for rule in role.object.get("rules") or []]
    return {
        str(plural)
        for rule in rules or program.rules_of_markers(found.text)
        if {"create", "*"} & set(rule.get("verbs") or [])
        for plural in rule.get("resources") or []
    }


def _sources(files: Sequence[str], rules: Sequence[Object]) -> str | list[str | Object]:
    paths: list[str | Object] = [UP + file for file in files]
    if len(paths) == 1 and not rules and isinstance(paths[0], str):
        return paths[0]
    return [*paths, *rules]


def _bound(facts: Facts, groups: set[str], *, elects_leader: bool) -> list[str]:
    """Return the files of one ServiceAccount's bindings and of the roles that these name.

    ``elects_leader``: with the rights for that. Empty where none of the roles covers the project's groups.
    """
    roles = {(role.kind, role.name): role for role in facts.of_kind("ClusterRole", "Role")}
    accounts: dict[tuple[str, str], list[Found]] = {}
    for binding in facts.of_kind("ClusterRoleBinding", "RoleBinding"):
        for subject in binding.object.get("subjects") or []:
            if subject.get("kind") == "ServiceAccount" and (elects_leader or "leader" not in binding.name):
                account = (str(subject.get("namespace", "")), str(subject.get("name", "")))
                accounts.setdefault(account, []).append(binding)
    fitting: list[tuple[str, int, list[str]]] = []
    for (_, name), bindings in accounts.items():
        refs = [binding.object.get("roleRef") or {} for binding in bindings]
        named = [roles.get((str(ref.get("kind")), str(ref.get("name")))) for ref in refs]
        if any(role is not None and _covers(role, groups) for role in named):
            files = [file for each, role in zip(bindings, named, strict=True) for file in _files(each, role)]
            rules = sum(len(role.object.get("rules") or []) for role in named if role is not None)
            fitting.append((name, rules, list(dict.fromkeys(files))))
    if len(fitting) > 1:
        # Tools beside the operator have accounts, too, and fewer rights.
        own = container(facts).account
        fitting.sort(key=lambda one: (one[0] == own, one[1]), reverse=True)
    return fitting[0][2] if fitting else []


def _files(binding: Found, role: Found | None) -> list[str]:
    return [binding.file] if role is None else [role.file, binding.file]


def _rank(role: Found, groups: set[str]) -> tuple[object, ...]:
    rules = role.object.get("rules") or []
    return (
        not _covers(role, groups),
        bool(_OF_USERS.search(role.name)) or "aggregationRule" in role.object,
        not role.file.startswith("config/rbac/"),
        role.kind != "ClusterRole",
        PurePosixPath(role.file).name not in ("role.yaml", "rbac.yaml", "clusterrole.yaml", "cluster_role.yaml"),
        -len(rules),
        role.file,
    )


def _covers(role: Found, groups: set[str]) -> bool:
    """Return whether a role names one of the project's groups, or all."""
    named = {group for rule in role.object.get("rules") or [] for group in rule.get("apiGroups") or []}
    return bool(named & (groups | {"*"}))
