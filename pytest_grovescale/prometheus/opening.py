"""A Prometheus for the duration of one test: start or connection, target updates, final report of faults, dashboard."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path

import msgspec

from ..atomic_write import json_document
from ..cluster.handle import Cluster
from ..endpoints import Address
from ..errors import ClusterError, PrometheusError, PrometheusWarning
from ..kube.portal import Portal
from . import server
from .answers import Vector
from .api import Api, ScrapedTarget
from .dashboard import dashboard, rows
from .server import Place, Server, place_now
from .statistics import DYING_S, Live

_WRITES = {
    "prometheus_tsdb_wal_writes_failed_total": "samples could not be written",
    "prometheus_tsdb_checkpoint_creations_failed_total": "checkpoints of its log could not be written",
    "prometheus_tsdb_compactions_failed_total": "blocks could not be written",
}
"""Prometheus' own counters that must stay at 0; usual cause: a full disk."""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Descriptions of faults; empty if there are none."""

    lost: list[str] = []
    """Scraped samples that were not stored."""
    unseen: list[str] = []
    """Failed scrapes; expected for a target that was restarted meanwhile."""


async def faults(api: Api, *, since: float) -> Faults:
    """Return the faults since a Unix time (s). Raises PrometheusError."""
    own = await api.own_metrics()
    now = api.now()
    window = f"{max(round(now - since), 1)}s"
    answer = await api.query(f"sum by (job) (count_over_time(up[{window}]) - sum_over_time(up[{window}]))", at=now)
    failed = answer.by("job") if isinstance(answer, Vector) else {}
    counts = {job: int(count) for (job,), count in failed.items()}
    return Faults(lost=lost(own), unseen=unseen(await api.targets(), counts))


def lost(exposition: str) -> list[str]:
    """Return descriptions of lost samples, from a Prometheus' own metrics."""
    found = []
    for name, what in _WRITES.items():
        match = re.search(rf"^{name} (\S+)$", exposition, re.MULTILINE)
        if match and float(match[1]) > 0:
            found.append(f"{what} ({float(match[1]):g} times): see its log, and whether the disk is full")
    return found


def unseen(targets: list[ScrapedTarget], failed: dict[str, int]) -> list[str]:
    """Return the targets with failed scrapes: now, or ``failed`` times (target → number)."""
    found = []
    for target in targets:
        name = target.labels.get("job", target.scrape_url)
        if target.health == "down":
            found.append(f"target {name} is down: {target.last_error}")
        elif failed.get(name):
            found.append(f"{failed[name]} scrapes of target {name} failed; it is up again")
        elif target.health == "unknown":
            found.append(f"target {name} was not scraped yet")
    return found if targets else ["it has no targets"]


Progress = Callable[[str], None]
Report = Callable[[Sequence[str]], None]

_SEEN_S = 30.0
"""Time limit for the first scrapes of new targets, s, plus two intervals; discovery takes up to 5 s of it."""
_LOOK_S = 0.1
_FOLLOW_S = 2.0
"""A port scan of a process with thousands of connections costs up to 10 ms of CPU time."""

_REFUSED = "HTTP status 401"
"""Error text of Prometheus: scrape/scrape.go."""
_AGAIN_S = 5.0
"""Minimum time between two renewals of credentials, s, plus an interval."""

DATA = "data"
DASHBOARD = "dashboard.json"
CONFIGURATION = "prometheus.yml"
_OPENING = (
    "# To look at this run again, in this folder:\n"
    f"#   prometheus --config.file={CONFIGURATION} --storage.tsdb.path={DATA} --storage.tsdb.retention.time=100y\n"
    "global: {}\n"
)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A target to scrape."""

    address: Address
    pid: Callable[[], int | None] | None = None
    """The process that currently serves it; if set, the target is followed to any port that the process listens on."""
    now: Callable[[], Address | None] | None = None
    """Current address, for a target that reports it; None: no address, or unchanged."""
    renew: Callable[[], None] | None = None
    """Renews the address' credential files; called after a rejected scrape. Raises ClusterError."""


