"""What an operator's start puts into the cluster, and what its removal takes out."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.errors import OperatorError
from pytest_grovescale.kube.access import from_kubeconfig
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import Forbidden, Invalid, NotFound
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import install, operator_state, start
from pytest_grovescale.operator.definition import OperatorDefinition, load
from pytest_grovescale.operator.install import wait_established

pytestmark = pytest.mark.cluster

DATA = Path(__file__).parents[1] / "data/operators"


def crd(group: str, plural: str = "widgets", kind: str = "Widget") -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "versions": [version],
        },
    }


def definition(folder: Path, **fields: Any) -> OperatorDefinition:
    content = yaml.safe_load((DATA / "plain.yaml").read_text())
    content["identity"] = {"namespace": f"grovescale-{secrets.token_hex(3)}"}
    content["name"] = content["identity"]["namespace"]
    content |= {"workdir": str(DATA)} | fields
    path = folder / "definition.yaml"
    path.write_text(yaml.safe_dump(content))
    return load(str(path))


def write(folder: Path, name: str, *objects: dict[str, Any]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(yaml.safe_dump_all(objects))
    return str(folder / name)


async def present(client: Client, *wanted: tuple[str, str, str]) -> list[bool]:
    """Return which of (kind, name, namespace) exist and are not on their way out."""
    found = []
    for kind, name, namespace in wanted:
        resource = await client.resource(kind)
        try:
            there = await client.get(resource, name, namespace or None)
        except NotFound:
            found.append(False)
        else:
            found.append("deletionTimestamp" not in there["metadata"])
    return found


def test_all_is_made_and_all_is_removed_but_what_was_there(cluster: Cluster, tmp_path: Path) -> None:
    group = f"{secrets.token_hex(4)}.test.grovescale.io"
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    before = crd(f"before.{group}")
    operator_definition = definition(
        tmp_path,
        crds=[write(tmp_path / "crds", "one.yaml", crd(group), before)],
        manifests=[write(tmp_path / "manifests", "settings.yaml", settings)],
    )
    namespace = operator_definition.identity.namespace
    role = f"grovescale-{operator_definition.name}"
    ours = [
        ("CustomResourceDefinition", f"widgets.{group}", ""),
        ("ConfigMap", "settings", "default"),
        ("Namespace", namespace, ""),
        ("ServiceAccount", operator_definition.service_account, namespace),
        ("ClusterRole", role, ""),
        ("ClusterRoleBinding", role, ""),
    ]
    theirs = ("CustomResourceDefinition", f"widgets.before.{group}", "")
    said: list[str] = []
    with Portal() as portal:
        client = portal.client(cluster.access_as("harness"))
        portal.run(client.apply(before))
        operator = start.start(operator_definition, cluster, directory=tmp_path / "logs", progress=said.append)
        try:
            assert all(portal.run(present(client, *ours, theirs)))
            assert portal.run(client.resource("Widget", f"{group}/v1")).plural == "widgets"
        finally:
            operator.stop()
        assert all(portal.run(present(client, *ours, theirs)))
        operator.uninstall()
        assert portal.run(present(client, *ours, theirs)) == [False] * len(ours) + [True]
        portal.run(client.delete(portal.run(client.resource(theirs[0])), theirs[1]))
    assert any("widgets.before" in line and "is left as it is" in line for line in said)


def test_a_second_start_while_the_first_ones_namespace_goes(cluster: Cluster, tmp_path: Path) -> None:
    again = definition(tmp_path)
    for _ in range(2):
        operator = start.start(again, cluster, directory=tmp_path / "logs", progress=lambda text: None)
        operator.stop()
        operator.uninstall()


def test_crd_whose_names_are_taken_is_reported(cluster: Cluster) -> None:
    group = f"{secrets.token_hex(4)}.test.grovescale.io"
    crds = [crd(group), crd(group, plural="gadgets", kind="Widget")]

    async def applied(client: Client) -> None:
        try:
            for obj in crds:
                await client.apply(obj)
            await wait_established(client, crds, timeout=1)
        finally:
            await install.remove(client, crds)

    with Portal() as portal, pytest.raises(OperatorError) as raised:
        portal.run(applied(portal.client(cluster.access_as("harness"))))
    # KindConflict or ListKindConflict, whichever name the server looked at last.
    assert re.search(rf"gadgets\.{group}: (List)?KindConflict: ", raised.value.message)
    assert f"widgets.{group}" not in raised.value.message


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"apiVersion": "gone.example/v1", "kind": "Lost", "metadata": {"name": "x"}}, "serves no resource 'Lost'"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "dta": {}},
            "field not declared in schema",
        ),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "X_"}}, "metadata.name: Invalid value"),
    ],
)
def test_refused_manifest_is_reported_with_file_and_line(
    cluster: Cluster, tmp_path: Path, obj: dict[str, Any], message: str
) -> None:
    file = write(tmp_path / "manifests", "bad.yaml", obj)
    with pytest.raises(OperatorError) as raised:
        start.start(
            definition(tmp_path, manifests=[file]), cluster, directory=tmp_path / "logs", progress=lambda text: None
        )
    assert raised.value.message.startswith(f"{file}:1: ")
    assert message in raised.value.message
    assert not (tmp_path / "logs").exists()


def test_kubebuilder_project_is_installed_as_its_manifests_say(cluster: Cluster, tmp_path: Path) -> None:
    """The identity of its bindings, its rights and no others, its webhook, and nothing of its Deployment."""
    shop = load(str(DATA.parent / "kubebuilder/operator.yaml"))
    operator = start.start(shop, cluster, directory=tmp_path / "logs", progress=lambda text: None)
    try:
        with Portal() as portal:
            client = portal.client(cluster.access_as("harness"))
            own = portal.client(from_kubeconfig(cluster.directory / operator_state.PROCESS / "kubeconfig"))
            assert own.access.namespace == "shop-system"
            portal.run(own.list(portal.run(own.resource("Order"))))
            with pytest.raises(Forbidden):
                portal.run(own.create({"apiVersion": "example.com/v1", "kind": "Order", "metadata": {"name": "a"}}))
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}}
            portal.run(own.create(lease))
            with pytest.raises(Forbidden):
                portal.run(own.create({**lease, "metadata": {"name": "leader", "namespace": "default"}}))
            refused = {"name": "a", "namespace": "default", "labels": {"webhooks": "on"}}
            with pytest.raises(Invalid, match=r"data\.refuse is not welcome"):
                config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": refused, "data": {"refuse": "yes"}}
                portal.run(client.create(config_map))
            order = {"apiVersion": "example.com/v1beta1", "kind": "Order", "metadata": {"name": "a"}}
            portal.run(client.create({**order, "metadata": {"name": "a", "namespace": "shop-system"}}))
            stored = portal.run(own.get(portal.run(own.resource("Order", "example.com/v1")), "a", "shop-system"))
            assert stored["apiVersion"] == "example.com/v1"
            there = ("Namespace", "shop-system", ""), ("Service", "shop-webhook-service", "shop-system")
            absent = ("Deployment", "shop-controller-manager", "shop-system")
            assert portal.run(present(client, *there, absent)) == [True, True, False]
            namespace = portal.run(client.get(portal.run(client.resource("Namespace")), "shop-system"))
            assert namespace["metadata"]["labels"]["control-plane"] == "controller-manager"
    finally:
        operator.stop()
        operator.uninstall()
