"""Detection of a target's new port after its process has changed it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..cluster.processes import descendants
from ..endpoints import Address, port_of, with_port
from ..operator.listeners import ports_of
from ..operator.readiness import answers


def place_now(address: Address, pid: int) -> Address:
    """Return the current address of a process' endpoint: the last one, or the first other port with such an answer.

    Also the last one if undetermined: the process has only just started, or belongs to another user.
    """
    own, port = ports_of([pid]), port_of(address.url)
    if port in own:
        return address
    if (moved := _answering(address, own)) is not None:
        # Before any port of a child, even its last address: the process itself may have been too busy to answer then.
        return moved
    others = ports_of(descendants(pid)) - own
    return address if port in others else _answering(address, others) or address


def _answering(address: Address, ports: Iterable[int]) -> Address | None:
    candidates = (msgspec.structs.replace(address, url=with_port(address.url, port)) for port in sorted(ports))
    return next((candidate for candidate in candidates if not answers(candidate)), None)
