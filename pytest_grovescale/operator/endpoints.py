"""What the operator serves on this host, as its readers reach it: readiness, metrics, profiles."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec


class Address(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An endpoint of one start: its URL, and how to be let in. Holds the names of files, never a secret itself."""

    url: str
    token_file: str = ""
    """Its content is sent as a bearer token; read for each request, since a restart brings a fresh one."""
    ca_file: str = ""
    """Vouches for an ``https`` server; empty: the system's authorities."""
    insecure_skip_verify: bool = False

    @property
    def secure(self) -> bool:
        return self.url.startswith("https:")


def ssl_context(address: Address) -> ssl.SSLContext | None:
    """Return the TLS settings; None for a plain ``http`` address. Raises OSError for a CA file that cannot be used."""
    if not address.secure:
        return None
    # Read here: the ssl module would not say which file is missing.
    authority = Path(address.ca_file).read_text(encoding="utf-8") if address.ca_file else None
    context = ssl.create_default_context(cadata=authority)
    if address.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def authorization(address: Address) -> dict[str, str]:
    """Return the header that carries the token, or nothing. Raises OSError when the token cannot be read."""
    if not address.token_file:
        return {}
    token = Path(address.token_file).read_text(encoding="utf-8").strip()
    return {"Authorization": f"Bearer {token}"}
