"""The operator's own identity: a ServiceAccount with only the permissions of its definition.

Never the harness' own certificate: so a missing rule causes an error, and the audit log distinguishes the operator's
requests from all others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .. import redaction
from ..atomic_write import write_private
from ..cluster.ledger import Owner
from ..errors import OperatorError
from ..kube.access import Access, to_kubeconfig
from ..kube.client import Client
from ..kube.errors import ApiError
from .install import install
from .manifests import Manifest, Object
from .schema import OperatorDefinition

TOKEN_SECONDS = 24 * 3600
"""Requested token lifetime, s; a server may grant less. Renewed at each start of the operator."""


def account(definition: OperatorDefinition) -> list[Manifest]:
    """Return its ServiceAccount, and first all namespaces: of the manifests, its own, and those of its roles."""
    own = definition.identity
    given = {one.object["metadata"]["name"]: one for one in definition.installation.manifests if is_namespace(one)}
    granted = [one.object["metadata"].get("namespace", "") for one in definition.installation.rbac]
    for name in (own.namespace, *filter(None, granted)):
        obj: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        given.setdefault(name, Manifest(obj, f"{definition.source}: identity"))
    metadata = {"name": own.service_account, "namespace": own.namespace}
    found = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return [*given.values(), Manifest(found, f"{definition.source}: identity")]


def is_namespace(manifest: Manifest) -> bool:
    """Return whether an object is a Namespace: those are created before all that may be in them."""
    return bool(manifest.object["kind"] == "Namespace")


async def establish(
    client: Client, definition: OperatorDefinition, *, owner: Owner | None = None, progress: Callable[[str], None]
) -> list[Object]:
    """Create the ServiceAccount and grant its rules; return the objects to remove later.

    The API server rejects a rule that the harness itself lacks (privilege escalation), which raises here.
    """
    objects = [*account(definition), *definition.installation.rbac]
    return await install(client, objects, operator=definition.name, owner=owner, progress=progress)


async def write_credentials(client: Client, definition: OperatorDefinition, access: Access, folder: Path) -> Path:
    """Write ``token`` and ``kubeconfig`` (0600) into ``folder`` and return the kubeconfig's path.

    Only the server and its CA of ``access`` are used.
    """
    namespace, name = definition.identity.namespace, definition.service_account
    try:
        fresh = await client.token(name, namespace, seconds=TOKEN_SECONDS)
    except ApiError as error:
        raise OperatorError(
            f"no token for ServiceAccount {namespace}/{name}: {error.message}",
            next_step="The identity that sets the cluster up needs `create` on serviceaccounts/token.",
        ) from error
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    token_file, kubeconfig = folder / "token", folder / "kubeconfig"
    redaction.conceal(fresh)
    write_private(token_file, fresh)
    own = Access(
        server=access.server,
        ca_pem=access.ca_pem,
        tls_server_name=access.tls_server_name,
        insecure=access.insecure,
        proxy=access.proxy,
        namespace=namespace,
        # The token itself: Java's client of fabric8 reads no tokenFile, and would ask as system:anonymous.
        token=fresh,
    )
    write_private(kubeconfig, to_kubeconfig(own, name=definition.name))
    return kubeconfig


def token(folder: Path) -> str:
    """Return the token that `write_credentials` wrote into ``folder``; empty if there is none."""
    try:
        return (folder / "token").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
