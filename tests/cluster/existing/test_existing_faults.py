"""What goes wrong on a cluster of others: tokens end, webhooks and policies refuse, a plugin has nothing to give."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import handle, ledger, nodes, state
from pytest_grovescale.cluster.handle import Cluster
from pytest_grovescale.errors import ClusterError, UsageError
from pytest_grovescale.kube.access import bearer
from pytest_grovescale.kube.client import Client, Object
from pytest_grovescale.kube.portal import Portal
from pytest_grovescale.operator import webhooks
from tests.foreign_cluster import (
    CONTEXT,
    account,
    definition,
    ending_token,
    kubeconfig,
    left_of,
    names,
    plugin_user,
    refused,
    unique,
)
from tests.golden import masked
from tests.serving import Reply, Request, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster


def test_a_token_that_ends_meanwhile_is_renewed_by_all(
    without_kwok: Cluster, own_state: Path, portal: Portal, tmp_path: Path
) -> None:
    admin = portal.client(without_kwok.access)
    user = unique("user")
    portal.run(account(admin, name=user))
    file = plugin_user(tmp_path, without_kwok.access)
    end = portal.run(ending_token(admin, user, tmp_path / "token"))
    ours = handle.acquire(definition(file, kwok="host"), name=unique("ending"), progress=lambda text: None)
    try:
        client = portal.client(ours.access)
        assert len(portal.run(names(client, "Node", nodes.selector(ours.name)))) == 2
        before = ours.access
        (tmp_path / "token").write_text(portal.run(admin.token(user, "default")), encoding="utf-8")
        portal.run(end())
        wait_until(lambda: portal.run(refused(before)), "the end of the token")
        assert len(portal.run(names(client, "Node", nodes.selector(ours.name)))) == 2
        assert bearer(client.access) != bearer(before)
        kwoks = yaml.safe_load((ours.directory / "kwok.kubeconfig").read_text())["users"][0]["user"]
        assert list(kwoks) == ["exec"], "kwok asks the plugin itself"
    finally:
        ours.release()
    assert portal.run(left_of(admin, ours)) == []


def test_a_plugin_that_fails_ends_it_with_its_words(theirs: Cluster, own_state: Path, tmp_path: Path) -> None:
    file = plugin_user(tmp_path, theirs.access)
    with pytest.raises(ClusterError, match="ended with code 1") as caught:
        handle.acquire(definition(file), name=unique("plugin"), progress=lambda text: None)
    assert "No such file" in caught.value.message
    assert "log in by hand" in caught.value.next_step
    assert state.names() == []


def test_all_goes_through_the_kubeconfigs_proxy(
    theirs: Cluster, own_state: Path, tmp_path: Path, proxy: tuple[str, list[str]]
) -> None:
    url, asked = proxy
    file = kubeconfig(tmp_path / "kubeconfig", msgspec.structs.replace(theirs.access, proxy=url))
    name = unique("behind")
    with pytest.raises(UsageError, match="through the proxy"):
        handle.acquire(definition(file, kwok="there"), name=name, progress=lambda text: None)
    assert asked == []
    ours = handle.acquire(
        definition(file, kwok="there"), name=name, allowed_contexts=(CONTEXT,), progress=lambda text: None
    )
    assert not ours.on_loopback
    assert asked
    assert set(asked) == {f"CONNECT {theirs.server.removeprefix('https://')}"}
    assert yaml.safe_load(ours.kubeconfig.read_text())["clusters"][0]["cluster"]["proxy-url"] == url
    before = len(asked)
    ours.release()
    assert len(asked) > before, "the removal, a process of its own, goes through it too"


def test_the_name_that_the_server_must_have_is_asked_for(theirs: Cluster, own_state: Path, tmp_path: Path) -> None:
    for name, fits in (("localhost", True), ("api.example.com", False)):
        file = kubeconfig(tmp_path / name, msgspec.structs.replace(theirs.access, tls_server_name=name))

        def start(file: Path = file) -> Cluster:
            return handle.acquire(definition(file, kwok="there"), name=unique("named"), progress=lambda text: None)

        if fits:
            start().release()
        else:
            with pytest.raises(ClusterError, match=r"not valid for .*example"):
                start()


@pytest.fixture
def refusing(tmp_path: Path, portal: Portal, admin: Client) -> Iterator[str]:
    """The name of a webhook that lets no simulated node of a cluster called refused-… through."""
    certificate = webhooks.issue("127.0.0.1")
    webhooks.write(certificate, tmp_path / "webhook")

    def refuse(asked: Request) -> Reply:
        review = json.loads(asked.body)
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "no toys in here"}}
        body = json.dumps({**review, "request": None, "response": answer}).encode()
        return Reply(body, content_type="application/json")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "webhook/tls.crt", tmp_path / "webhook/tls.key")
    name = "no-toys.test.grovescale.io"
    with serving(refuse, tls=context) as port:
        configuration = _configuration(name, port, certificate.ca_pem)
        portal.run(admin.create(configuration))
        yield name
        portal.run(_delete(admin, configuration))


def _configuration(name: str, port: int, ca_pem: str) -> Object:
    url = f"https://127.0.0.1:{port}/"
    webhook = {
        "name": name,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_pem.encode()).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}],
        "matchConditions": [{"name": "refused", "expression": "object.metadata.name.startsWith('refused-')"}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "no-toys"},
        "webhooks": [webhook],
    }


async def _delete(client: Client, obj: Object) -> None:
    await client.delete(await client.resource(obj["kind"], obj["apiVersion"]), obj["metadata"]["name"])


def test_a_webhook_that_refuses_is_reported_with_its_name_and_words(
    theirs: Cluster,
    config: Path,
    own_state: Path,
    portal: Portal,
    admin: Client,
    refusing: str,
    snapshot: SnapshotAssertion,
) -> None:
    name = unique("refused")

    def start() -> str:
        with pytest.raises(ClusterError) as caught:
            handle.acquire(definition(config, kwok="there"), name=name, progress=lambda text: None)
        assert portal.run(names(admin, "Node", nodes.selector(name))) == []
        assert state.names() == []
        return str(caught.value)

    # Webhooks are in force a moment after they were made.
    wait_until(lambda: portal.run(_is_refused(admin)), "the webhook's first word")
    reported = start()
    assert f'webhook "{refusing}" denied' in reported
    assert "no toys in here" in reported
    assert f"the label {ledger.CLUSTER_LABEL}" in reported
    assert masked(reported.partition("\n  → ")[2], {refusing: "webhook"}) == snapshot


async def _is_refused(client: Client) -> bool:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "refused-probe"}}
    try:
        await client.request("POST", "/api/v1/nodes", params={"dryRun": "All"}, body=msgspec.json.encode(node))
    except Exception as error:  # noqa: BLE001 - whichever it is says who refused it
        return "no toys in here" in str(error)
    return False
