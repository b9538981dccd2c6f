"""The logs of an operator's pods in one file, each line prefixed with its pod's name; across container restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import BinaryIO

from ...kube import logs
from ...kube.client import Client
from ...kube.errors import ApiError, BadRequest, NotFound
from .replicas import Replica

_AGAIN_S = 0.5
_LAST_WORDS_S = 5.0


class Logs:
    """Follows the container of each replica from its start until it has ended and its log is complete."""

    def __init__(self, client: Client, namespace: str, container: str, file: BinaryIO) -> None:
        self._client = client
        self._namespace = namespace
        self._container = container
        self._file = file
        self._current: dict[str, str] = {}
        """Pod's uid → id of its current container."""
        self._running: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Container id → task that reads it."""

    def see(self, replica: Replica) -> None:
        """Update a replica: follow a new container."""
        if not replica.container_id:
            return
        if replica.running:
            self._running.add(replica.container_id)
        else:
            self._running.discard(replica.container_id)
        if self._current.get(replica.uid) == replica.container_id:
            return
        self._current[replica.uid] = replica.container_id
        if replica.restarts:
            text = f"--- container restarted ({replica.restarts}): the one before: {replica.last_end}"
            self._write(replica.pod, text)
        task = asyncio.create_task(self._follow(replica.pod, replica.uid, replica.container_id))
        self._tasks[replica.container_id] = task
        task.add_done_callback(lambda done: self._tasks.pop(replica.container_id, None))

    def gone(self, replica: Replica) -> None:
        """Update after the end of a pod."""
        self._running.discard(replica.container_id)

    async def close(self) -> None:
        """Return when the logs of ended containers are complete; running ones are not awaited."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=_LAST_WORDS_S)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, pod: str, uid: str, container_id: str) -> None:
        """Read one container's log to its end."""
        last = broken = ""

        def took(line: logs.Line) -> None:
            nonlocal last, broken
            broken = ""
            # A resumed stream repeats the second in which the last one was disconnected.
            if line.moment > last:
                last = line.moment
                self._write(pod, line.text)

        while True:
            replaced = self._current.get(uid) != container_id
            ended = False
            try:
                await self._stream(pod, took, since=last, previous=replaced)
                ended = True
            except NotFound:
                return
            except BadRequest:
                # It has not started yet; or it was replaced twice meanwhile, and the kubelet keeps one.
                ended = replaced
            except ApiError as error:
                # Retried twice a second: one line per distinct reason.
                if error.message != broken:
                    self._write(pod, f"--- its log broke off: {error.message}")
                broken = error.message
            await asyncio.sleep(_AGAIN_S)
            if ended and (replaced or container_id not in self._running):
                return

    async def _stream(self, pod: str, took: Callable[[logs.Line], None], *, since: str, previous: bool) -> None:
        lines = logs.follow(self._client, self._namespace, pod, self._container, since=since, previous=previous)
        async with aclosing(lines) as stream:
            async for line in stream:
                took(line)

    def _write(self, pod: str, text: str) -> None:
        self._file.write(f"{pod}: {text}\n".encode())
        self._file.flush()
