"""`Ground`: a kind cluster, created or joined, before grovescale adds anything to it."""

from __future__ import annotations

import msgspec


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """A kind cluster without nodes and objects of grovescale."""

    cluster: str
    """Name of the kind cluster."""
    container: str
    """Container of its control plane."""
    server: str
    """Address of the API on this machine's loopback."""
    audit_log: str
    """Audit log file on this machine; empty: none is readable."""
    image: str
    addons: bool
    """Whether it has kube-proxy and a DNS."""
    made: bool
    """Whether grovescale created it and deletes it at the end."""
