"""Credential plugins: what they give is taken, what they say when they fail is told, and none of them is waited for."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import procfs
from pytest_grovescale.errors import ClusterError
from pytest_grovescale.kube import exec_plugin
from pytest_grovescale.kube.exec_plugin import Plugin
from tests.golden import masked
from tests.waiting import wait_until

VERSION = "client.authentication.k8s.io/v1"
ANSWER = f"""
import json, os, sys
def give(**status):
    print(json.dumps({{"apiVersion": "{VERSION}", "kind": "ExecCredential", "status": status}}))
"""


def plugin(folder: Path, program: str, **fields: Any) -> Plugin:
    file = folder / "plugin"
    file.write_text(f"#!{sys.executable}\n{ANSWER}{textwrap.dedent(program)}", encoding="utf-8")
    file.chmod(0o700)
    return Plugin(command=str(file), api_version=VERSION, **fields)


def test_a_token(tmp_path: Path) -> None:
    assert exec_plugin.run(plugin(tmp_path, "give(token='t')"), cluster={}).token == "t"


def test_a_client_certificate(tmp_path: Path) -> None:
    found = exec_plugin.run(plugin(tmp_path, "give(clientCertificateData='CERT', clientKeyData='KEY')"), cluster={})
    assert (found.client_certificate_data, found.client_key_data) == ("CERT", "KEY")


def test_what_it_is_reported(tmp_path: Path) -> None:
    program = "give(token='|'.join([os.environ['MINE'], *sys.argv[1:], os.environ['KUBERNETES_EXEC_INFO']]))"
    asked = plugin(tmp_path, program, args=["a"], env=[{"name": "MINE", "value": "x"}], provide_cluster_info=True)
    cluster = {
        "server": "https://a:1",
        "certificate-authority": "/not/told",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "y"}}],
    }
    mine, argument, info = exec_plugin.run(asked, cluster=cluster).token.split("|")
    assert (mine, argument) == ("x", "a")
    assert '"interactive":false' in info
    assert '"cluster":{"server":"https://a:1","config":{"audience":"y"}}' in info


def test_one_that_fails_is_reported_with_its_own_words(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    failing = plugin(tmp_path, "sys.stderr.write('please run: cloud login\\n'); sys.exit(3)")
    with pytest.raises(ClusterError) as caught:
        exec_plugin.run(failing, cluster={})
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "please run: cloud login" in caught.value.message


def test_one_that_asks_finds_no_one(tmp_path: Path) -> None:
    asking = plugin(tmp_path, "sys.stderr.write('User name: '); sys.stdin.readline() or sys.exit('nobody there')")
    with pytest.raises(ClusterError, match=r"User name: nobody there"):
        exec_plugin.run(asking, cluster={})


def test_one_that_asks_at_the_terminal_has_none(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="No such device or address"):
        exec_plugin.run(plugin(tmp_path, "open('/dev/tty').readline()"), cluster={})


def test_one_that_never_ends_is_ended_with_all_that_it_started(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    pids = tmp_path / "pids"
    program = f"""
        import subprocess, time
        child = subprocess.Popen(["sleep", "1000"])
        open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
        sys.stderr.write("open https://login.example.com in a browser\\n"); sys.stderr.flush()
        time.sleep(1000)
    """
    with pytest.raises(ClusterError) as caught:
        exec_plugin.run(plugin(tmp_path, program), cluster={}, timeout_s=2)
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "https://login.example.com" in caught.value.message
    started = [int(pid) for pid in pids.read_text().split()]
    # Both have been killed; the one that is not our child may take a moment to end.
    wait_until(lambda: not any(procfs.started_ticks(pid) for pid in started), "the end of both")


def test_one_that_must_ask_is_not_even_run(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="interactiveMode: Always"):
        exec_plugin.run(plugin(tmp_path, "give(token='t')", interactive_mode="Always"), cluster={})


def test_one_that_is_missing_is_reported_with_its_hint(snapshot: SnapshotAssertion) -> None:
    missing = Plugin(command="no-such-plugin", api_version=VERSION, install_hint="get it from the shop\n")
    with pytest.raises(ClusterError) as caught:
        exec_plugin.run(missing, cluster={})
    assert str(caught.value) == snapshot
    assert caught.value.next_step == "get it from the shop"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("print('secret-token')", id="no JSON"),
        pytest.param("give()", id="empty"),
        pytest.param("give(clientCertificateData='c')", id="no key"),
        pytest.param(
            "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1beta1', 'status': {'token': 'secret'}}))",
            id="other version",
        ),
    ],
)
def test_an_answer_that_is_none_is_refused_and_not_shown(
    tmp_path: Path, program: str, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(ClusterError) as caught:
        exec_plugin.run(plugin(tmp_path, program), cluster={})
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "secret" not in str(caught.value)


def test_a_relative_command_is_beside_the_kubeconfig() -> None:
    section = {"apiVersion": VERSION, "command": "./bin/login"}
    assert exec_plugin.plugin(section, Path("/home/me/.kube")).command == "/home/me/.kube/bin/login"
    assert exec_plugin.plugin({**section, "command": "login"}, Path("/home/me/.kube")).command == "login"


def test_a_section_that_names_no_plugin_is_reported() -> None:
    with pytest.raises(ClusterError, match="missing required field `command`"):
        exec_plugin.plugin({"apiVersion": VERSION}, Path("/"))
