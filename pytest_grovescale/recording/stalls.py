"""What did not run for a while: the recorder by its heartbeat, other processes by their state, servers by probes.

A stall falsifies what is measured in it, and says nothing of itself: a figure that could not be taken looks like one
that is small, and a moment that was seen late like one that came late.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..cluster.processes import read_bytes
from ..kube.client import Client
from ..kube.errors import ApiError
from .ledger import Ledger
from .processes import Identity
from .protocol import StallSeen
from .records import AnyRecord, CpuRead, ObjectSeen, Request, Stalled, StallKind

LATE_NS = 1_000_000_000
"""A heartbeat that is later than this, and an answer that takes so much longer than usual, is a stall."""

PROBE_S = 1.0
"""Between two probes of a server: one small request, which is left out of the audit log's figures."""

API_SERVER, ETCD = "kube-apiserver", "etcd"
_PATHS = {API_SERVER: "/version", ETCD: "/livez"}
"""Which every authenticated user may read by default (ClusterRole ``system:public-info-viewer``)."""

PROBES = frozenset(_PATHS.values())
"""The paths of all probes."""

_ANSWER_S = 30.0
_USUAL_OF = 20
_READS_KEPT = 120
_WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Clocks(NamedTuple):
    """Of this process, ns."""

    boot: int
    """CLOCK_BOOTTIME - CLOCK_MONOTONIC: grows while the machine is suspended."""
    ran: int
    """Its CPU time, and how long its main thread was runnable without a core."""


def _clocks() -> Clocks:
    fields = read_bytes(f"/proc/self/task/{os.getpid()}/schedstat").split()
    waited = int(fields[1]) if len(fields) == 3 else 0
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return Clocks(boot, time.process_time_ns() + waited)


class Heartbeat:
    """The recorder's own: `beat` is called in a steady rhythm; what it misses is a stall of the recorder."""

    def __init__(self, ledger: Ledger, period_ns: int, clocks: Callable[[], Clocks] = _clocks) -> None:
        self._ledger = ledger
        self._period = period_ns
        self._clocks = clocks
        self._last = ledger.now()
        self._before = clocks()
        self.on_stall: Callable[[], None] = lambda: None
        """Called when one is over, before it is journaled: what else seemed late was not."""

    def is_late(self, at: int) -> bool:
        """Return whether the next beat is late by more than `LATE_NS`."""
        return at - self._last > self._period + LATE_NS

    def beat(self) -> None:
        """Journal a stall if the last beat was too long ago, or the machine was suspended since."""
        now, clocks = self._ledger.now(), self._clocks()
        last, before = self._last, self._before
        self._last, self._before = now, clocks
        suspended = clocks.boot - before.boot
        if suspended > LATE_NS:
            self.on_stall()
            journal(self._ledger, "machine", "suspended", last, suspended)
        length = now - last
        if length > self._period + LATE_NS:
            self.on_stall()
            busy = clocks.ran - before.ran > length // 2
            journal(self._ledger, "recorder", "busy" if busy else "late", last, length)


class StoppedProcesses:
    """Which of the measured processes are stopped, seen at every beat."""

    def __init__(self, ledger: Ledger, running: Callable[[], Mapping[str, Identity]]) -> None:
        self._ledger = ledger
        self._running = running
        self._since: dict[str, tuple[int, int, bool]] = {}
        """Name → pid, when it was first seen stopped, whether that is journaled."""

    def look(self) -> None:
        """Journal who is stopped, and was at the look before; and who no longer is."""
        now = self._ledger.now()
        running = self._running()
        stopped = {name: process.pid for name, process in running.items() if _is_stopped(process)}
        for name, (pid, since, known) in list(self._since.items()):
            if stopped.get(name) != pid:
                del self._since[name]
                if known:
                    journal(self._ledger, name, "stopped", since, now - since)
        for name, pid in stopped.items():
            if name not in self._since:
                self._since[name] = pid, now, False
            elif not self._since[name][2]:
                self._since[name] = pid, self._since[name][1], True
                journal(self._ledger, name, "stopped", self._since[name][1], now - self._since[name][1])

    def report(self) -> None:
        """Journal those that still are, up to now: a phase ends."""
        now = self._ledger.now()
        for name, (_, since, known) in self._since.items():
            if known:
                journal(self._ledger, name, "stopped", since, now - since)


def _is_stopped(process: Identity) -> bool:
    """Return whether it is stopped by a signal; a profiler that looks at its stack (state t) is no stall."""
    text = read_bytes(f"/proc/{process.pid}/stat")
    return bool(text) and text[text.rindex(b")") + 2 :].startswith(b"T")


