"""A control plane that stands for somebody else's cluster: reached by a kubeconfig, by people with few rights."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from pytest_grovescale import resources
from pytest_grovescale.cluster import nodes
from pytest_grovescale.cluster.definition import ClusterDefinition, Existing, load_definition
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.kube.access import Access, to_kubeconfig
from pytest_grovescale.kube.client import Client, Object
from pytest_grovescale.kube.errors import Unauthorized

CONTEXT = "theirs"
_NOT_BOUND = ("grovescale-harness-grant", "grovescale-harness-components")


def unique(word: str) -> str:
    """Return a cluster's name that no other test has."""
    return f"{word}-{secrets.token_hex(3)}"


def kubeconfig(file: Path, access: Access, *, context: str = CONTEXT) -> Path:
    """Write a kubeconfig with one context."""
    file.write_text(to_kubeconfig(access, name=context), encoding="utf-8")
    return file


def definition(file: Path, *, count: int = 2, **settings: Any) -> ClusterDefinition:
    """Return what a user would write for the cluster of a kubeconfig."""
    found = load_definition("existing").with_nodes(count)
    return msgspec.structs.replace(found, existing=Existing(kubeconfig=str(file), context=CONTEXT, **settings))


def cluster_roles(file: str = "harness.yaml") -> list[Object]:
    """Return the ClusterRoles of a bundled file."""
    documents = yaml.safe_load_all((resources.root() / "fixtures/rbac" / file).read_text())
    return [document for document in documents if document["kind"] == "ClusterRole"]


def harness_roles(*, without: str = "") -> list[str]:
    """Return the names of the roles that a user is given, but for what can be done without."""
    found = [str(role["metadata"]["name"]) for role in cluster_roles()]
    return [name for name in found if name not in (*_NOT_BOUND, without)]


async def account(client: Client, roles: Sequence[str] = (), *, name: str = "") -> Access:
    """Make a ServiceAccount, bind it to roles of ``fixtures/rbac/harness.yaml``, and return its access."""
    name = name or f"user-{secrets.token_hex(3)}"
    for document in cluster_roles():
        await client.apply(document)
    await client.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
    )
    for role in roles or harness_roles():
        await client.apply(binding(f"{name}-{role}", role, name))
    return Access(server=client.access.server, ca_pem=client.access.ca_pem, token=await client.token(name, "default"))


def binding(name: str, role: str, service_account: str) -> Object:
    """Return the ClusterRoleBinding of a ServiceAccount in ``default``."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": "default"}],
    }


async def names(client: Client, kind: str, selector: str = "") -> list[str]:
    """Return the names of all objects of a kind that a label selector means."""
    listing = await client.list(await client.resource(kind), label_selector=selector)
    return sorted(str(item["metadata"]["name"]) for item in listing.items)


async def left_of(client: Client, cluster: Cluster) -> list[str]:
    """Return the names of the nodes and namespaces that carry a cluster's label."""
    selector = nodes.selector(cluster.name)
    return [*await names(client, "Node", selector), *await names(client, "Namespace", selector)]


def plugin_user(folder: Path, access: Access, *, lasts_s: int | None = None) -> Path:
    """Write a kubeconfig whose user's token comes from a plugin: what stands in the file ``token`` beside it.

    ``lasts_s``: for so long it says that a token may be used before it is asked again; None: it says nothing.
    """
    plugin = folder / "plugin"
    version = "client.authentication.k8s.io/v1"
    until = f', "expirationTimestamp": "\'"$(date -u -d "{lasts_s} seconds" +%FT%TZ)"\'"' if lasts_s is not None else ""
    answer = f'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {{"token": "%s"{until}}}}}'
    plugin.write_text(f"#!/bin/sh\nset -e\ntoken=$(cat '{folder / 'token'}')\nprintf '{answer}' \"$token\"\n")
    plugin.chmod(0o700)
    file = kubeconfig(folder / "kubeconfig", access)
    document = yaml.safe_load(file.read_text())
    section = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
    document["users"][0]["user"] = {"exec": section}
    file.write_text(yaml.safe_dump(document))
    return file


async def ending_token(admin: Client, service_account: str, file: Path) -> Callable[[], Coroutine[Any, Any, None]]:
    """Write a token of a ServiceAccount into a file, and return what ends it at any moment.

    It is bound to a Secret, and is no longer valid once that is gone; the API server may take it for 10 s more.
    """
    metadata = {"name": f"binds-{secrets.token_hex(3)}", "namespace": "default"}
    bound = await admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    reference = {"apiVersion": "v1", "kind": "Secret", "name": metadata["name"], "uid": bound["metadata"]["uid"]}
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "boundObjectRef": reference},
    }
    path = f"/api/v1/namespaces/default/serviceaccounts/{service_account}/token"
    answer = msgspec.json.decode(await admin.request("POST", path, body=msgspec.json.encode(request)))
    file.write_text(answer["status"]["token"], encoding="utf-8")

    async def end() -> None:
        await admin.delete(await admin.resource("Secret"), metadata["name"], "default")

    return end


async def refused(access: Access) -> bool:
    """Return whether the API server no longer takes these very credentials."""
    async with Client(msgspec.structs.replace(access, kubeconfig="", context="")) as client:
        try:
            await client.request("GET", "/api/v1/namespaces/default")
        except Unauthorized:
            return True
    return False
