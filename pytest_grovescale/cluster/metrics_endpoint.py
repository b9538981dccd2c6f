"""Where a component of a cluster serves its metrics, and what a reader shows to be let in."""

from __future__ import annotations

import msgspec


class MetricsEndpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A component's ``/metrics``. Holds the names of files, never a secret itself."""

    url: str
    ca_file: str = ""
    """Vouches for an ``https`` server."""
    cert_file: str = ""
    """Client certificate, PEM. Without one, and without a token, it lets anyone in who reaches its port."""
    key_file: str = ""
    token_file: str = ""
    """Bearer token, for a server that asks who is reading."""
