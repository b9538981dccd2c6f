"""Context policy: which cluster a definition selects, and whether it may be used; decided before the first request."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

import msgspec

from ...errors import UsageError
from ...kube import proxy
from ...kube.access import Access, from_kubeconfig, in_cluster
from ..definition import ClusterDefinition, Existing


def settled(definition: ClusterDefinition) -> ClusterDefinition:
    """Return the definition with its default kubeconfig and context filled in. Raises ClusterError.

    So definitions of two starts differ if the current context changed in between.
    """
    settings = definition.existing or Existing()
    if settings.in_cluster:
        return definition
    meant = from_kubeconfig(settings.kubeconfig or None, settings.context or None, credentials=False)
    named = msgspec.structs.replace(settings, kubeconfig=meant.kubeconfig, context=meant.context)
    return msgspec.structs.replace(definition, existing=named)


def access(settings: Existing, *, allowed: Collection[str]) -> Access:
    """Return the access to the definition's cluster: a fixed context, even if the current one changes.

    Raises UsageError for a context that is neither on loopback nor among the ``allowed`` ones; ClusterError for one
    that cannot be resolved.
    """
    meant = permitted(settings, allowed=allowed)
    return meant if settings.in_cluster else from_kubeconfig(meant.kubeconfig, meant.context)


def permitted(settings: Existing, *, allowed: Collection[str]) -> Access:
    """Return the address of the definition's cluster, without credentials, if it may be used. Sends no request.

    Raises as `access`.
    """
    if settings.in_cluster:
        return in_cluster()
    # Without credentials: the exec plugin of a cluster that may not be used does not run either.
    meant = from_kubeconfig(settings.kubeconfig or None, settings.context or None, credentials=False)
    if not on_loopback(meant) and meant.context not in allowed:
        name = meant.context
        raise UsageError(
            f"context {name!r} is the cluster at {meant.server}"
            + (f" (through the proxy {meant.proxy})" if meant.proxy else "")
            + ", which is not on this machine; nothing was sent to it",
            next_step=f"If tests may run there: --grovescale-allow-context={name}, or for grovescale's own "
            f"commands --allow-context={name}.",
        )
    return meant


def on_loopback(access: Access) -> bool:
    """Return whether an API server is on this machine: its name resolves to loopback addresses only."""
    parts = urlsplit(access.server)
    host = parts.hostname or ""
    if access.proxy:
        # Behind a proxy, loopback is the proxy's.
        return False
    if proxy.is_loopback(host):
        return True
    try:
        found = socket.getaddrinfo(host, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)