class Server:
    """One server that is probed. It has stalled while a probe waits and nothing else shows that it works.

    One that runs, or waits for a core, for most of that time is slow: that is contention, and reported as such.

    ``through``: the one that hands its probes on, whose silence says nothing of it.
    """

    def __init__(self, ledger: Ledger, name: str, *, through: Server | None = None) -> None:
        self.name = name
        self._ledger = ledger
        self._through = through
        self.on_stall: Callable[[], None] = lambda: None
        """Called when a stall of it has been journaled."""
        self._asked: int | None = None
        """When the first probe that got no answer was sent; None: the last one got one."""
        self._alive = 0
        self._took: deque[int] = deque(maxlen=_USUAL_OF)
        """Of the last answers, ns."""
        self._ran: deque[tuple[int, int]] = deque(maxlen=_READS_KEPT)
        """When its clocks were read, and what they said together, ns."""

    def asked(self) -> None:
        """Note that a probe was sent."""
        self._asked = self._ledger.now() if self._asked is None else self._asked

    def answered(self, took_ns: int) -> None:
        """Note an answer, the best sign of life."""
        self.works()
        self._asked = None
        self._took.append(took_ns)

    def works(self) -> None:
        """Note a sign of life, and journal the stall that it ends."""
        self.report()
        self._alive = self._ledger.now()

    def ran(self, at: int, ran_ns: int) -> None:
        """Note what its CPU clock says, and for how long its threads have waited for a core, together."""
        self._ran.append((at, ran_ns))

    def forgive(self) -> None:
        """Begin again: an answer could not have been heard."""
        self._asked = None if self._asked is None else self._ledger.now()

    def report(self) -> None:
        """Journal a stall up to now, if it is one."""
        began = self._silent_since()
        if began is None:
            return
        if self._through is not None and self._through._silent_since() is not None:
            self.forgive()
            return
        journal(self._ledger, self.name, "silent", began, self._ledger.now() - began)
        self.on_stall()

    def _silent_since(self) -> int | None:
        """Return since when it has been silent for too long; None: it has not."""
        if self._asked is None or not self._took:
            # One that has never answered is not known to be there.
            return None
        began = max(self._asked, self._alive)
        late = self._ledger.now() - began > LATE_NS + round(statistics.median(self._took))
        return began if late and not self._is_slow(began) else None

    def _is_slow(self, began: int) -> bool:
        """Return whether it has run, or waited for a core, for most of the time since; False: not, or not known."""
        before = [read for read in self._ran if read[0] <= began]
        if not before or before[-1] == self._ran[-1]:
            return False
        (first, ran), (last, runs) = before[-1], self._ran[-1]
        return runs - ran > (last - first) // 2


class Probes:
    """Asks the API server, and etcd through it, in a slow rhythm, whether they work."""

    def __init__(self, client: Client, ledger: Ledger, heartbeat: Heartbeat) -> None:
        self._client = client
        self._ledger = ledger
        self._heartbeat = heartbeat
        api_server = Server(ledger, API_SERVER)
        etcd = Server(ledger, ETCD, through=api_server)
        api_server.on_stall = etcd.forgive
        self._servers = {server.name: server for server in (api_server, etcd)}
        heartbeat.on_stall = self._forgive

    async def run(self) -> None:
        """Probe until cancelled."""
        await asyncio.gather(*(self._probe(server) for server in self._servers.values()))

    def feed(self, record: AnyRecord) -> None:
        """Take signs of life from what is journaled."""
        match record:
            case ObjectSeen(initial=False):
                self._works(API_SERVER, ETCD)
            case Request(verb=verb, code=code) if verb in _WRITES and 200 <= code < 300:
                self._works(API_SERVER, ETCD)
            case Request():
                self._works(API_SERVER)
            case CpuRead(process=process) if process in self._servers:
                self._servers[process].ran(record.at, record.cpu_ns + (record.waiting_ns or 0))

    def report(self) -> None:
        """Journal what has stalled and still does, up to now: a phase ends."""
        for server in self._servers.values():
            server.report()

    async def _probe(self, server: Server) -> None:
        while True:
            await asyncio.sleep(PROBE_S)
            server.asked()
            began = self._ledger.now()
            try:
                await self._client.request("GET", _PATHS[server.name], timeout=_ANSWER_S)
            except ApiError as error:
                refused = 400 <= error.code < 500
                if server.name == ETCD and refused:
                    # Not allowed to ask, or no such check: nothing is known of it.
                    return
                if server.name == ETCD and not error.code:
                    # The API server does not answer: that says nothing of etcd.
                    server.forgive()
                    continue
                if not refused:
                    continue
            self._punctual()
            server.answered(self._ledger.now() - began)

    def _works(self, *names: str) -> None:
        self._punctual()
        for name in names:
            self._servers[name].works()

    def _punctual(self) -> None:
        """After a stall of the recorder its heartbeat comes first: servers were not late, it was."""
        if self._heartbeat.is_late(self._ledger.now()):
            self._heartbeat.beat()

    def _forgive(self) -> None:
        for server in self._servers.values():
            server.forgive()


def journal(ledger: Ledger, process: str, kind: StallKind, began: int, length_ns: int) -> None:
    """Journal a stall, and tell the harness."""
    ledger.add(Stalled(at=ledger.now(), process=process, kind=kind, began=began, length_ns=length_ns))
    ledger.tell(StallSeen(process=process, kind=kind, seconds=length_ns / 1e9))
