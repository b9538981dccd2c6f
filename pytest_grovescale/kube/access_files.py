"""An access as files, for programs that take their credentials from there: Prometheus, scrapers, profilers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..endpoints import Address
from ..whole_files import write_private
from .access import Access, renewed

_CA, _CERTIFICATE, _KEY, _TOKEN = "api-ca.crt", "api-client.crt", "api-client.key", "api-token"


def write(access: Access, folder: Path) -> None:
    """Write what the API server is asked with into ``folder``, 0600; the folder is made."""
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
    """Return where a path of the API server is read, with what is written in ``folder``."""

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
    """Return what writes fresh credentials there; None where there are none to be had.

    A token file of somebody else's is no matter of ours: readers find what is new in it by themselves.
    """
    if not access.kubeconfig:
        return None
    return lambda: write(renewed(access), folder)
