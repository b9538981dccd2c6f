"""Client certificates for a kind cluster, signed by its own authority: one per role, so that the audit log shows it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...atomic_write import write_private
from ...errors import ClusterError
from ...kube.access import Access, to_kubeconfig
from .. import pki, state
from . import engine as engines
from .engine import Engine

ROLES = ("harness", "recorder", "kwok")
"""Roles with client certificates; these are their user names in the audit log."""

COMPONENTS = {
    "kube-apiserver": "system:apiserver",
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
}
"""Component → user name that kubeadm assigns. The controllers themselves are ServiceAccounts of kube-system."""

_PKI = "/etc/kubernetes/pki"


class Authority(msgspec.Struct, frozen=True):
    """A cluster's certificate authority. ``key_pem`` is a secret: never stored."""

    cert_pem: str
    key_pem: str

    def __repr__(self) -> str:
        return "Authority(…)"


def authority(engine: Engine, container: str) -> Authority:
    """Return the certificate authority from the control plane's container, where kubeadm keeps it."""
    return Authority(
        engines.read(engine, container, f"{_PKI}/ca.crt"), engines.read(engine, container, f"{_PKI}/ca.key")
    )


def write(folder: Path, *, name: str, server: str, by: Authority) -> dict[str, Access]:
    """Write certificates, kubeconfigs and credentials into the cluster's folder; return the access of each role."""
    try:
        pairs = {user: pki.client(user, ca_pem=by.cert_pem, ca_key_pem=by.key_pem) for user in ROLES}
    except (ValueError, TypeError) as error:
        raise ClusterError(
            f"cluster {name}: its certificate authority cannot be used: {error}",
            next_step="Use the backend existing with a kubeconfig of that cluster.",
        ) from error
    keys = folder / "pki"
    keys.mkdir(mode=0o700, exist_ok=True)
    write_private(keys / "ca.crt", by.cert_pem)
    found = {}
    for user, pair in pairs.items():
        write_private(keys / f"{user}.crt", pair.cert_pem)
        write_private(keys / f"{user}.key", pair.key_pem)
        found[user] = access(server, by, pair)
    for role in ("harness", "recorder"):
        state.write_access(folder, role, found[role])
    write_private(folder / "kubeconfig", to_kubeconfig(found["harness"], name=name))
    write_private(folder / "kwok.kubeconfig", to_kubeconfig(found["kwok"], name=name))
    return found


def access(server: str, by: Authority, pair: pki.Pair) -> Access:
    """Return the access with a client certificate."""
    return Access(server=server, ca_pem=by.cert_pem, client_cert_pem=pair.cert_pem, client_key_pem=pair.key_pem)
