"""API traffic of a phase: requests by identity, verb, resource and status code, from the audit log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..recording.records import Request
from .result import ApiRow, Category
from .writes import qualified

OBJECT_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
READS = frozenset({"get", "list", "watch"})

_REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


class Kind(NamedTuple):
    """Key by which rows are grouped."""

    user: str
    verb: str
    resource: str
    code: int
    category: Category
    dry_run: bool


def kind_of(request: Request) -> Kind:
    """Return the group of a request."""
    category = category_of(request)
    if category == "nonresource":
        resource = "/" + request.path.lstrip("/").partition("/")[0].partition("?")[0]
    else:
        resource = qualified(request) + (f"/{request.subresource}" if request.subresource else "")
    return Kind(request.user, request.verb, resource, request.code, category, request.dry_run)


def category_of(request: Request) -> Category:
    """Return the category of a request; see `result.Category`."""
    if not request.resource:
        return "nonresource"
    if request.group in _REVIEW_GROUPS or (request.resource, request.subresource) == ("serviceaccounts", "token"):
        return "review"
    if request.resource == "leases" and request.group == "coordination.k8s.io":
        return "lease"
    if request.resource == "events" and request.group in ("", "events.k8s.io"):
        return "event"
    return "object"


def counted(request: Request) -> bool:
    """Return whether this line of the log counts as a request: each request has one line that does.

    A watch has two lines, at its start and at its end; it counts when it starts. A rejected watch has only an end.
    """
    if request.verb == "watch":
        return request.stage == "ResponseStarted" or request.code >= 400
    return request.stage != "ResponseStarted"


def roles(identities: Mapping[str, str]) -> dict[str, str]:
    """Return user name → identity; two roles that share one user become ``a+b``."""
    users: dict[str, list[str]] = defaultdict(list)
    for role, user in identities.items():
        users[user].append(role)
    return {user: "+".join(sorted(names)) for user, names in users.items()}


def api_rows(requests: Iterable[Request], identities: Mapping[str, str]) -> tuple[ApiRow, ...]:
    """Count requests; rows sorted by identity, verb, resource and code."""
    took: dict[Kind, list[int]] = defaultdict(list)
    for request in requests:
        took[kind_of(request)].append(request.completed_wall - request.received_wall)
    names = roles(identities)
    rows = [
        ApiRow(
            identity=names.get(kind.user, kind.user),
            user=kind.user,
            verb=kind.verb,
            resource=kind.resource,
            code=kind.code,
            category=kind.category,
            dry_run=kind.dry_run,
            count=len(times),
            p50_ms=quantile(times, 0.50) / 1e6,
            p99_ms=quantile(times, 0.99) / 1e6,
        )
        for kind, times in took.items()
    ]
    rows.sort(key=lambda row: (row.identity, row.user, row.verb, row.resource, row.code, row.dry_run))
    return tuple(rows)


def quantile(values: Sequence[int], q: float) -> float:
    """Return the smallest value that at least the share ``q`` of them does not exceed. ``values`` is not empty."""
    ordered = sorted(values)
    return ordered[max(0, -int(-q * len(ordered) // 1) - 1)]
