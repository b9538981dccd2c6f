"""Defects that work beside the controllers: polls, jobs, a Lease renewed too often, files and threads that stay.

Each runs from the operator's start to its end, and only where its defect is enabled.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from .api_client import ApiClient, ApiError
from .caches import Caches
from .defects import LEASE_STORM, OBJECT_THREADS, OPEN_FILES, PERIODIC, POLL, Defects
from .objects import Object
from .resources import LEASE, POD
from .work_queue import WorkQueue

log = logging.getLogger(__name__)

_POLL_S = 0.4
_PERIOD_S = 5.0
_RENEW_S = 0.2
_LEASE = "grove-reference-operator-heartbeat"
_MOST_FILES = 900
"""Below the usual limit of 1024."""


@asynccontextmanager
async def running(
    api: ApiClient, caches: Caches, sets: WorkQueue, namespace: str, defects: Defects
) -> AsyncIterator[None]:
    """Run the enabled defects while the context is open."""
    files: list[int] = []
    tasks = []
    if POLL in defects:
        tasks.append(asyncio.create_task(_poll(api)))
    if PERIODIC in defects:
        tasks.append(asyncio.create_task(_resync(api, caches, sets)))
    if LEASE_STORM in defects:
        tasks.append(asyncio.create_task(_renew(api, namespace)))
    if OPEN_FILES in defects:
        caches.pods.store.on_change(lambda old, new: _opened(files, old, new))
    ended = threading.Event()
    if OBJECT_THREADS in defects:
        caches.cliques.store.on_change(lambda old, new: _followed(ended, old, new))
    try:
        yield
    finally:
        ended.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for file in files:
            os.close(file)


async def _poll(api: ApiClient) -> None:
    while True:
        await _list_pods(api)
        await asyncio.sleep(_POLL_S)


async def _resync(api: ApiClient, caches: Caches, sets: WorkQueue) -> None:
    while True:
        await asyncio.sleep(_PERIOD_S)
        await _list_pods(api)
        for pcs in caches.sets.store:
            sets.add(pcs.key)


async def _list_pods(api: ApiClient) -> None:
    try:
        await api.get(f"{POD.collection('')}?limit=500")
    except (ApiError, TimeoutError) as error:
        log.warning("list of pods: %s", error)


async def _renew(api: ApiClient, namespace: str) -> None:
    path = LEASE.path(namespace, _LEASE)
    body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": {"name": _LEASE, "namespace": namespace}}
    while True:
        try:
            lease = dict(msgspec.json.decode(await api.get(path)))
            await api.put(path, {**lease, "spec": {"holderIdentity": str(asyncio.get_running_loop().time())}})
        except ApiError as error:
            if error.not_found:
                await api.post(LEASE.collection(namespace), body)
        await asyncio.sleep(_RENEW_S)


def _opened(files: list[int], old: Object | None, new: Object | None) -> None:
    if old is None and new is not None and len(files) < _MOST_FILES:
        files += [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]


def _followed(ended: threading.Event, old: Object | None, new: Object | None) -> None:
    if old is None and new is not None:
        threading.Thread(target=_follow, args=[ended], name=f"follow {new.name}", daemon=True).start()


def _follow(ended: threading.Event) -> None:
    ended.wait()