Coming = Callable[[], Mapping[str, Address]]
"""Returns the current endpoints of a kind, by name: pods, that come and go."""


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """The test, and the location of its Prometheus' output."""

    run: str
    test: str
    folder: Path
    """Folder for this test's Prometheus in the run's folder; created when something is stored."""
    log: Path
    interval_s: float = 5.0
    """Scrape interval, s; of an existing Prometheus: the interval that the dashboard assumes."""


@contextlib.contextmanager
def there(address: Address, portal: Portal, occasion: Occasion, *, progress: Progress) -> Iterator[Live]:
    """Yield an existing Prometheus. Raises PrometheusError if it does not answer.

    At the end the dashboard is written, with the families that every operator has: others may belong to any program.
    """
    began = time.time()
    with connected(address, portal) as api:
        try:
            yield Live(api)
        finally:
            _write_dashboard(api, portal, occasion, began=began, all_families=False, progress=progress)


@contextlib.contextmanager
def own(
    cluster: Cluster,
    portal: Portal,
    targets: Mapping[str, Target],
    occasion: Occasion,
    *,
    keep: bool,
    progress: Progress,
    report: Report,
    coming: Sequence[Coming] = (),
) -> Iterator[Live]:
    """Yield a Prometheus that is started for the test, and stop it at the end.

    ``coming``: further targets, which come and go.

    Lost samples and failed scrapes are reported at the end: to ``report``, for the recording, and lost samples by a
    PrometheusWarning as well. ``keep``: its data and a dashboard stay in the occasion's folder. Raises PrometheusError,
    BinaryError.
    """
    began = time.time()
    with contextlib.ExitStack() as ending:
        first = _there(coming)
        started = _start(cluster, targets, first, occasion, keep=keep, progress=progress)
        ending.callback(started.stop)
        api = ending.enter_context(connected(started.address, portal))
        portal.run(_seen(api, started, timeout_s=_SEEN_S + 2 * occasion.interval_s))
        follower = portal.submit(_follow(api, started, targets, coming, first))
        ending.callback(_settle, follower)
        try:
            yield Live(api, started)
        finally:
            _report_faults(_faults(api, started, portal, follower, began), progress, report)
            if keep:
                _write_dashboard(api, portal, occasion, began=began, all_families=True, progress=progress)


@contextlib.contextmanager
def connected(address: Address, portal: Portal) -> Iterator[Api]:
    """Yield an open connection. Raises PrometheusError if it fails."""
    api = Api(address)
    portal.run(api.open())
    try:
        yield api
    finally:
        portal.run(api.close())


def _start(
    cluster: Cluster,
    targets: Mapping[str, Target],
    there: Mapping[str, Address],
    occasion: Occasion,
    *,
    keep: bool,
    progress: Progress,
) -> Server:
    private = cluster.directory / server.PROCESS
    data = occasion.folder / DATA if keep else private / DATA
    place = Place(folder=private, data=data, log=occasion.log, interval_s=occasion.interval_s)
    addresses = {name: target.address for name, target in targets.items()} | dict(there)
    try:
        if keep:
            occasion.folder.mkdir(parents=True, exist_ok=True)
            (occasion.folder / CONFIGURATION).write_text(_OPENING, encoding="utf-8")
        return server.start(cluster, addresses, place, progress=progress)
    except BaseException:
        if keep:
            shutil.rmtree(occasion.folder, ignore_errors=True)
        raise


async def _seen(api: Api, started: Server, *, timeout_s: float) -> None:
    """Return when every target was scraped once, successfully or not: from then on there is data."""
    missing = set(started.targets)
    try:
        async with asyncio.timeout(timeout_s):
            while missing:
                found = await api.targets()
                missing -= {target.labels.get("job", "") for target in found if target.health != "unknown"}
                if missing:
                    await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        lines = [f"prometheus has not scraped {', '.join(sorted(missing))} within {timeout_s:g} s; its log ends with:"]
        raise PrometheusError(
            "\n".join([*lines, *(f"  {line}" for line in started.tail())]),
            next_step=f"Its whole log: {started.place.log}.",
        ) from None


