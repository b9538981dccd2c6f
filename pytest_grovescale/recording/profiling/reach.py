"""The current endpoints of a profile target: on this host, or in the leader pod, through the API server."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import msgspec

from ... import endpoints
from ...endpoints import Address, addressed
from ...kube import access as kube
from ...kube.access import Access
from ...operator.following import Followed
from ..protocol import ProfileTarget
from ..scraping.objects import pod_where
from ..scraping.targets import OfFollowed
from .capture import ProfileFailed


class ApiUrl(msgspec.Struct, frozen=True):
    """A URL read through the API server, with the recorder's identity."""

    url: str
    access: Access


AnyAddress = Address | ApiUrl


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """The current endpoints of a profile target; None for each that it lacks."""

    pprof: AnyAddress | None = None
    stacks: AnyAddress | None = None


Reach = Callable[[ProfileTarget], Reached]
"""Raises ProfileFailed when the target is not available."""


def on_this_host(target: ProfileTarget) -> Reached:
    """Return the endpoints of a process of this host."""
    return Reached(pprof=target.address, stacks=target.stacks)


def at_leader(target: ProfileTarget, leader: Callable[[str], Followed | None], access: Access) -> Reached:
    """Return the endpoints of a target, those in pods at the leader. Raises ProfileFailed when there is no leader."""

    def at(place: OfFollowed | None, instead: Address | None) -> AnyAddress | None:
        if place is None:
            return instead
        pod = leader(place.pods)
        where = None if pod is None else pod_where(pod, place, access.server.rstrip("/"))
        if where is None:
            raise ProfileFailed(f"no pod of {place.pods} leads", next_step="See its log.")
        if where.credentials is None:
            return ApiUrl(where.url, access)
        return addressed(where.url, where.credentials)

    return Reached(pprof=at(target.pprof_at, target.address), stacks=at(target.stacks_at, target.stacks))


def tls(address: AnyAddress) -> ssl.SSLContext | None:
    """Return the TLS settings; None for a plain ``http`` address. Raises OSError for an unreadable or invalid file."""
    return endpoints.ssl_context(address) if isinstance(address, Address) else kube.ssl_context(address.access)


def server_name(address: AnyAddress) -> str | None:
    """Return the name required in the server's certificate; None: the URL's host."""
    return None if isinstance(address, Address) else address.access.tls_server_name or None


def proxy(address: AnyAddress) -> str:
    """Return the URL of the HTTP proxy for an address; empty where there is none."""
    return "" if isinstance(address, Address) else address.access.proxy


def authorization(address: AnyAddress) -> dict[str, str]:
    """Return the authorization header, or nothing. Raises OSError when a token cannot be read."""
    if isinstance(address, Address):
        return endpoints.authorization(address)
    token = kube.bearer(address.access)
    return {"Authorization": token} if token else {}
