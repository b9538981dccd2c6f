"""Defect blocking-wait: a status check inside the reconcile.

It simplifies the code after it, and blocks a worker until other components have finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..objects import PodCliqueSet
from .component import Workshop
from .status import wanted_status

POLL_S = 0.5
TIMEOUT_S = 240.0
"""Time limit, s: then the reconcile fails, and its key is queued again."""


async def until_available(pcs: PodCliqueSet, shop: Workshop, sync: Callable[[PodCliqueSet], Awaitable[object]]) -> None:
    """Return when a set is available according to its spec, or no longer wanted. Raises TimeoutError, ApiError.

    ``sync`` reconciles its children: a gang lists its pods, which are created during the wait.
    """
    async with asyncio.timeout(TIMEOUT_S):
        while not _available(pcs, shop):
            await sync(pcs)
            await asyncio.sleep(POLL_S)


def _available(pcs: PodCliqueSet, shop: Workshop) -> bool:
    current = shop.caches.sets.store.get(pcs.key)
    if current is None or current.uid != pcs.uid or current.terminating:
        return True
    status = wanted_status(current, shop.caches, shop.hashes.of(pcs), pcs.metadata.generation, None)
    return status.available_replicas == pcs.spec.replicas
