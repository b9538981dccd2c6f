"""Credentials for an API server: resolved from a kubeconfig, passed between processes, written as a kubeconfig."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ..errors import ClusterError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to reach one API server as one identity.

    Holds secrets: it travels through pipes and 0600 files only, and its repr shows none of them.
    """

    server: str
    """URL, ``https://127.0.0.1:6443``."""
    ca_pem: str = ""
    client_cert_pem: str = ""
    client_key_pem: str = ""
    token: str = ""
    token_file: str = ""
    """Read again when the server answers 401: bound tokens expire."""
    tls_server_name: str = ""
    insecure: bool = False
    namespace: str = "default"
    kubeconfig: str = ""
    """File that this was resolved from; with ``context`` it is resolved anew when the server answers 401."""
    context: str = ""

    def __repr__(self) -> str:
        kind = "certificate" if self.client_cert_pem else "token" if self.token or self.token_file else "anonymous"
        return f"Access({self.server!r}, {kind})"

    def __rich_repr__(self) -> Any:
        yield self.server


def from_kubeconfig(path: Path | None = None, context: str | None = None) -> Access:
    """Return the access that a kubeconfig's context stands for, exec plugins and auth providers included.

    ``path`` None means ``$KUBECONFIG`` or ``~/.kube/config``; ``context`` None the current one. Resolution is left
    to the official client library. Raises ClusterError with the library's own words.
    """
    # Imported here: 0.2 s that a run on its own cluster never needs.
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, kube_config

    file = str(path) if path else kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    configuration = Configuration()
    try:
        kube_config.load_kube_config(file, context=context, client_configuration=configuration, persist_config=False)
        contexts, active = kube_config.list_kube_config_contexts(file)
    except (ConfigException, OSError, yaml.YAMLError, KeyError, ValueError) as error:
        raise ClusterError(
            f"{file}: cannot be used{f' with context {context!r}' if context else ''}: {error}",
            next_step="Check it with: kubectl --kubeconfig FILE config get-contexts.",
        ) from error
    chosen = next((c for c in contexts if c["name"] == context), active) if context else active
    # The library renamed the key (kubernetes 36: BearerToken); a user with a password comes as "Basic …" too.
    keys = configuration.api_key
    header = str(keys.get("BearerToken") or keys.get("authorization") or "")
    return Access(
        server=configuration.host.rstrip("/"),
        ca_pem=_text(configuration.ssl_ca_cert),
        client_cert_pem=_text(configuration.cert_file),
        client_key_pem=_text(configuration.key_file),
        token=header.removeprefix("Bearer "),
        tls_server_name=configuration.tls_server_name or "",
        insecure=not configuration.verify_ssl,
        namespace=chosen["context"].get("namespace", "default"),
        kubeconfig=file,
        context=chosen["name"],
    )


def in_cluster(folder: Path = _SERVICE_ACCOUNT) -> Access:
    """Return the access of the pod that this runs in. Raises ClusterError outside a pod."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (folder / "token").is_file():
        raise ClusterError(
            "not inside a pod: KUBERNETES_SERVICE_HOST or the service account's token is missing",
            next_step="Name a kubeconfig context instead.",
        )
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_pem=_text(str(folder / "ca.crt")),
        token_file=str(folder / "token"),
        namespace=_text(str(folder / "namespace")).strip() or "default",
    )


def to_kubeconfig(access: Access, *, name: str) -> str:
    """Return a kubeconfig (YAML) with one cluster, user and context, all called ``name``."""
    cluster: dict[str, Any] = {"server": access.server}
    if access.ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(access.ca_pem.encode()).decode()
    if access.tls_server_name:
        cluster["tls-server-name"] = access.tls_server_name
    if access.insecure:
        cluster["insecure-skip-tls-verify"] = True
    user: dict[str, Any] = {}
    if access.client_cert_pem:
        user["client-certificate-data"] = base64.b64encode(access.client_cert_pem.encode()).decode()
        user["client-key-data"] = base64.b64encode(access.client_key_pem.encode()).decode()
    if access.token_file:
        user["tokenFile"] = access.token_file
    elif access.token:
        user["token"] = access.token
    context = {"cluster": name, "user": name, "namespace": access.namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": context}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def ssl_context(access: Access) -> ssl.SSLContext | None:
    """Return the TLS settings for an access; None for a plain ``http`` server."""
    if not access.server.startswith("https:"):
        return None
    context = ssl.create_default_context(cadata=access.ca_pem or None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_cert_pem:
        # The ssl module takes a key only from a file; this one lives for the length of the call, mode 0600.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(access.client_cert_pem + "\n" + access.client_key_pem)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def bearer(access: Access) -> str:
    """Return the value of the Authorization header, or an empty string."""
    token = access.token
    if access.token_file:
        token = _text(access.token_file).strip()
    if not token:
        return ""
    return token if token.startswith("Basic ") else f"Bearer {token}"


def renewed(access: Access) -> Access:
    """Return the access with fresh credentials, as after a 401; itself where there is nothing to renew from."""
    if not access.kubeconfig:
        return access
    return from_kubeconfig(Path(access.kubeconfig), access.context or None)


def _text(path: str | None) -> str:
    return Path(path).read_text(encoding="utf-8") if path else ""
