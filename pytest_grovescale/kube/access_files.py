"""An access as files, for readers that take their credentials from there: scrapers, Prometheus, profilers."""

from __future__ import annotations

from pathlib import Path

from ..endpoints import Credentials
from ..whole_files import write_private
from .access import Access

_CA, _CERTIFICATE, _KEY, _TOKEN = "api-ca.crt", "api-client.crt", "api-client.key", "api-token"


def write(access: Access, folder: Path) -> None:
    """Write what the API server is asked with into ``folder``, 0600."""
    found = {
        _CA: access.ca_pem,
        _CERTIFICATE: access.client_cert_pem,
        _KEY: access.client_key_pem,
        _TOKEN: access.token,
    }
    for name, text in found.items():
        if text:
            write_private(folder / name, text)


def credentials(access: Access, folder: Path) -> Credentials:
    """Return the same as what a reader shows, once it is written in ``folder``."""

    def file(name: str) -> str:
        return str(folder / name) if (folder / name).is_file() else ""

    return Credentials(
        token_file=access.token_file or file(_TOKEN),
        ca_file=file(_CA),
        cert_file=file(_CERTIFICATE),
        key_file=file(_KEY),
        insecure_skip_verify=access.insecure,
    )
