"""Free ports on loopback, leased by lock files so that two runs on one machine never pick the same.

The locked files are handed to the supervisor, which holds them as long as it lives.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..errors import ClusterError
from . import locks

# Below the range from which Linux takes ports for outgoing connections, so that none of those is in the way.
RANGE = range(18000, 28000)
_ATTEMPTS = 2000


class PortTaken(ClusterError):
    """Somebody else took a port between its choice and its use; another start, with other ports, may work."""


class PortLease(msgspec.Struct, frozen=True):
    """One port; ours while any process keeps ``lock`` open."""

    number: int
    lock: BinaryIO


def lease(count: int) -> list[PortLease]:
    """Return that many ports on 127.0.0.1 that nobody listens on and no other run has leased."""
    folder = Path(tempfile.gettempdir()) / f"grovescale-ports-{os.getuid()}"
    found: list[PortLease] = []
    for number in random.sample(RANGE, _ATTEMPTS):
        if len(found) == count:
            return found
        lock = locks.take(folder / str(number), wait=False)
        if lock is None:
            continue
        if _is_free(number):
            found.append(PortLease(number, lock))
        else:
            lock.close()
    release(found)
    raise ClusterError(
        f"fewer than {count} free ports among {_ATTEMPTS} tried in {RANGE.start}-{RANGE.stop - 1}",
        next_step="See what listens there: ss -ltnp.",
    )


def release(leases: list[PortLease]) -> None:
    """Give ports back, as far as this process holds them. Idempotent."""
    for port in leases:
        port.lock.close()


def _is_free(number: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connection is still in TIME_WAIT is free to listen on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
    return True
