"""Free ports on loopback, leased so that two runs on one machine never pick the same.

A lease is a bound Unix socket with an abstract name: such names exist as long as a process holds them, and have the
same scope as ports: all users of a network namespace. The supervisor takes the sockets over.
"""

from __future__ import annotations

import random
import socket

import msgspec

from ..errors import ClusterError

# Below Linux's range for outgoing connections, so that none of them occupies a port.
RANGE = range(18000, 28000)
_ATTEMPTS = 2000


class PortTaken(ClusterError):
    """Another process took a port between its selection and its use; another start, with other ports, may work."""


class PortLease(msgspec.Struct, frozen=True):
    """One port, leased while any process keeps ``lock`` open."""

    number: int
    lock: socket.socket


def lease(count: int) -> list[PortLease]:
    """Return ``count`` ports on 127.0.0.1 without a listener and without another lease."""
    leases: list[PortLease] = []
    for number in random.sample(RANGE, _ATTEMPTS):
        if len(leases) == count:
            return leases
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0grovescale-port-{number}")
        except OSError:
            lock.close()
            continue
        if _is_free(number):
            leases.append(PortLease(number, lock))
        else:
            lock.close()
    release(leases)
    raise ClusterError(
        f"fewer than {count} free ports among {_ATTEMPTS} tried in {RANGE.start}-{RANGE.stop - 1}",
        next_step="See what listens there: ss -ltnp.",
    )


def descriptors(leases: list[PortLease]) -> list[int]:
    """Return the descriptors that hold the ports' leases."""
    return [port.lock.fileno() for port in leases]


def release(leases: list[PortLease]) -> None:
    """Release the leases of this process. Idempotent."""
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
