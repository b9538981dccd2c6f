"""Credential plugins of a kubeconfig (``users[].user.exec``): run without a terminal, and with a time limit.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
The official client library runs them too, but discards their error output, lets them read from the terminal, and has no
time limit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..errors import ClusterError

TIMEOUT_S = 60.0
_GROUP = "client.authentication.k8s.io"
_TAIL_LINES = 10


class Plugin(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of a user's ``exec`` section that are used."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"


class Credential(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plugin's output: a token, a client certificate, or both. Contains secrets."""

    token: str = ""
    client_certificate_data: str = ""
    """PEM."""
    client_key_data: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str
    status: Credential


def plugin(section: Mapping[str, Any], folder: Path) -> Plugin:
    """Return the plugin of an ``exec`` section; a command with a slash is relative to ``folder``, the kubeconfig's.

    Raises ClusterError for a section without a command.
    """
    try:
        found = msgspec.convert(dict(section), Plugin)
    except msgspec.ValidationError as error:
        raise ClusterError(f"exec: {error}", next_step="Correct the user's `exec` section.") from error
    if os.sep in found.command:
        found = msgspec.structs.replace(found, command=str(folder / Path(found.command).expanduser()))
    return found


def run(plugin: Plugin, *, cluster: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> Credential:
    """Run a plugin and return its credential. ``cluster``: the kubeconfig's, for plugins that request it.

    Raises ClusterError with the plugin's last error output when it fails, asks for input, or takes too long.
    """
    if plugin.interactive_mode == "Always":
        raise _failed(plugin, "must be asked for credentials at a terminal (interactiveMode: Always)")
    if shutil.which(plugin.command) is None:
        raise _failed(plugin, "is not there, or not executable", plugin.install_hint.strip())
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": _spec(plugin, cluster)}
    given = {item["name"]: item["value"] for item in plugin.env or []}
    answer = _output(
        plugin,
        {**os.environ, **given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
        timeout_s,
    )
    try:
        found = msgspec.json.decode(answer, type=_Answer)
    except msgspec.MsgspecError as error:
        # Not its output, which may contain a token.
        raise _failed(plugin, f"did not print an ExecCredential: {error}") from None
    if found.api_version != plugin.api_version:
        raise _failed(plugin, f"answered in {found.api_version}, not in {plugin.api_version}")
    if not found.status.token and not (found.status.client_certificate_data and found.status.client_key_data):
        raise _failed(plugin, "gave neither a token nor a client certificate with its key")
    return found.status


def _spec(plugin: Plugin, cluster: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        names = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        spec["cluster"] = {name: cluster[name] for name in names if name in cluster}
        for extension in cluster.get("extensions") or []:
            if extension.get("name") == f"{_GROUP}/exec":
                spec["cluster"]["config"] = extension.get("extension")
    return spec


def _output(plugin: Plugin, environment: dict[str, str], timeout_s: float) -> bytes:
    # A session of its own: it has no terminal to read from, and all its children can be ended with it.
    process = subprocess.Popen(
        [plugin.command, *(plugin.args or [])],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, words = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        _, words = process.communicate()
        raise _failed(plugin, f"did not end within {timeout_s:g} s", said=words) from None
    except BaseException:
        _end(process)
        process.communicate()
        raise
    if process.returncode:
        raise _failed(plugin, f"ended with code {process.returncode}", said=words)
    return output


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failed(plugin: Plugin, what: str, hint: str = "", *, said: bytes = b"") -> ClusterError:
    lines = said.decode(errors="replace").strip().splitlines()[-_TAIL_LINES:]
    return ClusterError(
        "\n".join([f"exec plugin {plugin.command} {what}", *(f"  {line}" for line in lines)]),
        next_step=hint or "It runs without a terminal: log in by hand first, with kubectl for example.",
    )
