"""The small parts of an operator's start: limits, RBAC, certificates, readiness."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import processes
from pytest_grovescale.errors import DefinitionError, UsageError
from pytest_grovescale.operator import manifests, readiness, webhooks
from pytest_grovescale.operator.command import core_numbers
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.process import refuse_unlike
from pytest_grovescale.quantity import memory_bytes
from tests.golden import masked


def test_an_operator_that_serves_nothing_is_ready_once_it_says_so(tmp_path: Path) -> None:
    log = tmp_path / "operator.log"
    assert readiness.says(log, "started", 0)
    log.write_text("started\nstopped\n", encoding="utf-8")
    assert readiness.says(log, "^start", 0) == ""
    # Lines of the process before a restart are not its own.
    begin = log.stat().st_size
    assert readiness.says(log, "started", begin)
    with log.open("a", encoding="utf-8") as opened:
        opened.write("waiting\nit has started\n")
    assert readiness.says(log, "started", begin) == ""


@pytest.mark.parametrize(
    ("quantity", "size"), [(0, 0), ("512Mi", 512 * 2**20), ("1.5Gi", 3 * 2**29), ("2G", 2 * 10**9), (123, 123)]
)
def test_memory(quantity: str | int, size: int) -> None:
    assert memory_bytes(quantity) == size


def test_cores() -> None:
    assert core_numbers(None) == []
    assert core_numbers(2, {1, 3, 5}) == [1, 3]
    assert core_numbers([5, 3], {1, 3, 5}) == [3, 5]
    for wanted in (4, [2]):
        with pytest.raises(UsageError, match=r"limits\.cores"):
            core_numbers(wanted, {1, 3, 5})


# ---- another version in its place


VERSION = """\
name: shop
command: [shop, "{metrics_port}", "{health_port}"]
readiness: {url: "http://127.0.0.1:{health_port}/readyz"}
metrics: {url: "http://127.0.0.1:{metrics_port}/metrics"}
"""


def test_a_version_is_followed_on_the_same_ports_as_the_same_identity(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(VERSION)
    (tmp_path / "two.yaml").write_text(VERSION.replace("[shop", "[shop, --new-flag"))
    one = load(str(tmp_path / "one.yaml"))
    refuse_unlike(one, load(str(tmp_path / "two.yaml")))
    others = {
        "`name:`": VERSION.replace("name: shop", "name: store"),
        "its identity": VERSION + "identity: {service_account: other}\n",
        "`metrics:`": VERSION.replace("/metrics", "/other"),
        "further ports": VERSION.replace("shop,", 'shop, "{webhook_port}",'),
    }
    for what, text in others.items():
        (tmp_path / "two.yaml").write_text(text)
        with pytest.raises(UsageError) as refused:
            refuse_unlike(one, load(str(tmp_path / "two.yaml")))
        assert what in refused.value.message


# ---- RBAC


RULE = "{apiGroups: [''], resources: [pods], verbs: [get]}"


ROLE = f"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: x}}\nrules: [{RULE}]\n"
ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: y}\n"


def granted(folder: Path, rules: str) -> list[dict[str, Any]]:
    """Return the roles and bindings of an operator whose definition names a file with these rules."""
    (folder / "rules.yaml").write_text(rules)
    definition = folder / "op.yaml"
    definition.write_text("name: op\ncommand: [op]\nreadiness: {url: 'http://127.0.0.1:1/'}\nrbac: rules.yaml\n")
    return [one.object for one in load(str(definition)).installation.rbac]


@pytest.mark.parametrize(
    "text",
    [
        f"- {RULE}",
        f"rules: [{RULE}]",
        ROLE,
        f"{ACCOUNT}---\n{ROLE}",
    ],
)
def test_rules_in_any_form(tmp_path: Path, text: str) -> None:
    role, _binding = granted(tmp_path, text)
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROLE.replace("rules: ", "rule: "), "rules.yaml:1: rules: missing"),
        (ROLE.replace("verbs", "verb"), "rules.yaml:4: rules[0].verb: unknown field"),
        ("- {verbs: [get], resource: [pods]}", "rules.yaml:1: [0].resource: unknown field"),
        ("rules: {verbs: [get]}", "rules.yaml:1: rules: is no list of rules"),
        ("just text", "rules.yaml:1: a Kubernetes object is a mapping"),
    ],
)
def test_wrong_rules(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        granted(tmp_path, text)
    assert raised.value.message.startswith(f"{tmp_path}/{message}")


def test_a_role_grants_in_its_namespace_only(tmp_path: Path) -> None:
    objects = granted(tmp_path, f"{ROLE}---\n{ROLE.replace('ClusterRole', 'Role')}")
    assert [(obj["kind"], obj["metadata"]) for obj in objects] == [
        ("ClusterRole", {"name": "grovescale-op"}),
        ("ClusterRoleBinding", {"name": "grovescale-op"}),
        ("Role", {"name": "grovescale-op-1", "namespace": "grovescale-operator"}),
        ("RoleBinding", {"name": "grovescale-op-1", "namespace": "grovescale-operator"}),
    ]


# ---- certificates and webhooks


def test_certificate_is_private_and_verifies(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    webhooks.write(webhooks.issue("127.0.0.1"), folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    _handshake(server, client, "127.0.0.1")
    _handshake(server, client, "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(server, client, "127.0.0.2")


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Shake hands in memory: bytes go to and fro until both ends are content."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)


def test_webhooks_are_sent_to_this_host() -> None:
    text = (Path(__file__).parents[2] / "data/operators/webhooks.yaml").read_text()
    bundle = base64.b64encode(b"ca").decode()
    found = [
        webhooks.local(manifest, {"webhook_port": "4711"}, ca_bundle=bundle).object["webhooks"][0]["clientConfig"]
        for manifest in manifests.parse(text, "webhooks.yaml")
    ]
    assert found == [
        {"url": "https://127.0.0.1:4711/validate", "caBundle": bundle},
        {"url": "https://127.0.0.1:4711/mutate", "caBundle": bundle},
    ]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("kind: ConfigMap", id="kind"),
        pytest.param("kind: ValidatingWebhookConfiguration\nwebhooks: [{name: a}]", id="nowhere"),
        pytest.param(
            "kind: ValidatingWebhookConfiguration\nwebhooks: [{clientConfig: {url: 'https://h:{hook_port}/'}}]",
            id="placeholder",
        ),
    ],
)
def test_wrong_webhooks(body: str, snapshot: SnapshotAssertion) -> None:
    (manifest,) = manifests.parse(f"apiVersion: v1\nmetadata: {{name: x}}\n{body}\n", "w.yaml")
    with pytest.raises(DefinitionError) as raised:
        webhooks.local(manifest, {"webhook_port": "1"}, ca_bundle="")
    assert "w.yaml:" in raised.value.message
    assert str(raised.value) == snapshot


# ---- readiness


def test_who_answers_is_reported(snapshot: SnapshotAssertion) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        url = f"http://127.0.0.1:{port}/readyz"
        assert readiness.stranger(url, os.getpid()) == ""
        assert readiness.stranger(url, os.getppid()) == ""
        with subprocess.Popen(["sleep", "60"]) as child:
            reported = readiness.stranger(url, child.pid)
            assert f"pid {os.getpid()}" in reported
            parts: dict[object, str] = {
                f"port {port}": "port",
                f"pid {os.getpid()}": "pid",
                f"pid {child.pid}": "operator's pid",
            }
            assert masked(reported, parts) == snapshot
            child.kill()


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exited with code 0"), (3, "exited with code 3"), (-9, "was killed by SIGKILL"), (None, "exited")],
)
def test_exit_text(code: int | None, text: str) -> None:
    assert processes.exit_text(code) == text


def test_an_end_for_its_memory_is_named_first() -> None:
    log = f"ready\n  {processes.OVER_MEMORY}, 120 MB: it had 130 MB of resident memory"
    assert "limits.memory" in processes.exit_text(-9, log)
    assert "limits.memory" in processes.exit_advice(-9, log)
    assert "limits.memory" not in processes.exit_text(-9, "ready") + processes.exit_advice(-9, "ready")


@pytest.mark.parametrize(
    ("code", "named"),
    [(0, "foreground"), (-9, "dmesg"), (127, "shell"), (3, ""), (-15, ""), (None, "")],
)
def test_how_a_process_ended_says_what_to_look_for(code: int | None, named: str) -> None:
    advice = processes.exit_advice(code)
    assert named in advice
    assert bool(advice) == bool(named)
