"""Credentials from a kubeconfig (bearer token, token file or client certificate), or of the pod that this runs in.

Read with PyYAML instead of the Kubernetes client library: importing that costs more CPU than the whole start of this
program. Exec plugins and auth providers are therefore rejected with an error.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

_STAT_INTERVAL_S = 5.0
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CredentialsError(Exception):
    """The kubeconfig is missing, damaged, or uses an unsupported feature."""


class Credentials:
    """Server address, TLS settings and the Authorization header of one kubeconfig context."""

    def __init__(self, *, server: str, ssl_context: ssl.SSLContext | None, token: str, token_file: Path | None) -> None:
        self.server = server
        self.ssl_context = ssl_context
        self._token = token
        self._token_file = token_file
        self._token_mtime = -1
        self._next_stat = 0.0

    def authorization(self, *, now: bool = False) -> str:
        """Return the Authorization header, or an empty string.

        A token file is read again when it has changed; checked every few seconds, or at once with ``now`` (after a
        401).
        """
        if self._token_file is not None and (now or time.monotonic() >= self._next_stat):
            self._next_stat = time.monotonic() + _STAT_INTERVAL_S
            mtime = self._token_file.stat().st_mtime_ns
            if mtime != self._token_mtime:
                self._token = self._token_file.read_text(encoding="ascii").strip()
                self._token_mtime = mtime
        return f"Bearer {self._token}" if self._token else ""

    @property
    def renewable(self) -> bool:
        """Whether reading the token again could give another one."""
        return self._token_file is not None


def load(path: Path, context: str = "") -> Credentials:
    """Return the credentials of a kubeconfig's context (default: its current one). Raises CredentialsError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        chosen = _named(document, "contexts", context or document["current-context"])["context"]
        cluster = _named(document, "clusters", chosen["cluster"])["cluster"]
        user = _named(document, "users", chosen["user"])["user"] or {}
        server = str(cluster["server"]).rstrip("/")
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise CredentialsError(f"{path}: not a kubeconfig: {error}") from error
    unsupported = {"exec", "auth-provider", "username"} & user.keys()
    if unsupported:
        raise CredentialsError(f"{path}: {', '.join(sorted(unsupported))}: only tokens and certificates are supported")
    token_file = path.parent / user["tokenFile"] if "tokenFile" in user else None
    return Credentials(
        server=server,
        ssl_context=_ssl_context(path, cluster, user) if server.startswith("https:") else None,
        token=str(user.get("token", "")),
        token_file=token_file,
    )


def in_cluster(folder: Path = _SERVICE_ACCOUNT) -> Credentials:
    """Return the credentials of the pod that this runs in: its ServiceAccount's. Raises CredentialsError elsewhere.

    https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    token_file = folder / "token"
    if not host or not port or not token_file.is_file():
        raise CredentialsError("no --kubeconfig is given, and this is no pod with a ServiceAccount's token")
    return Credentials(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ssl_context=ssl.create_default_context(cafile=str(folder / "ca.crt")),
        token="",
        token_file=token_file,
    )


def _named(document: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    for entry in document.get(section) or []:
        if entry["name"] == name:
            return dict(entry)
    raise KeyError(f"{section} holds no {name!r}")


def _ssl_context(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _material(path, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _material(path, user, "client-certificate"), _material(path, user, "client-key")
    if certificate and key:
        # The ssl module reads a key only from a file; this one is private and removed after the call.
        descriptor, name = tempfile.mkstemp()
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(certificate + b"\n" + key)
            context.load_cert_chain(name)
        finally:
            Path(name).unlink()
    return context


def _material(path: Path, section: dict[str, Any], field: str) -> bytes:
    if f"{field}-data" in section:
        return base64.b64decode(section[f"{field}-data"])
    return (path.parent / section[field]).read_bytes() if field in section else b""
