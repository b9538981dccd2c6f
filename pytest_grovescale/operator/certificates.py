"""The certificate of a webhook server that runs as a process on this host.

Each start of an operator has a CA of its own: the API server trusts it only for this operator's webhooks.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..atomic_write import write_private
from ..cluster import pki


class ServerCertificate(msgspec.Struct, frozen=True):
    """A server's certificate and its CA. ``pair`` contains a secret."""

    ca_pem: str
    pair: pki.Pair


def issue(address: str) -> ServerCertificate:
    """Return a new CA and a server certificate for an IP address, localhost and 127.0.0.1."""
    made = pki.create((), service_ip=address)
    return ServerCertificate(made.ca_pem, made.server)


def write(certificate: ServerCertificate, folder: Path) -> None:
    """Write ``tls.crt``, ``tls.key`` and ``ca.crt``, 0600 in a 0700 folder: the names that webhook servers expect."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / "tls.crt", certificate.pair.cert_pem)
    write_private(folder / "tls.key", certificate.pair.key_pem)
    write_private(folder / "ca.crt", certificate.ca_pem)
