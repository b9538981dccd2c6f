"""Stack dumps of a process: its threads, tasks or goroutines; also taken while its workers are blocked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ...procfs import Identity
from ..protocol import ProfileTarget
from ..records import AnyRecord, CpuRead, PhaseEnded, PhaseStarted, Scraped
from ..worker_history import OPERATOR, WorkerHistory, blocked_now
from . import pprof, pyspy
from .capture import ProfileFailed
from .pprof import AnyAddress, Exchange, Reach, on_this_host

LIMIT_S = 5.0
"""Time limit of a dump, s: it delays the end of a phase that is already late."""

MAX_LINES = 20_000
"""Maximum number of lines kept of one dump: those of 1500 goroutines."""

_SERVED_S = 2.0
"""Time limit for the operator's own stacks endpoint, s: an operator whose event loop is blocked never answers."""

_MAX_BYTES = 16 << 20


async def stacks(
    target: ProfileTarget,
    process: Identity | None,
    *,
    captured: bool,
    reach: Reach = on_this_host,
    served_only: bool = False,
) -> list[str]:
    """Return the stacks as the tools print them; ``captured``: a profiler is attached. Raises ProfileFailed.

    ``process`` None: not a process of this host. ``served_only``: those that the operator itself serves, which neither
    stops it nor starts a program.

    The operator's own stacks endpoint comes first: its asyncio tasks, which external tools cannot see before Python
    3.14. A part that is not available is a line that begins with ``#`` and gives the reason, when another part is.
    """
    reached = reach(target)
    wanted = []
    if reached.stacks is not None:
        wanted.append(_served(reached.stacks))
    if not served_only:
        wanted.append(_profilers(target.process, reached.pprof, process, captured=captured))
    if not wanted:
        raise ProfileFailed(f"{target.process} serves no stacks", next_step="Name stacks.url in its definition.")
    parts = await asyncio.gather(*wanted, return_exceptions=True)
    failures = [part for part in parts if isinstance(part, ProfileFailed)]
    for part in parts:
        if isinstance(part, BaseException) and not isinstance(part, ProfileFailed):
            raise part
    if len(failures) == len(parts):
        raise failures[-1]
    lines = [line for part in parts for line in _lines(part)]
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"… and {len(lines) - MAX_LINES} lines more"]


def _lines(part: str | BaseException) -> list[str]:
    if isinstance(part, ProfileFailed):
        return [f"# {part.line}", ""]
    return [*str(part).rstrip().splitlines(), ""]


async def _profilers(name: str, address: AnyAddress | None, process: Identity | None, *, captured: bool) -> str:
    try:
        async with asyncio.timeout(LIMIT_S):
            if address is not None:
                return await pprof.dump(address)
            if process is None:
                raise ProfileFailed(f"{name} is no process of this host", next_step="py-spy can look into those only.")
            return await pyspy.dump(process, captured=captured)
    except TimeoutError:
        raise ProfileFailed(
            f"no stacks of {name} within {LIMIT_S:g} s", next_step="See the operator's log for what it does."
        ) from None


async def _served(address: AnyAddress) -> str:
    """Return the stacks that the operator itself serves."""
    text = bytearray()
    try:
        async with asyncio.timeout(_SERVED_S), Exchange.opened(address, "") as exchange:
            async for piece in exchange.answer():
                text += piece
                if len(text) > _MAX_BYTES:
                    break
    except TimeoutError:
        raise ProfileFailed(
            f"{address.url} did not answer within {_SERVED_S:g} s", next_step="The operator's event loop stands still."
        ) from None
    except (OSError, ValueError, ProfileFailed) as error:
        said = error.line if isinstance(error, ProfileFailed) else str(error) or type(error).__name__
        raise ProfileFailed(f"{address.url}: {said}", next_step="See stacks.url in its definition.") from error
    return text.decode(errors="replace")


DUMPED_AFTER_S = (2.0, 10.0, 60.0)
"""Ages of a wait at which stacks are dumped, s; each at most once a phase. A short wait may be over before the next
dump; in a long one the first dump may show workers before they reach the place where they wait."""


class BlockedWorkers:
    """Checks at each scrape of the operator whether its workers are blocked, and then dumps its stacks.

    ``dump`` journals the stacks of a process and never raises. It stops the operator for some ms, while it is idle.
    """

    def __init__(self, dump: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self._dump = dump
        self._workers = WorkerHistory()
        self._due = set[float]()
        self._dumping: asyncio.Task[None] | None = None

    def feed(self, record: AnyRecord) -> None:
        """Process the next record of the journal."""
        match record:
            case PhaseStarted():
                self._due = set(DUMPED_AFTER_S)
                self._workers.feed(record)
            case PhaseEnded():
                self._due = set()
                self._workers.feed(record)
                # No wait is followed from one phase to the next.
                self._workers.readings.clear()
            case Scraped(target=target) if target == OPERATOR:
                self._workers.feed(record)
                # CPU clocks are read at a phase's edges: nothing may stop the operator there.
                if not record.edge:
                    self._look()
            case CpuRead(process=process) if process == OPERATOR:
                self._workers.feed(record)
                # A run may take days.
                self._workers.forget(max(DUMPED_AFTER_S))

    async def close(self) -> None:
        """Cancel the running dump, if any."""
        if self._dumping is not None:
            self._dumping.cancel()
            await asyncio.wait({self._dumping})

    def _look(self) -> None:
        long_enough = {seconds for seconds in self._due if self._blocked(seconds)}
        if long_enough and (self._dumping is None or self._dumping.done()):
            self._due -= long_enough
            self._dumping = asyncio.create_task(self._dump(OPERATOR))

    def _blocked(self, seconds: float) -> bool:
        cpu = self._workers.cpu
        return any(blocked_now(readings, cpu, seconds) for readings in self._workers.readings.values())


_LEFT = 20
"""Threads or goroutines more than at first from which on stacks are dumped at the end: fewer are a pool's."""


class Leftovers:
    """Notes whether the operator has many more threads or goroutines than at first: its stacks say what they do."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self.begun = False
        """Whether the first phase has."""

    def feed(self, record: AnyRecord) -> None:
        """Process the next record of the journal."""
        match record:
            case CpuRead(process=process, threads=int(threads)) if process == OPERATOR:
                self._note("threads", threads)
            case Scraped(target=target, samples={"go_goroutines": number}) if target == OPERATOR:
                self._note("go_goroutines", number)
            case PhaseStarted():
                self.begun = True

    def _note(self, what: str, number: float) -> None:
        self._first.setdefault(what, number)
        self._last[what] = number

    @property
    def there(self) -> bool:
        """Whether there are, by the last counts."""
        return any(self._last[what] - first >= _LEFT for what, first in self._first.items())
