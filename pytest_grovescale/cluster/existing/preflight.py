"""Preflight check of an identity's permissions on a cluster, before anything is created there.

One SelfSubjectAccessReview for each permission in ``fixtures/rbac/harness.yaml`` (see ``cluster/rights.py``): the
answer comes from the cluster's authorizer, RBAC or not, and the request changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

import msgspec
import yaml

from ...errors import ClusterError
from ...kube.client import Client
from ...kube.errors import ApiError, NotFound
from .. import rights
from ..rights import Right

_AT_A_TIME = 16
_WHO_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


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


async def ask(client: Client, wanted: Iterable[Right]) -> list[Answer]:
    """Return the API server's answers, in order. Raises ClusterError if it rejects the requests."""
    gate = asyncio.Semaphore(_AT_A_TIME)

    async def one(right: Right) -> Answer:
        async with gate:
            body = msgspec.json.encode(rights.review(right))
            answer = await client.request("POST", rights.REVIEWS_PATH, body=body)
            return Answer(right, msgspec.json.decode(answer, type=_Review).status.allowed)

    try:
        return list(await asyncio.gather(*(one(right) for right in wanted)))
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
