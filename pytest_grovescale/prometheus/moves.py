"""A target that has moved: its process listens on another port than it did."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..cluster.processes import descendants
from ..endpoints import Address, port_of, with_port
from ..operator.listeners import ports_of
from ..operator.readiness import answers


def place_now(address: Address, pid: int) -> Address:
    """Return where an endpoint of a process is now: where it was, or at the first other port that answers so.

    Where it was, too, when nothing tells: the process has only just started, or another user's is not to be seen.
    """
    own, port = ports_of([pid]), port_of(address.url)
    if port in own:
        return address
    if (moved := _answering(address, own)) is not None:
        # Before a child's, even one that it was found at: its own may have been too busy to answer then.
        return moved
    others = ports_of(descendants(pid)) - own
    return address if port in others else _answering(address, others) or address


def _answering(address: Address, ports: Iterable[int]) -> Address | None:
    candidates = (msgspec.structs.replace(address, url=with_port(address.url, port)) for port in sorted(ports))
    return next((candidate for candidate in candidates if not answers(candidate)), None)
