"""A kind cluster as it is found or made, before anything of the harness is in it."""

from __future__ import annotations

import msgspec


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What the rest is built on."""

    cluster: str
    """Its name for kind."""
    container: str
    """Of its control plane."""
    server: str
    """Address of the API on this machine's loopback."""
    audit_log: str
    """File on this machine; empty: none can be read."""
    image: str
    addons: bool
    """Whether it has kube-proxy, and a DNS of its own."""
    made: bool
    """It was made by the harness, and is deleted at the end."""
