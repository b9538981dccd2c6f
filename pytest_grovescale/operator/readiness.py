"""Waiting for a process of ours to be ready: alive, answering, and the one that listens on its port."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..endpoints import Address, authorization, ssl_context
from ..errors import OperatorError

_LISTENING = "0A"
"""TCP_LISTEN in the column ``st`` of /proc/net/tcp, proc_pid_net(5)."""


def listeners(port: int) -> set[int] | None:
    """Return the pids that listen on a TCP port, of visible processes; None if /proc is not readable."""
    listening = _listening()
    if listening is None:
        return None
    inodes = {inode for inode, at in listening.items() if at == port}
    owners: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and inodes & _socket_inodes(entry / "fd"):
            owners.add(int(entry.name))
    return owners


def ports_of(pids: Iterable[int]) -> set[int]:
    """Return the TCP ports that processes listen on, of visible processes."""
    listening = _listening() or {}
    inodes = {inode for pid in pids for inode in _socket_inodes(Path(f"/proc/{pid}/fd"))}
    return {port for inode, port in listening.items() if inode in inodes}


def _listening() -> dict[str, int] | None:
    """Return the listening sockets: target of the descriptor's link → port."""
    found: dict[str, int] | None = None
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with contextlib.suppress(OSError):
            lines = table.read_text().splitlines()[1:]
            found = found if found is not None else {}
            for columns in map(str.split, lines):
                if columns[3] == _LISTENING:
                    found[f"socket:[{columns[9]}]"] = int(columns[1].rpartition(":")[2], 16)
    return found


def _socket_inodes(folder: Path) -> set[str]:
    inodes: set[str] = set()
    # Processes may end meanwhile, and other users' are not readable.
    with contextlib.suppress(OSError):
        for descriptor in folder.iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(descriptor.readlink()))
    return inodes


_EVERY_S = 0.05
_ANSWER_S = 2.0


class NotReady(OperatorError):
    """The process is alive, but was not ready in time."""


def wait_until(
    step: Callable[[], str], *, alive: Callable[[], bool], timeout: float, dead: Callable[[], OperatorError]
) -> None:
    """Call ``step`` until it returns an empty string; raise ``dead()`` at once when the process is no longer alive.

    Raises NotReady with the last result of ``step`` after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        # In this order: a process that dies right after its last answer was not ready.
        problem = step()
        if not alive():
            raise dead()
        if not problem:
            return
        if time.monotonic() >= deadline:
            raise NotReady(problem)
        time.sleep(_EVERY_S)


def answers(address: Address) -> str:
    """Return an empty string if a GET answers 200 to 299, else the error."""
    url = address.url
    try:
        with _open(address) as response:
            return "" if 200 <= response.status < 300 else f"{url} answered {response.status}"
    except urllib.error.HTTPError as error:
        with error:
            body = error.read(200).decode(errors="replace").strip()
        return f"{url} answered {error.code}: {body}"
    except (OSError, urllib.error.URLError) as error:
        return f"{url}: {getattr(error, 'reason', error)}"
    except http.client.HTTPException as error:
        return f"{url} did not answer in HTTP: {error}"


def fetch(address: Address) -> tuple[bytes, str]:
    """Return the body and content type of a GET. Raises OSError for any status but 200 to 299."""
    with _open(address) as response:
        return response.read(), response.headers.get("Content-Type", "")


def _open(address: Address) -> Any:
    # A proxy of the environment must not handle loopback requests.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl_context(address))
    )
    request = urllib.request.Request(address.url)
    for name, value in authorization(address).items():
        # Sent to this server only: a redirect may lead anywhere.
        request.add_unredirected_header(name, value)
    return opener.open(request, timeout=_ANSWER_S)


def listens(port: int, host: str = "127.0.0.1") -> str:
    """Return an empty string if the port accepts a connection, else the error."""
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_S):
            return ""
    except OSError as error:
        return f"port {port}: {error}"


def stranger(url: str, pid: int) -> str:
    """Return the process that listens at a loopback URL's port, if it is neither ``pid`` nor its child; else empty."""
    port = urlsplit(url).port
    owners = listeners(port) if port else None
    if owners is None or any(pid in lineage(owner) for owner in owners):
        return ""
    names = ", ".join(f"pid {owner}" for owner in sorted(owners)) or "a process of another user"
    return f"port {port} is answered by {names}, not by the operator (pid {pid})"


def lineage(pid: int) -> list[int]:
    """Return a process and its ancestors, nearest first; empty if it is gone."""
    found: list[int] = []
    while pid > 0:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        found.append(pid)
        # Field 4; the command in field 2 may contain anything, so count from its closing parenthesis.
        pid = int(stat.rpartition(")")[2].split()[1])
    return found
