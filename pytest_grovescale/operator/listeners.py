"""Who listens on a TCP port of this host, by what /proc tells."""

from __future__ import annotations

import contextlib
from pathlib import Path


def listeners(port: int) -> set[int] | None:
    """Return the pids that listen on a TCP port, of those that we may look into; None where /proc does not tell."""
    inodes = _listening_inodes(port)
    if inodes is None:
        return None
    owners: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and inodes & _socket_inodes(entry / "fd"):
            owners.add(int(entry.name))
    return owners


def _listening_inodes(port: int) -> set[str] | None:
    inodes: set[str] = set()
    found = False
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with contextlib.suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                columns = line.split()
                listening = columns[3] == "0A"
                if listening and int(columns[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{columns[9]}]")
            found = True
    return inodes if found else None


def _socket_inodes(folder: Path) -> set[str]:
    inodes: set[str] = set()
    # Processes end while we look, and others' are closed to us.
    with contextlib.suppress(OSError):
        for descriptor in folder.iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(descriptor.readlink()))
    return inodes