def _there(coming: Sequence[Coming]) -> dict[str, Address]:
    return {name: address for tell in coming for name, address in tell().items()}


async def _follow_coming(
    started: Server, coming: Sequence[Coming], last: Mapping[str, Address]
) -> Mapping[str, Address]:
    """Update the targets that were added, moved or removed since ``last``; return the current ones."""
    there = await asyncio.to_thread(_there, coming)
    for name, address in there.items():
        await asyncio.to_thread(started.follow, name, address)
    for name in last.keys() - there.keys():
        await asyncio.to_thread(started.forget, name)
    return there


async def _follow(
    api: Api,
    started: Server,
    targets: Mapping[str, Target],
    coming: Sequence[Coming],
    there: Mapping[str, Address],
) -> None:
    """Update targets that move, come or go, and renew rejected credentials.

    Until cancelled. ``there``: the targets of ``coming`` at its start.
    """
    renewing = {name: target.renew for name, target in targets.items() if target.renew is not None}
    renewed_at = 0.0
    while True:
        await asyncio.sleep(_FOLLOW_S)
        # Prometheus reports a rejection until the next scrape.
        due = time.monotonic() - renewed_at > _AGAIN_S + started.place.interval_s
        if renewing and due and await _renewed(api, renewing):
            renewed_at = time.monotonic()
        there = await _follow_coming(started, coming, there)
        for name, target in targets.items():
            before = started.targets.get(name)
            if target.now is not None and (address := await asyncio.to_thread(target.now)) is not None:
                await asyncio.to_thread(started.follow, name, address)
            pid = target.pid() if target.pid is not None else None
            if before is not None and pid is not None:
                now = await asyncio.to_thread(place_now, before, pid)
                await asyncio.to_thread(started.follow, name, now)


async def _renewed(api: Api, renewing: Mapping[str, Callable[[], None]]) -> bool:
    """Renew the credentials of targets whose last scrape was rejected; return whether there were any."""
    refused: set[str] = set()
    # A failed renewal is retried; a target that stays down is reported at the end, with the reason.
    with contextlib.suppress(ClusterError, PrometheusError):
        found = await api.targets()
        refused = {one.labels.get("job", "") for one in found if _REFUSED in one.last_error} & renewing.keys()
        for name in sorted(refused):
            await asyncio.to_thread(renewing[name])
    return bool(refused)


def _settle(follower: Future[None]) -> None:
    """Wait until the follower has ended; an error that ended it was reported."""
    follower.cancel()
    wait([follower], timeout=5)


def _faults(api: Api, started: Server, portal: Portal, follower: Future[None], began: float) -> Faults:
    try:
        try:
            found = portal.run(faults(api, since=began))
        except PrometheusError:
            started.check(within_s=DYING_S)
            raise
    except PrometheusError as error:
        return Faults(lost=error.message.splitlines())
    if follower.done() and (broken := follower.exception()) is not None:
        # Later moves are not followed; such targets are down, which is reported too.
        found = Faults(lost=[*found.lost, f"targets were followed no longer: {broken}"], unseen=found.unseen)
    return found


def _report_faults(found: Faults, progress: Progress, report: Report) -> None:
    for line in found.unseen:
        progress(f"prometheus: {line}")
    if found.lost or found.unseen:
        report([*found.lost, *found.unseen])
    if found.lost:
        warnings.warn(PrometheusWarning("\n".join(found.lost)), stacklevel=2)


def _write_dashboard(
    api: Api, portal: Portal, occasion: Occasion, *, began: float, all_families: bool, progress: Progress
) -> None:
    try:
        metadata = portal.run(api.metadata())
        names = portal.run(api.names(since=began))
    except PrometheusError as error:
        progress(f"prometheus: no dashboard, since it does not tell what there is: {error.message.splitlines()[0]}")
        return
    content = dashboard(
        rows(metadata, names, own=all_families),
        title=occasion.test,
        run=occasion.run,
        began=began,
        ended=time.time(),
        interval_s=occasion.interval_s,
    )
    occasion.folder.mkdir(parents=True, exist_ok=True)
    (occasion.folder / DASHBOARD).write_bytes(json_document(content))
