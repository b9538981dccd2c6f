"""Credentials for an API server: resolved from a kubeconfig, passed between processes, written as files."""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from ..atomic_write import write_private
from ..endpoints import Address
from ..errors import ClusterError
from ..suggestions import with_all
from . import exec_plugin, proxy

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Address and credentials of one identity at one API server.

    Contains secrets: it travels through pipes and 0600 files only, and its repr shows none of them.
    """

    server: str
    """URL, ``https://127.0.0.1:6443``."""
    ca_pem: str = ""
    client_cert_pem: str = ""
    client_key_pem: str = ""
    token: str = ""
    token_file: str = ""
    """Bearer token file; read again when the server answers 401: bound tokens expire."""
    tls_server_name: str = ""
    insecure: bool = False
    proxy: str = ""
    """URL of an HTTP proxy for all requests; empty: no proxy."""
    namespace: str = "default"
    kubeconfig: str = ""
    """kubeconfig file, or several as in ``$KUBECONFIG``, that this was resolved from; when the server answers 401, the
    credentials of ``context`` are resolved again."""
    context: str = ""

    @property
    def renewable(self) -> bool:
        """Whether credentials can be renewed."""
        return bool(self.token_file or self.kubeconfig)

    def __repr__(self) -> str:
        kind = "certificate" if self.client_cert_pem else "token" if self.token or self.token_file else "anonymous"
        return f"Access({self.server!r}, {kind})"

    def __rich_repr__(self) -> Any:
        yield self.server


