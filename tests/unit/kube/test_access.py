"""Credentials: resolved, written as a kubeconfig, never shown."""

from __future__ import annotations

import base64
import stat
import sys
from pathlib import Path

import pytest
import yaml

from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube.access import Access, bearer, from_kubeconfig, in_cluster, renewed, to_kubeconfig


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


def test_missing_context_names_the_file_and_the_next_step(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(to_kubeconfig(Access(server="https://a:1"), name="one"), encoding="utf-8")
    with pytest.raises(ClusterError, match=r"config: cannot be used with context 'nope'") as caught:
        from_kubeconfig(file, "nope")
    assert "get-contexts" in caught.value.next_step


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
