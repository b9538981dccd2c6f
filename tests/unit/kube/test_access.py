"""Credentials: resolved, written as a kubeconfig, never shown."""

from __future__ import annotations

import base64
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import pki
from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube.access import (
    Access,
    bearer,
    from_kubeconfig,
    in_cluster,
    plugin_of,
    renewed,
    to_kubeconfig,
)
from tests.golden import masked


def test_kubeconfig_round_trip(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:6443", ca_pem="CA", client_cert_pem="CERT", client_key_pem="KEY")
    file = tmp_path / "config"
    file.write_text(to_kubeconfig(access, name="x"), encoding="utf-8")
    found = from_kubeconfig(file)
    assert (found.server, found.ca_pem, found.client_cert_pem, found.client_key_pem) == (
        "https://127.0.0.1:6443",
        "CA",
        "CERT",
        "KEY",
    )
    assert found.context == "x"


def test_namespace_and_token_of_a_named_context(tmp_path: Path) -> None:
    document = yaml.safe_load(to_kubeconfig(Access(server="https://a:1", token="t"), name="one"))
    other = yaml.safe_load(to_kubeconfig(Access(server="https://b:2", token="u", namespace="ns"), name="two"))
    for part in ("clusters", "users", "contexts"):
        document[part] += other[part]
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    found = from_kubeconfig(file, "two")
    assert (found.server, found.namespace, bearer(found)) == ("https://b:2", "ns", "Bearer u")


def test_exec_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': {'token': 'from-plugin'}}))\n",
        encoding="utf-8",
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    document = yaml.safe_load(to_kubeconfig(Access(server="https://a:1"), name="one"))
    document["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    found = from_kubeconfig(file)
    assert bearer(found) == "Bearer from-plugin"
    plugin.write_text(plugin.read_text(encoding="utf-8").replace("from-plugin", "renewed"), encoding="utf-8")
    assert bearer(renewed(found)) == "Bearer renewed"


def test_missing_context_names_the_file_and_the_next_step(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    file = tmp_path / "config"
    file.write_text(to_kubeconfig(Access(server="https://a:1"), name="one"), encoding="utf-8")
    with pytest.raises(ClusterError) as caught:
        from_kubeconfig(file, "nope")
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "'nope'" in caught.value.message
    assert caught.value.next_step == "Contexts: one."


@pytest.mark.parametrize(
    "content",
    [
        "<html>login</html>\n",
        "[]\n",
        "contexts: [stage]\n",
        "contexts: {stage: {}}\n",
        "clusters:\nusers:\ncontexts: [{name: stage}]\n",
        "clusters: {a: {server: x}}\ncontexts: [{name: stage, context: {cluster: a}}]\n",
        "clusters: [{name: a}]\ncontexts: [{name: stage, context: {cluster: a}}]\n",
    ],
)
def test_what_is_no_kubeconfig_is_said_in_words(content: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ClusterError) as refused:
        from_kubeconfig(file, "stage")
    assert not re.search(r"object|attribute|NoneType|subscript|indices|^'\w+'$", refused.value.message), refused.value
    assert refused.value.next_step


def test_no_kubeconfig_at_all_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{tmp_path / 'too'}")
    with pytest.raises(ClusterError) as caught:
        from_kubeconfig()
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "in_cluster" in caught.value.next_step


def test_token_file_is_read_at_use(tmp_path: Path) -> None:
    file = tmp_path / "token"
    access = Access(server="https://a:1", token_file=str(file))
    for token in ("first", "second"):
        file.write_text(f"{token}\n", encoding="utf-8")
        assert bearer(access) == f"Bearer {token}"


def test_in_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "ns\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = in_cluster(tmp_path)
    assert (access.server, access.namespace, bearer(access)) == ("https://[fd00::1]:443", "ns", "Bearer t")


def test_outside_a_pod_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="not inside a pod"):
        in_cluster(tmp_path)


def test_nothing_secret_in_the_repr() -> None:
    secret = base64.b64encode(b"very secret").decode()
    access = Access(server="https://a:1", token=secret, client_key_pem=secret, client_cert_pem="x")
    assert secret not in repr(access)
    assert secret not in f"{access}"


def _kubeconfig(file: Path, *accesses: tuple[str, Access], user: Mapping[str, object] | None = None) -> Path:
    """Write a kubeconfig with a context for each access; the first is the current one."""
    documents = [yaml.safe_load(to_kubeconfig(access, name=name)) for name, access in accesses]
    for document in documents[1:]:
        for part in ("clusters", "users", "contexts"):
            documents[0][part] += document[part]
    if user is not None:
        documents[0]["users"][0]["user"] = dict(user)
    file.write_text(yaml.safe_dump(documents[0]), encoding="utf-8")
    return file


def test_a_context_that_is_switched_meanwhile_changes_nothing(tmp_path: Path) -> None:
    both = ("one", Access(server="https://a:1", token="t")), ("two", Access(server="https://b:2", token="u"))
    found = from_kubeconfig(_kubeconfig(tmp_path / "config", *both))
    _kubeconfig(tmp_path / "config", *reversed(both))
    assert from_kubeconfig(tmp_path / "config").server == "https://b:2"
    assert renewed(found) == found


def test_a_context_that_means_another_cluster_by_now_renews_nothing(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    found = from_kubeconfig(_kubeconfig(tmp_path / "config", ("one", Access(server="https://a:1", token="t"))))
    _kubeconfig(tmp_path / "config", ("one", Access(server="https://b:2", token="u")))
    with pytest.raises(ClusterError) as caught:
        renewed(found)
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot


def test_several_files_are_one_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _kubeconfig(tmp_path / "first", ("one", Access(server="https://a:1", token="t")))
    second = _kubeconfig(tmp_path / "second", ("two", Access(server="https://b:2", token="u")))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    found = from_kubeconfig(context="two")
    assert (found.server, found.kubeconfig) == ("https://b:2", f"{first}:{second}")
    monkeypatch.delenv("KUBECONFIG")
    assert bearer(renewed(found)) == "Bearer u"


def test_where_it_is_can_be_asked_without_running_a_plugin(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    never = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"}}
    file = _kubeconfig(tmp_path / "config", ("one", Access(server="https://a:1")), user=never)
    assert from_kubeconfig(file, credentials=False).server == "https://a:1"
    with pytest.raises(ClusterError) as caught:
        from_kubeconfig(file)
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "/no/such/plugin" in caught.value.message


def test_an_exec_plugin_is_passed_on_to_other_programs_instead_of_what_it_gave(tmp_path: Path) -> None:
    script = tmp_path / "plugin"
    script.write_text(
        '#!/bin/sh\necho \'{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "secret"}}\'\n'
    )
    script.chmod(0o700)
    user = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}
    }
    found = from_kubeconfig(_kubeconfig(tmp_path / "config", ("one", Access(server="https://a:1")), user=user))
    assert found.token == "secret"
    text = to_kubeconfig(found, name="copy", plugin=plugin_of(found))
    assert "secret" not in text
    assert yaml.safe_load(text)["users"][0]["user"]["exec"]["command"] == str(script)


def test_no_plugin_where_there_are_credentials(tmp_path: Path) -> None:
    file = _kubeconfig(tmp_path / "config", ("one", Access(server="https://a:1", token="t")))
    assert plugin_of(from_kubeconfig(file)) is None


def test_impersonation_is_not_passed_over(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    user = {"token": "t", "as": "someone-small"}
    file = _kubeconfig(tmp_path / "config", ("one", Access(server="https://a:1")), user=user)
    with pytest.raises(ClusterError) as caught:
        from_kubeconfig(file)
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "'someone-small'" in caught.value.message


@pytest.mark.parametrize(
    ("provider", "step"),
    [("gcp", "gke-gcloud-auth-plugin"), ("azure", "kubelogin"), ("oidc", "oidc-login"), ("x", "exec")],
)
@pytest.mark.parametrize("credentials", [True, False])
def test_auth_providers_are_rejected_by_name(
    tmp_path: Path, provider: str, step: str, credentials: bool, snapshot: SnapshotAssertion
) -> None:
    user = {"auth-provider": {"name": provider, "config": {"access-token": "Cana7ryX9zz"}}}
    file = _kubeconfig(tmp_path / "config", ("one", Access(server="https://a:1")), user=user)
    with pytest.raises(ClusterError) as raised:
        from_kubeconfig(file, credentials=credentials)
    assert masked(str(raised.value), {tmp_path: "folder"}) == snapshot
    assert f"'{provider}'" in raised.value.message
    assert step in raised.value.next_step
    assert "Cana7ry" not in str(raised.value)


_KILLED_WITH_KEYS = """
import sys, time
opened = open(sys.argv[2], "a")
sys.addaudithook(lambda event, args: event == "open" and print(args[0], file=opened, flush=True))
from pytest_grovescale.kube.access import from_kubeconfig, ssl_context
for _ in range(3):
    ssl_context(from_kubeconfig(sys.argv[1]))
print("ready", flush=True)
time.sleep(600)
"""


def test_keys_of_a_kubeconfig_are_in_no_file_after_sigkill(tmp_path: Path) -> None:
    made = pki.create(("me",), service_ip="127.0.0.1")
    pair = made.clients["me"]
    access = Access(
        server="https://127.0.0.1:1", ca_pem=made.ca_pem, client_cert_pem=pair.cert_pem, client_key_pem=pair.key_pem
    )
    file = _kubeconfig(tmp_path / "config", ("one", access))
    assert from_kubeconfig(file).client_key_pem == pair.key_pem
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    trace = tmp_path / "opened"
    command = [sys.executable, "-c", _KILLED_WITH_KEYS, str(file), str(trace)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert list(temporary.iterdir()) == []
    # Nor has there been one, for a moment.
    assert trace.read_text(encoding="utf-8")
    assert str(temporary) not in trace.read_text(encoding="utf-8")


def test_a_kubeconfigs_proxy_beats_the_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://environment:1")
    plain = _kubeconfig(tmp_path / "plain", ("one", Access(server="https://a:1", token="t")))
    assert from_kubeconfig(plain).proxy == "http://environment:1"
    own = _kubeconfig(tmp_path / "own", ("one", Access(server="https://a:1", token="t", proxy="http://own:2")))
    assert from_kubeconfig(own).proxy == "http://own:2"
    local = _kubeconfig(tmp_path / "local", ("one", Access(server="https://127.0.0.1:1", token="t")))
    assert from_kubeconfig(local).proxy == ""


def test_the_servers_name_in_its_certificate_is_passed_on(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:1", token="t", tls_server_name="api.example.com")
    file = _kubeconfig(tmp_path / "config", ("one", access))
    assert from_kubeconfig(file).tls_server_name == "api.example.com"