def from_kubeconfig(path: Path | str | None = None, context: str | None = None, *, credentials: bool = True) -> Access:
    """Return the access of a kubeconfig's context, exec plugins included.

    ``path`` None means ``$KUBECONFIG`` or ``~/.kube/config``; ``context`` None the current one. The official client
    library resolves it, except for exec plugins, proxies, and certificates and keys in the file itself, which the
    library would write into temporary files. ``credentials`` False: only the address; no plugin runs. Raises
    ClusterError with the error of the plugin or library, and for a user with an ``auth-provider``.
    """
    # Imported here: costs 0.2 s, and a run on its own cluster never needs it.
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, kube_config

    files = _files(path)
    if not any(Path(name).is_file() for name in files.split(os.pathsep)):
        raise ClusterError(
            f"there is no kubeconfig: {files}",
            next_step="Set $KUBECONFIG, or name one in the cluster definition; in a pod: existing: {in_cluster: true}.",
        )
    try:
        merged = kube_config.KubeConfigMerger(files).config
        _demand_context(merged, files, context)
        loader = kube_config.KubeConfigLoader(merged, active_context=context or None, config_base_path=None)
        active = loader.current_context
        cluster = merged["clusters"].get_with_name(active["context"]["cluster"])["cluster"]
        user = _user(merged, active["context"].get("user", ""))
        _refuse_auth_provider(user)
        if credentials:
            _refuse_impersonation(user)
            _run_plugin(user, cluster)
        elif user is not None:
            user.value.clear()
        inline = {
            "certificate-authority": _taken_inline(cluster, "certificate-authority"),
            "client-certificate": _taken_inline(user, "client-certificate"),
            "client-key": _taken_inline(user, "client-key"),
        }
        configuration = Configuration()
        loader.load_and_set(configuration)
    except ClusterError as error:
        raise ClusterError(f"{_unusable(files, context)}: {error.message}", next_step=error.next_step) from error
    except (ConfigException, OSError, yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The library looks into whatever it is: its words for a login page are those of a program.
        is_other = isinstance(error, AttributeError | LookupError | TypeError)
        said = "it has not the form of a kubeconfig: clusters, users and contexts" if is_other else error
        raise ClusterError(
            f"{_unusable(files, context)}: {said}",
            next_step="Check it with: kubectl --kubeconfig FILE config get-contexts.",
        ) from error
    # The library renamed the key (kubernetes 36: BearerToken); a user with a password has "Basic …" in it too.
    keys = configuration.api_key
    header = str(keys.get("BearerToken") or keys.get("authorization") or "")
    server = configuration.host.rstrip("/")
    return Access(
        server=server,
        ca_pem=inline["certificate-authority"] or _text(configuration.ssl_ca_cert),
        client_cert_pem=inline["client-certificate"] or _text(configuration.cert_file),
        client_key_pem=inline["client-key"] or _text(configuration.key_file),
        token=header.removeprefix("Bearer "),
        tls_server_name=configuration.tls_server_name or "",
        insecure=not configuration.verify_ssl,
        proxy=_proxy(server, cluster.value.get("proxy-url", "")),
        namespace=active["context"].get("namespace", "default"),
        kubeconfig=files,
        context=active["name"],
    )


def _demand_context(merged: Any, files: str, context: str | None) -> None:
    names = [str(one["name"]) for one in merged.value.get("contexts") or []]
    if context and context not in names:
        raise ClusterError(
            f"there is no context {context!r}",
            next_step=with_all(context, names, what="Contexts") or "The file has none.",
        )


def plugin_of(access: Access) -> exec_plugin.Plugin | None:
    """Return the exec plugin of an access, for a kubeconfig of another program; None if it has none."""
    if not access.kubeconfig:
        return None
    # Imported here, as above.
    from kubernetes.config import kube_config

    merged = kube_config.KubeConfigMerger(access.kubeconfig).config
    context = merged["contexts"].get_with_name(access.context)["context"]
    user = _user(merged, context.value.get("user", ""))
    if user is None or not _needs_plugin(user):
        return None
    return exec_plugin.plugin(user.value["exec"], Path(user.path).absolute().parent)


def _files(path: Path | str | None) -> str:
    """Return the kubeconfig files, separated as in ``$KUBECONFIG``, absolute: other processes resolve them again."""
    given = str(path or os.environ.get("KUBECONFIG") or "~/.kube/config")
    return os.pathsep.join(str(Path(name).expanduser().absolute()) for name in given.split(os.pathsep) if name)


def _unusable(files: str, context: str | None) -> str:
    return f"{files}: cannot be used" + (f" with context {context!r}" if context else "")


def _user(merged: Any, name: str) -> Any:
    """Return the library's node of a user's section; None for a context without one."""
    found = merged["users"].get_with_name(name, safe=True) if name and merged.safe_get("users") else None
    return found["user"] if found is not None and found.safe_get("user") else None


_INSTEAD = {
    "gcp": "Use gke-gcloud-auth-plugin: gcloud container clusters get-credentials CLUSTER writes such a context.",
    "azure": "Use kubelogin: kubelogin convert-kubeconfig rewrites the context.",
    "oidc": "Use an exec plugin (kubectl oidc-login setup), or a context with a token.",
}


def _refuse_auth_provider(user: Any) -> None:
    # The library supports some of them and silently ignores others: requests would be anonymous, and rejected.
    if user is None or not user.safe_get("auth-provider"):
        return
    section = user.value["auth-provider"]
    name = str(section.get("name", "")) if isinstance(section, dict) else ""
    raise ClusterError(
        f"its user has the auth-provider {name!r}, which is not spoken here: exec plugins took their place",
        next_step=_INSTEAD.get(name, "Use a context whose user has an `exec` plugin, a token or a client certificate."),
    )


def _taken_inline(node: Any, name: str) -> str:
    """Return the inline PEM text of a kubeconfig, and remove it there: the library would write it to a file.

    Such a file would outlive a killed process. As in the library, inline data takes precedence over a file. Raises
    ValueError.
    """
    if node is None or f"{name}-data" not in node.value:
        return ""
    data = node.value.pop(f"{name}-data")
    node.value.pop(name, None)
    return base64.b64decode(data or "").decode()


def _refuse_impersonation(user: Any) -> None:
    # If ignored, requests would have more permissions than those of kubectl.
    if user is not None and user.safe_get("as"):
        raise ClusterError(
            f"its user acts as {user['as']!r}, and impersonation is not spoken here",
            next_step="Use a context with credentials of that user's own.",
        )


def _needs_plugin(user: Any) -> bool:
    # As in client-go: existing credentials take precedence.
    return bool(user.safe_get("exec")) and not (user.safe_get("token") or user.safe_get("tokenFile"))


def _run_plugin(user: Any, cluster: Any) -> None:
    """Replace an exec plugin's section by its credentials, in the library's format."""
    if user is None or not _needs_plugin(user):
        return
    section = user.value.pop("exec")
    found = exec_plugin.run(
        exec_plugin.plugin(section, Path(user.path or ".").absolute().parent), cluster=dict(cluster.value)
    )
    if found.token:
        user.value["token"] = found.token
    if found.client_certificate_data:
        user.value["client-certificate-data"] = base64.b64encode(found.client_certificate_data.encode()).decode()
        user.value["client-key-data"] = base64.b64encode(found.client_key_data.encode()).decode()


def _proxy(server: str, given: str) -> str:
    return proxy.checked(given) if given else proxy.for_server(server, os.environ)


def in_cluster(folder: Path = _SERVICE_ACCOUNT) -> Access:
    """Return the access of the pod that this process runs in. Raises ClusterError outside a pod."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (folder / "token").is_file():
        raise ClusterError(
            "not inside a pod: KUBERNETES_SERVICE_HOST or the service account's token is missing",
            next_step="Name a kubeconfig context instead.",
        )
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Access(
        server=server,
        proxy=proxy.for_server(server, os.environ),
        ca_pem=_text(str(folder / "ca.crt")),
        token_file=str(folder / "token"),
        namespace=_text(str(folder / "namespace")).strip() or "default",
    )


def to_kubeconfig(access: Access, *, name: str, plugin: exec_plugin.Plugin | None = None) -> str:
    """Return a kubeconfig (YAML) with one cluster, user and context, all called ``name``.

    ``plugin``: written in place of the credentials that it provided, which expire.
    """
    cluster: dict[str, Any] = {"server": access.server}
    if access.ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(access.ca_pem.encode()).decode()
    if access.tls_server_name:
        cluster["tls-server-name"] = access.tls_server_name
    if access.insecure:
        cluster["insecure-skip-tls-verify"] = True
    if access.proxy:
        cluster["proxy-url"] = access.proxy
    context = {"cluster": name, "user": name, "namespace": access.namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": _credentials(access, plugin)}],
        "contexts": [{"name": name, "context": context}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _credentials(access: Access, plugin: exec_plugin.Plugin | None) -> dict[str, Any]:
    if plugin is not None:
        return {"exec": msgspec.to_builtins(plugin)}
    user: dict[str, Any] = {}
    if access.client_cert_pem:
        user["client-certificate-data"] = base64.b64encode(access.client_cert_pem.encode()).decode()
        user["client-key-data"] = base64.b64encode(access.client_key_pem.encode()).decode()
    if access.token_file:
        user["tokenFile"] = access.token_file
    elif access.token:
        user["token"] = access.token
    return user


def ssl_context(access: Access) -> ssl.SSLContext | None:
    """Return the TLS settings for an access; None for a plain ``http`` server."""
    if not access.server.startswith("https:"):
        return None
    context = ssl.create_default_context(cadata=access.ca_pem or None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_cert_pem:
        # The ssl module reads a key only from a file; this one is in memory, without a name that other processes see.
        with os.fdopen(os.memfd_create("grovescale-client.pem"), "w", encoding="utf-8") as file:
            file.write(access.client_cert_pem + "\n" + access.client_key_pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
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
    """Return the access with new credentials, as after a 401; unchanged if they cannot be renewed.

    Only the credentials change: an edit of the kubeconfig does not redirect a run to another cluster. Raises
    ClusterError if its context has another server now.
    """
    if not access.kubeconfig:
        return access
    fresh = from_kubeconfig(access.kubeconfig, access.context or None)
    if fresh.server != access.server:
        raise ClusterError(
            f"{access.kubeconfig}: context {access.context!r} meant {access.server} and means {fresh.server} now",
            next_step="Start again for the other cluster.",
        )
    return msgspec.structs.replace(
        access, token=fresh.token, client_cert_pem=fresh.client_cert_pem, client_key_pem=fresh.client_key_pem
    )


def _text(path: str | None) -> str:
    return Path(path).read_text(encoding="utf-8") if path else ""


_CA, _CERTIFICATE, _KEY, _TOKEN = "api-ca.crt", "api-client.crt", "api-client.key", "api-token"


def write_files(access: Access, folder: Path) -> None:
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


def address_by_files(access: Access, folder: Path, path: str) -> Address:
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
    return lambda: write_files(renewed(access), folder)


@contextlib.contextmanager
def official_client(kubeconfig: Path) -> Iterator[ApiClient]:
    """Yield the official ``kubernetes`` client of a kubeconfig's current context; close its connections afterwards.

    For users' helpers that are written with it. The harness itself does not use it: it is synchronous, and its import
    takes longer than a session without scale tests.
    """
    from kubernetes.config import new_client_from_config

    with new_client_from_config(config_file=str(kubeconfig), persist_config=False) as client:
        yield client
