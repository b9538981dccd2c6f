"""All watches of a recording: opened on demand, each serving every later spec that it covers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from .. import redaction
from ..errors import RecordingError
from ..kube import errors
from ..kube.client import Client
from .conditions import WatchSpec, is_builtin, merged
from .record_writer import Ledger
from .watch import Watch


class Watches:
    """Opens watches; an open watch serves every later spec that it covers."""

    def __init__(self, client: Client, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self._watches: dict[str, Watch] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._made = 0

    async def ensure(self, specs: Iterable[WatchSpec], within: float) -> None:
        """Return when every watch is live.

        Raises UsageError for a path that cannot be read or may not be recorded, RecordingError with the API's
        message when a watch is refused or not live ``within`` seconds; that watch is dropped.
        """
        serving = [self._serving(spec) for spec in merged(specs)]
        for watch in serving:
            if not is_builtin(watch.spec.resource):
                # What an operator reconciles: the log says too late for the first of them that it is followed.
                watch.compare()
        waiting = [asyncio.ensure_future(_live_or_ended(watch, self._tasks[watch.watch])) for watch in serving]
        if not waiting:
            return
        try:
            await asyncio.wait(waiting, timeout=within)
        finally:
            for waiter in waiting:
                waiter.cancel()
        late = [watch for watch in serving if not watch.live.is_set()]
        if late:
            await self._give_up(late)
            raise _not_live(late[0], within)

    def quiet_ns(self) -> int:
        """Return the time since a watched object was last seen to change, ns."""
        return self._ledger.now() - max((watch.changed_at for watch in self._watches.values()), default=0)

    def follow(self, spec: WatchSpec) -> Watch:
        """Open a watch, or return one that covers it, without waiting for it; one that is refused stays empty.

        How its objects change is kept from here on.
        """
        watch = self._serving(spec)
        watch.compare()
        return watch

    async def close(self) -> None:
        """Close all streams."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    def _serving(self, spec: WatchSpec) -> Watch:
        for watch in self._watches.values():
            if watch.spec.covers(spec):
                return watch
        spec.check_readable()
        self._made += 1
        watch = Watch(f"w{self._made}", spec, self._client, self._ledger)
        self._watches[watch.watch] = watch
        task = asyncio.create_task(watch.run(), name=f"watch {spec.path}")
        task.add_done_callback(lambda done: self._ended(watch, done))
        self._tasks[watch.watch] = task
        return watch

    def _ended(self, watch: Watch, task: asyncio.Task[None]) -> None:
        # A bug here must not look like a quiet cluster.
        if not task.cancelled() and (error := task.exception()) is not None:
            message = f"{watch.spec.path}: {type(error).__name__}: {error}"
            self._ledger.failed(f"watch:{watch.watch}", message, fatal=True)

    async def _give_up(self, watches: list[Watch]) -> None:
        for watch in watches:
            task = self._tasks.pop(watch.watch)
            task.cancel()
            await asyncio.wait({task})
            del self._watches[watch.watch]


async def _live_or_ended(watch: Watch, task: asyncio.Task[None]) -> None:
    live = asyncio.ensure_future(watch.live.wait())
    try:
        await asyncio.wait({live, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        live.cancel()


def _not_live(watch: Watch, within: float) -> RecordingError:
    error = watch.refused or watch.trouble
    if error is None:
        return RecordingError(
            f"the watch on {watch.spec.path} did not deliver all present objects within {within:g} s",
            next_step="Narrow it with a label selector, or give it more time.",
        )
    step = "Check that the API server is up."
    if isinstance(error, errors.Forbidden | errors.Unauthorized):
        step = "Give the recorder's identity the right to list and watch it."
    elif isinstance(error, errors.NotFound):
        step = "Check the kind's name, and that its CRD is installed before the phase begins."
    elif isinstance(error, errors.BadRequest | errors.Invalid):
        step = "Check the label and field selectors."
    message = f"{watch.spec.resource} cannot be watched: {redaction.text(error.message)}"
    return RecordingError(message, next_step=step)
