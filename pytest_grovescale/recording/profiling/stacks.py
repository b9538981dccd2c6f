"""What a process is doing right now: the stacks of its threads or goroutines, kept as lines of the recording."""

from __future__ import annotations

import asyncio

from ..processes import Identity
from ..protocol import ProfileTarget
from . import pprof, pyspy
from .capture import ProfileFailed

LIMIT_S = 5.0
"""How long a dump may take, s: it delays the end of a phase that is late already."""

MAX_LINES = 20_000
"""Lines kept of one dump: those of 1500 goroutines."""


async def stacks(target: ProfileTarget, process: Identity, *, captured: bool) -> list[str]:
    """Return the stacks as the tool prints them; ``captured``: a profiler is attached. Raises ProfileFailed."""
    try:
        async with asyncio.timeout(LIMIT_S):
            if target.address is not None:
                text = await pprof.dump(target.address)
            else:
                text = await pyspy.dump(process, captured=captured)
    except TimeoutError:
        raise ProfileFailed(
            f"no stacks of {target.process} within {LIMIT_S:g} s", next_step="See the operator's log for what it does."
        ) from None
    lines = text.rstrip().splitlines()
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"… and {len(lines) - MAX_LINES} lines more"]
