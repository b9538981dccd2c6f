"""Credentials as files, for programs that read them from files: Prometheus, scrapers, profilers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..atomic_write import write_private
from ..endpoints import Address
from .access import Access, renewed

_CA, _CERTIFICATE, _KEY, _TOKEN = "api-ca.crt", "api-client.crt", "api-client.key", "api-token"


def write(access: Access, folder: Path) -> None:
    """Write the credentials for the API server into ``folder``, 0600; the folder is created."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = {
        _CA: access.ca_pem,
        _CERTIFICATE: access.client_cert_pem,
        _KEY: access.client_key_pem,
        _TOKEN: access.token,
    }
    for name, text in found.items():
        if text:
            write_private(folder / name, text)


def address(access: Access, folder: Path, path: str) -> Address:
    """Return the address of a path of the API server, with the credential files in ``folder``."""

    def file(name: str) -> str:
        return str(folder / name) if (folder / name).is_file() else ""

    return Address(
        url=f"{access.server.rstrip('/')}{path}",
        token_file=access.token_file or file(_TOKEN),
        ca_file=file(_CA),
        cert_file=file(_CERTIFICATE),
        key_file=file(_KEY),
        insecure_skip_verify=access.insecure,
        proxy=access.proxy,
        server_name=access.tls_server_name,
    )


def renewal(access: Access, folder: Path) -> Callable[[], None] | None:
    """Return a function that renews the files; None if the credentials cannot be renewed.

    An external token file needs no renewal here: readers read it again by themselves.
    """
    if not access.kubeconfig:
        return None
    return lambda: write(renewed(access), folder)
