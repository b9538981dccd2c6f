"""Stall detection: of the recorder by its heartbeat, of other processes by their state, of servers by probes.

A stall distorts figures without a trace: a figure that could not be measured looks like a small one, and an event that
was seen late looks like a late event.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..kube.client import Client
from ..kube.errors import ApiError
from ..procfs import Identity, KeptFiles
from .protocol import StallSeen
from .record_writer import Ledger
from .records import WRITES, AnyRecord, CpuRead, ObjectSeen, Request, Stalled, StallKind

LATE_NS = 1_000_000_000
"""A heartbeat that is later than this, or an answer that takes this much longer than usual, is a stall, ns."""

PROBE_S = 1.0
"""Interval between probes of a server, s: one small request each, excluded from the audit log's figures."""

API_SERVER, ETCD = "kube-apiserver", "etcd"
_PATHS = {API_SERVER: "/version", ETCD: "/livez"}
"""Paths that every authenticated user may read by default (ClusterRole ``system:public-info-viewer``)."""

PROBES = frozenset(_PATHS.values())
"""The paths of all probes."""

_ANSWER_S = 30.0
_USUAL_OF = 20
_READS_KEPT = 120


class Clocks(NamedTuple):
    """Clocks of this process, ns."""

    boot: int
    """CLOCK_BOOTTIME - CLOCK_MONOTONIC: increases while the machine is suspended."""
    ran: int
    """Its CPU time, plus the time that its main thread was runnable without a core."""


class OwnClocks:
    """Reads the clocks of this process."""

    def __init__(self) -> None:
        self._kept = KeptFiles()
        self._waits = f"/proc/self/task/{os.getpid()}/schedstat"

    def __call__(self) -> Clocks:
        fields = self._kept.read(self._waits).split()
        waited = int(fields[1]) if len(fields) == 3 else 0
        boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        return Clocks(boot, time.process_time_ns() + waited)


class Heartbeat:
    """The recorder's heartbeat: `beat` is called periodically; a missed beat is a stall of the recorder."""

    def __init__(self, ledger: Ledger, period_ns: int, clocks: Callable[[], Clocks] | None = None) -> None:
        self._ledger = ledger
        self._period = period_ns
        self._clocks = clocks or OwnClocks()
        self._last = ledger.now()
        self._before = self._clocks()
        self.on_stall: Callable[[], None] = lambda: None
        """Called when a stall is over, before it is journaled: other delays were the recorder's own."""

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
    """The measured processes that are stopped, checked at every beat."""

    def __init__(self, ledger: Ledger, running: Callable[[], Mapping[str, Identity]]) -> None:
        self._ledger = ledger
        self._running = running
        self._since: dict[str, tuple[int, int, bool]] = {}
        """Name → pid, when it was first seen stopped, whether that is journaled."""
        self._kept = KeptFiles()

    def look(self) -> None:
        """Journal the processes that were stopped at two checks in a row, and those that run again."""
        now = self._ledger.now()
        running = self._running()
        stopped = {name: process.pid for name, process in running.items() if self._is_stopped(process)}
        self._kept.close_others()
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
        """Journal the processes that are still stopped, up to now: a phase ends."""
        now = self._ledger.now()
        for name, (_, since, known) in self._since.items():
            if known:
                journal(self._ledger, name, "stopped", since, now - since)

    def _is_stopped(self, process: Identity) -> bool:
        """Return whether it is stopped by a signal; state t (a profiler reads its stack) is no stall."""
        stat = self._kept.read(f"/proc/{process.pid}/stat")
        # Behind the name; all other fields would take longer to read than the file.
        state = stat.rfind(b")") + 2
        return stat[state : state + 1] == b"T"


class Server:
    """One probed server. It has stalled while a probe is pending and nothing else shows that it works.

    A server that runs, or waits for a core, for most of that time is slow: that is contention, and reported as such.

    ``through``: the server that forwards its probes; while that one is silent, nothing is known of this one.
    """

    def __init__(self, ledger: Ledger, name: str, *, through: Server | None = None) -> None:
        self.name = name
        self._ledger = ledger
        self._through = through
        self.on_stall: Callable[[], None] = lambda: None
        """Called when a stall of this server has been journaled."""
        self._asked: int | None = None
        """When the first unanswered probe was sent; None: the last probe was answered."""
        self._alive = 0
        self._took: deque[int] = deque(maxlen=_USUAL_OF)
        """Durations of the last answers, ns."""
        self._ran: deque[tuple[int, int]] = deque(maxlen=_READS_KEPT)
        """When its clocks were read, and their sum, ns."""

    def asked(self) -> None:
        """Note that a probe was sent."""
        self._asked = self._ledger.now() if self._asked is None else self._asked

    def answered(self, took_ns: int) -> None:
        """Note an answer, the best proof that it works."""
        self.works()
        self._asked = None
        self._took.append(took_ns)

    def works(self) -> None:
        """Note a sign of activity, and journal the stall that it ends."""
        if self._asked is not None:
            self.report()
        self._alive = self._ledger.now()

    def ran(self, at: int, ran_ns: int) -> None:
        """Note the sum of its CPU time and its threads' wait for a core."""
        self._ran.append((at, ran_ns))

    def forgive(self) -> None:
        """Start over: an answer could not have been received."""
        self._asked = None if self._asked is None else self._ledger.now()

    def report(self) -> None:
        """Journal a stall up to now, if there is one."""
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
            # A server that has never answered may not exist.
            return None
        began = max(self._asked, self._alive)
        late = self._ledger.now() - began - LATE_NS
        if late <= 0 or late <= round(statistics.median(self._took)):
            return None
        return began if not self._is_slow(began) else None

    def _is_slow(self, began: int) -> bool:
        """Return whether it has run, or waited for a core, for most of the time since; False: no, or unknown."""
        before = [read for read in self._ran if read[0] <= began]
        if not before or before[-1] == self._ran[-1]:
            return False
        (first, ran), (last, runs) = before[-1], self._ran[-1]
        return runs - ran > (last - first) // 2


class Probes:
    """Probes the API server, and etcd through it, periodically."""

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
        """Take signs of activity from journaled records."""
        match record:
            case ObjectSeen(initial=False):
                self._works(API_SERVER, ETCD)
            case Request(verb=verb, code=code) if verb in WRITES and 200 <= code < 300:
                self._works(API_SERVER, ETCD)
            case Request():
                self._works(API_SERVER)
            case CpuRead(process=process) if process in self._servers:
                self._servers[process].ran(record.at, record.cpu_ns + (record.waiting_ns or 0))

    def report(self) -> None:
        """Journal the stalls that continue, up to now: a phase ends."""
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
                    # Not allowed, or no such health check: nothing is known of it.
                    return
                if server.name == ETCD and not error.code:
                    # The API server does not answer: nothing is known of etcd.
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
        """Journal a stall of the recorder first: after it, the servers' answers were not late."""
        if self._heartbeat.is_late(self._ledger.now()):
            self._heartbeat.beat()

    def _forgive(self) -> None:
        for server in self._servers.values():
            server.forgive()


def journal(ledger: Ledger, process: str, kind: StallKind, began: int, length_ns: int) -> None:
    """Journal a stall, and notify the harness."""
    ledger.add(Stalled(at=ledger.now(), process=process, kind=kind, began=began, length_ns=length_ns))
    ledger.tell(StallSeen(process=process, kind=kind, seconds=length_ns / 1e9))
