"""The permissions that the harness needs on a foreign cluster: the rules of ``fixtures/rbac/harness.yaml``.

An administrator applies that file, and the preflight check reads it, so that both always agree. The check sends one
SelfSubjectAccessReview for each permission before anything is created: the answer comes from the cluster's authorizer,
RBAC or not, and the request changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from .. import resources
from ..errors import ClusterError, DefinitionError
from ..kube.client import Client
from ..kube.errors import ApiError, NotFound

FOLDER = "fixtures/rbac"
FILE = "harness.yaml"

NEEDED = "grovescale.io/needed"
WITHOUT = "grovescale.io/without"

REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

_AT_A_TIME = 16
_WHO_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource, or on one non-resource URL (``path``)."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    path: str = ""
    role: str
    """ClusterRole of the file that grants it."""
    needed: bool
    """Whether every test requires it."""
    without: str
    """Effect of a missing permission, as text."""

    @property
    def text(self) -> str:
        """The permission as text: ``create serviceaccounts/token``, ``get /metrics``, ``patch pcs.grove.io``."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {self.path or name}" + (f"/{self.subresource}" if self.subresource else "")


class _Metadata(msgspec.Struct):
    name: str
    annotations: dict[str, str] = {}


class _Rule(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    verbs: list[str]
    api_groups: list[str] = []
    resources: list[str] = []
    non_resource_urls: list[str] = msgspec.field(default_factory=list, name="nonResourceURLs")


class _ClusterRole(msgspec.Struct):
    metadata: _Metadata
    rules: list[_Rule]


def rights(file: Path | None = None) -> list[Right]:
    """Return every permission that the ClusterRoles of a file grant, without duplicates, required ones first.

    ``file`` None: the bundled one. Raises DefinitionError for a file without ClusterRoles, and for a role whose
    annotations lack whether it is required or the effect of its absence.
    """
    path = file or resources.find(FOLDER, FILE)
    documents = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    roles = [document for document in documents if document and document.get("kind") == "ClusterRole"]
    if not roles:
        raise DefinitionError(f"{path}:1: has no ClusterRole", next_step=f"See the bundled {FOLDER}/{FILE}.")
    granted = [right for role in roles for right in _granted(path, role)]
    once: dict[str, Right] = {}
    for right in sorted(granted, key=lambda right: not right.needed):
        once.setdefault(right.text, right)
    return list(once.values())


def review(right: Right, namespace: str = "") -> dict[str, Any]:
    """Return the SelfSubjectAccessReview for a permission in a namespace; by default in all namespaces.

    https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
    """
    if right.path:
        spec = {"nonResourceAttributes": {"verb": right.verb, "path": right.path}}
    else:
        asked = {
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "subresource": right.subresource,
            "namespace": namespace,
        }
        spec = {"resourceAttributes": {key: value for key, value in asked.items() if value}}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}


def _granted(path: Path, document: dict[str, Any]) -> Iterator[Right]:
    try:
        role = msgspec.convert(document, _ClusterRole)
        needed = {"true": True, "false": False}[role.metadata.annotations[NEEDED]]
        without = role.metadata.annotations[WITHOUT]
    except (msgspec.ValidationError, KeyError) as error:
        name = (document.get("metadata") or {}).get("name")
        raise DefinitionError(
            f"{path}:1: ClusterRole {name}: {error}",
            next_step=f'Each has rules, and the annotations {NEEDED} ("true" or "false") and {WITHOUT}.',
        ) from error
    for rule in role.rules:
        for verb in rule.verbs:
            for url in rule.non_resource_urls:
                yield Right(verb=verb, path=url, role=role.metadata.name, needed=needed, without=without)
            for group in rule.api_groups:
                for name in rule.resources:
                    resource, _, subresource = name.partition("/")
                    yield Right(
                        verb=verb,
                        group=group,
                        resource=resource,
                        subresource=subresource,
                        role=role.metadata.name,
                        needed=needed,
                        without=without,
                    )


class Answer(msgspec.Struct, frozen=True):
    """Whether a permission is granted."""

    right: Right
    allowed: bool


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


class _UserInfo(msgspec.Struct):
    username: str = ""


class _Self(msgspec.Struct, rename="camel"):
    user_info: _UserInfo


class _SelfReview(msgspec.Struct):
    status: _Self


