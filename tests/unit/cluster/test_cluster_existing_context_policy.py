"""Whether a cluster may be used is settled by its server's address, before anything is sent there."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.cluster import launch
from pytest_grovescale.cluster.definition import Existing, load_definition
from pytest_grovescale.cluster.existing import context_policy
from pytest_grovescale.errors import ClusterError, UsageError
from pytest_grovescale.kube.access import Access, to_kubeconfig


def kubeconfig(folder: Path, access: Access, *, context: str = "team") -> Existing:
    file = folder / "config"
    file.write_text(to_kubeconfig(access, name=context), encoding="utf-8")
    return Existing(kubeconfig=str(file))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Name → addresses, instead of what the machine's resolver knows."""
    known: dict[str, list[str]] = {}

    def resolve(host: str, port: int | None, **kwargs: Any) -> list[tuple[Any, ...]]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return known


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"])
def test_on_loopback_nothing_need_be_allowed(tmp_path: Path, server: str) -> None:
    assert context_policy.access(kubeconfig(tmp_path, Access(server=server, token="t")), allowed=()).server == server


def test_elsewhere_the_message_has_the_address_and_the_exact_option(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    settings = kubeconfig(tmp_path, Access(server="https://10.9.8.7:6443", token="t"))
    with pytest.raises(UsageError) as caught:
        context_policy.access(settings, allowed=("other",))
    assert "https://10.9.8.7:6443" in caught.value.message
    assert str(caught.value) == snapshot
    assert "--grovescale-allow-context=team" in caught.value.next_step
    assert "--allow-context=team" in caught.value.next_step
    assert context_policy.access(settings, allowed=("team",)).server == "https://10.9.8.7:6443"


@pytest.mark.parametrize(
    ("addresses", "local"),
    [(["127.0.0.1"], True), (["127.0.0.1", "127.0.0.2"], True), (["127.0.0.1", "10.1.1.1"], False), ([], False)],
)
def test_a_name_is_on_loopback_if_all_its_addresses_are(
    names: dict[str, list[str]], addresses: list[str], local: bool
) -> None:
    names["api.test"] = addresses
    assert context_policy.on_loopback(Access(server="https://api.test:6443")) is local


def test_a_name_that_no_one_knows_is_not_on_loopback(names: dict[str, list[str]]) -> None:
    assert not context_policy.on_loopback(Access(server="https://api.test:6443"))


def test_through_a_proxy_loopback_is_another_users(tmp_path: Path) -> None:
    settings = kubeconfig(tmp_path, Access(server="https://127.0.0.1:6443", token="t", proxy="http://10.1.1.1:3128"))
    with pytest.raises(UsageError, match=r"through the proxy http://10\.1\.1\.1:3128"):
        context_policy.access(settings, allowed=())


def test_the_plugin_of_a_context_that_may_not_be_used_is_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!{sys.executable}\nopen({str(ran)!r}, 'w')\n", encoding="utf-8")
    plugin.chmod(0o700)
    settings = kubeconfig(tmp_path, Access(server="https://10.9.8.7:6443"))
    document = yaml.safe_load(Path(settings.kubeconfig).read_text())
    version = "client.authentication.k8s.io/v1"
    document["users"][0]["user"] = {"exec": {"apiVersion": version, "command": str(plugin)}}
    Path(settings.kubeconfig).write_text(yaml.safe_dump(document))
    with pytest.raises(UsageError):
        context_policy.access(settings, allowed=())
    assert not ran.exists()
    with pytest.raises(ClusterError, match="did not print an ExecCredential"):
        context_policy.access(settings, allowed=("team",))
    assert ran.exists()


def test_the_current_context_is_settled_at_the_start(tmp_path: Path) -> None:
    found = context_policy.access(kubeconfig(tmp_path, Access(server="https://127.0.0.1:1", token="t")), allowed=())
    assert (found.context, found.kubeconfig) == ("team", str(tmp_path / "config"))


def test_in_a_pod_nothing_need_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="not inside a pod"):
        context_policy.access(Existing(in_cluster=True), allowed=())


def test_starts_that_name_no_context_are_alike_only_while_they_mean_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = load_definition("existing")
    digests = []
    for context in ("one", "two", "one"):
        settings = kubeconfig(tmp_path, Access(server="https://127.0.0.1:1", token="t"), context=context)
        monkeypatch.setenv("KUBECONFIG", settings.kubeconfig)
        digests.append(launch.digest(context_policy.settled(definition)))
    assert digests[0] == digests[2] != digests[1]
