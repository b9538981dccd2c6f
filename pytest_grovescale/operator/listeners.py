"""Processes that listen on TCP ports of this host, from /proc."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

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
