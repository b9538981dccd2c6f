"""Which context is meant, whether it may be used, and what a definition may ask of a cluster we did not create."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

import msgspec

from ...definitions import Source
from ...errors import UsageError
from ...kube import proxy
from ...kube.access import Access, from_kubeconfig, in_cluster
from ..definition import ApiServer, ClusterDefinition, ControllerManager, Existing, Scheduler

_ITS_MAKERS = {"api_server": ApiServer(), "controller_manager": ControllerManager(), "scheduler": Scheduler()}
_KEEPS_OFF = ("NoSchedule", "NoExecute")


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
        addresses = socket.getaddrinfo(host, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return bool(addresses) and all(
        ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in addresses
    )


def check(written: ClusterDefinition, source: Source) -> ClusterDefinition:
    """Return the definition with an absolute kubeconfig path. Raises a mistake of its source."""
    for section, default in _ITS_MAKERS.items():
        if getattr(written, section) != default:
            raise source.mistake(
                (section,), "is set by the creator of the cluster", "Leave it out, or use the backend local."
            )
    if written.node_count == 0:
        raise source.mistake(
            ("nodes",),
            "has no node: the first one claims the cluster's name there",
            "Give a pool a `count` of 1 or more.",
        )
    for index, pool in enumerate(written.nodes):
        if not any(taint.effect in _KEEPS_OFF for taint in pool.taints):
            raise source.mistake(
                ("nodes", index),
                "has no taint: other people's pods would be put on simulated nodes",
                "Give it one, as - {key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}.",
            )
    return _with_kubeconfig(written, source)


def _with_kubeconfig(written: ClusterDefinition, source: Source) -> ClusterDefinition:
    settings = written.existing
    if settings is None:
        return written
    if settings.in_cluster and (settings.context or settings.kubeconfig):
        raise source.mistake(
            ("existing", "in_cluster"),
            "takes the pod's own credentials, and no context or kubeconfig",
            "Leave these out, or in_cluster.",
        )
    if not settings.kubeconfig:
        return written
    file = (source.folder(("existing", "kubeconfig")) / settings.kubeconfig).expanduser().resolve()
    if not file.is_file():
        raise source.mistake(
            ("existing", "kubeconfig"), f"no such file: {file}", "Paths are relative to the definition file."
        )
    return msgspec.structs.replace(written, existing=msgspec.structs.replace(settings, kubeconfig=str(file)))
