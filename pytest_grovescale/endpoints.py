"""Endpoints of an operator or a component, with credentials: readiness, metrics, profiles."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec

_PORTS = {"http": 80, "https": 443}


class Credentials(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Credentials of an endpoint. Holds the names of files, never a secret itself."""

    token_file: str = ""
    """Bearer token file; read for each request, since a restart brings a fresh token."""
    ca_file: str = ""
    """CA of an ``https`` server; empty: the system's authorities."""
    cert_file: str = ""
    """Client certificate, PEM, for a server with client certificate authentication."""
    key_file: str = ""
    """Its key; empty: it is in ``cert_file``."""
    insecure_skip_verify: bool = False


class Address(Credentials, frozen=True, kw_only=True, omit_defaults=True):
    """An endpoint of one start: its URL and credentials."""

    url: str
    proxy: str = ""
    """URL of an HTTP proxy before it; empty: none. Only Prometheus uses it: our own readers reach the API server with a
    client of their own."""
    server_name: str = ""
    """Expected name in the server's certificate, as above; empty: the URL's."""

    @property
    def secure(self) -> bool:
        return self.url.startswith("https:")


def addressed(url: str, credentials: Credentials) -> Address:
    """Return the endpoint at ``url`` with ``credentials``."""
    return Address(url=url, **msgspec.structs.asdict(credentials))


def ssl_context(address: Address) -> ssl.SSLContext | None:
    """Return the TLS settings; None for a plain ``http`` address. Raises OSError for a file that cannot be used."""
    return tls_context(address) if address.secure else None


def tls_context(credentials: Credentials) -> ssl.SSLContext:
    """Return the TLS settings of the credentials. Raises OSError for a file that cannot be used."""
    # Read here: the ssl module would not say which file is missing.
    authority = Path(credentials.ca_file).read_text(encoding="utf-8") if credentials.ca_file else None
    context = ssl.create_default_context(cadata=authority)
    if credentials.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credentials.cert_file:
        for name in filter(None, (credentials.cert_file, credentials.key_file)):
            # As above.
            Path(name).read_bytes()
        context.load_cert_chain(credentials.cert_file, credentials.key_file or None)
    return context


def authorization(credentials: Credentials) -> dict[str, str]:
    """Return the header that carries the token, or nothing. Raises OSError when the token cannot be read."""
    if not credentials.token_file:
        return {}
    token = Path(credentials.token_file).read_text(encoding="utf-8").strip()
    return {"Authorization": f"Bearer {token}"}


def port_of(url: str) -> int:
    """Return the port of a URL, or its scheme's default."""
    parts = urlsplit(url)
    return parts.port or _PORTS[parts.scheme]


def with_port(url: str, port: int) -> str:
    """Return a URL with another port."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return urlunsplit(parts._replace(netloc=f"{host}:{port}"))
