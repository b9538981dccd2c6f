"""All watches of a recording: opened when a condition first needs them, kept open until the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from .. import redaction
from ..errors import RecordingError, UsageError
from ..kube.client import Client
from ..kube.errors import BadRequest, Forbidden, Invalid, NotFound, Unauthorized
from .conditions import WatchSpec
from .fieldpath import Key, parse
from .ledger import Ledger
from .stores import covers
from .watching import Watch


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
        serving = [self._serving(spec) for spec in _merged(specs)]
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

    async def close(self) -> None:
        """Close all streams."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    def _serving(self, spec: WatchSpec) -> Watch:
        for watch in self._watches.values():
            if covers(watch.spec, spec):
                return watch
        check_readable(spec)
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


def check_readable(spec: WatchSpec) -> None:
    """Raise UsageError for a watch that would record a Secret's content."""
    if spec.resource != "secrets":
        return
    for path in spec.fields:
        steps = parse(path)
        names = [step.name for step in steps if isinstance(step, Key)]
        # One of kubectl's annotations holds the whole object, data included.
        if names[0] in ("data", "stringData") or names == ["metadata"] or names[:2] == ["metadata", "annotations"]:
            raise UsageError(
                f"a condition reads {path!r} of Secrets; their content never goes into a recording",
                next_step="Test metadata.name, metadata.labels or type instead.",
            )


def _merged(specs: Iterable[WatchSpec]) -> list[WatchSpec]:
    """Return one spec for those that differ only in their fields: the union of all fields."""
    merged: dict[tuple[str, str, str], WatchSpec] = {}
    for spec in specs:
        key = (spec.path, spec.label_selector, spec.field_selector)
        fields = set(spec.fields) | set(merged[key].fields if key in merged else ())
        merged[key] = msgspec.structs.replace(spec, fields=tuple(sorted(fields)))
    return list(merged.values())


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
    if isinstance(error, Forbidden | Unauthorized):
        step = "Give the recorder's identity the right to list and watch it."
    elif isinstance(error, NotFound):
        step = "Check the kind's name, and that its CRD is installed before the phase begins."
    elif isinstance(error, BadRequest | Invalid):
        step = "Check the label and field selectors."
    message = f"{watch.spec.resource} cannot be watched: {redaction.text(error.message)}"
    return RecordingError(message, next_step=step)
