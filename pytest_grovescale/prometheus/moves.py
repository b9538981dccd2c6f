"""A target that has moved: its process listens on another port than it did."""

from __future__ import annotations

import msgspec

from ..cluster.processes import descendants
from ..operator.endpoints import Address, port_of, with_port
from ..operator.listeners import ports_of
from ..operator.readiness import answers


def place_now(address: Address, pid: int) -> Address:
    """Return where an endpoint of a process is now: where it was, or at the first other port that answers so.

    Where it was, too, when nothing tells: the process has only just started, or another user's is not to be seen.
    """
    own, port = ports_of([pid]), port_of(address.url)
    if port in own:
        return address
    # What it has started may serve metrics too: its own come first.
    others = ports_of(descendants(pid)) - own
    if port in others:
        return address
    moved = [msgspec.structs.replace(address, url=with_port(address.url, n)) for n in (*sorted(own), *sorted(others))]
    return next((candidate for candidate in moved if not answers(candidate)), address)
