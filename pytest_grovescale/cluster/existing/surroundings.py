"""Discovery of an existing cluster before anything is created: version, identity, permissions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...errors import ClusterError
from ...kube.access import Access
from ...kube.client import Client
from ...kube.errors import ApiError
from .. import rights
from ..definition import Existing
from . import api_metrics, preflight
from .preflight import Answer

Progress = Callable[[str], None]

KWOK_ROLE = "grovescale-harness-kwok"
"""ClusterRole of ``fixtures/rbac/harness.yaml`` that our kwok requires."""

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+)")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the discovery."""

    kubernetes: str
    identity: str
    """User name; empty if the API server does not report it."""
    lacking: list[str]
    """Features that do not work because of missing permissions, as text."""
    may_play: bool
    """Whether our kwok has its permissions."""
    api_metrics: bool
    """Whether the API server's metrics are readable and it is the only one."""


async def look(client: Client, access: Access, settings: Existing, progress: Progress) -> Found:
    """Discover version, identity and permissions; report them as progress, and raise if they are not sufficient."""
    try:
        version = msgspec.json.decode(await client.request("GET", "/version"), type=dict[str, Any])
        identity = await preflight.identity(client)
    except ApiError as error:
        raise ClusterError(
            f"the cluster at {access.server} cannot be used: {error.message}",
            next_step="Try: kubectl version" + (f" --context {access.context}" if access.context else ""),
        ) from error
    answers = await preflight.ask(client, rights.rights())
    where = f"context {access.context} ({access.server})" if access.context else access.server
    progress(f"what {identity or 'we'} may do at {where}:")
    for line in preflight.table(answers):
        progress(line)
    preflight.demand(answers, identity=identity, also=(KWOK_ROLE,) if settings.kwok == "host" else ())
    match = _VERSION.search(str(version.get("gitVersion", "")))
    return Found(
        kubernetes=match[1] if match else "",
        identity=identity,
        lacking=preflight.refused(answers),
        may_play=all(answer.allowed for answer in answers if answer.right.role == KWOK_ROLE),
        api_metrics=_allowed(answers, api_metrics.PATH) and await api_metrics.servers(client) == 1,
    )


def _allowed(answers: Sequence[Answer], path: str) -> bool:
    return any(answer.allowed for answer in answers if answer.right.path == path)