async def identity(client: Client) -> str:
    """Return the user name of this identity at the API server; empty if not reported (Kubernetes before 1.28)."""
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    try:
        answer = await client.request("POST", _WHO_PATH, body=body)
    except NotFound:
        return ""
    return msgspec.json.decode(answer, type=_SelfReview).status.user_info.username


async def ask(client: Client, requested: Iterable[Right]) -> list[Answer]:
    """Return the API server's answers, in order. Raises ClusterError if it rejects the requests."""
    gate = asyncio.Semaphore(_AT_A_TIME)

    async def one(right: Right) -> Answer:
        async with gate:
            body = msgspec.json.encode(review(right))
            answer = await client.request("POST", REVIEWS_PATH, body=body)
            return Answer(right, msgspec.json.decode(answer, type=_Review).status.allowed)

    try:
        return list(await asyncio.gather(*(one(right) for right in requested)))
    except ApiError as error:
        raise ClusterError(
            f"the cluster does not say what may be done there: {error.message}",
            next_step="Any authenticated identity may create selfsubjectaccessreviews, unless an administrator took "
            "that away: see the ClusterRole system:basic-user.",
        ) from error


def table(answers: Sequence[Answer]) -> list[str]:
    """Return the table of permissions: a line for each ClusterRole of the file, with its purpose."""
    by_role: dict[str, list[Answer]] = {}
    for answer in answers:
        by_role.setdefault(answer.right.role, []).append(answer)
    return [f"  {_line(role, group)}" for role, group in by_role.items()]


def _line(role: str, group: Sequence[Answer]) -> str:
    refused = [answer for answer in group if not answer.allowed]
    if not refused:
        return f"yes  {role}: {_in_words(group)}"
    right = group[0].right
    weight = "NEEDED, " if right.needed else ""
    granted = [answer for answer in group if answer.allowed]
    also = f"; granted: {_in_words(granted)}" if granted else ""
    return f"NO   {role} ({weight}without it {right.without}): refused: {_in_words(refused)}{also}"


def _in_words(answers: Sequence[Answer]) -> str:
    """Return permissions as ``get, list nodes, pods; create serviceaccounts/token``."""
    return "; ".join(
        f"{', '.join(rule['verbs'])} {', '.join(rule.get('resources') or rule['nonResourceURLs'])}"
        for rule in rules_of(answers)
    )


def demand(answers: Sequence[Answer], *, identity: str, also: Collection[str] = ()) -> None:
    """Raise ClusterError if a required permission is missing, with the RBAC rules to add, as YAML.

    ``also``: further ClusterRoles of the file that this run requires.
    """
    missing = [answer for answer in answers if not answer.allowed and _is_needed(answer.right, also)]
    if not missing:
        return
    rules = "\n".join(
        f"  {line}" for line in yaml.safe_dump({"rules": rules_of(missing)}, sort_keys=False).splitlines()
    )
    raise ClusterError(
        f"{identity or 'the identity of the tests'} may not do what they need; nothing was made. A ClusterRole with "
        f"these rules is missing:\n{rules}",
        next_step="Let an administrator apply fixtures/rbac/harness.yaml of pytest-grovescale, which holds them, and "
        "bind its ClusterRoles to this identity.",
    )


def refused(answers: Sequence[Answer]) -> list[str]:
    """Return the effect of each missing optional permission, without duplicates."""
    return list(dict.fromkeys(answer.right.without for answer in answers if not answer.allowed))


def rules_of(answers: Sequence[Answer]) -> list[dict[str, list[str]]]:
    """Return RBAC rules that grant exactly these permissions; resources with the same verbs share a rule."""
    verbs: dict[tuple[str, str, bool], list[str]] = {}
    for answer in answers:
        right = answer.right
        name = right.path or right.resource + (f"/{right.subresource}" if right.subresource else "")
        verbs.setdefault((right.group, name, bool(right.path)), []).append(right.verb)
    merged: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for (group, name, is_path), some in verbs.items():
        merged.setdefault((group, is_path, tuple(some)), []).append(name)
    return [
        {"nonResourceURLs": names, "verbs": list(some)}
        if is_path
        else {"apiGroups": [group], "resources": names, "verbs": list(some)}
        for (group, is_path, some), names in merged.items()
    ]


def _is_needed(right: Right, also: Collection[str]) -> bool:
    return right.needed or right.role in also
