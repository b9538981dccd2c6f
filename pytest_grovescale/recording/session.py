"""One recording in progress: the sources, and the periodic tasks that drive them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Literal

import msgspec

from .. import redaction
from ..kube.client import Client
from ..procfs import Identity, started_ticks
from . import protocol, records
from .audit_log import AuditLog
from .followed_objects import FollowedKinds, PodFollowers
from .injected_faults import InjectedFaults
from .journal import Writer
from .phases import Phases
from .process_table import Roster
from .profiling.captures import Captures
from .profiling.pprof import at_leader
from .profiling.stacks import BlockedWorkers, Leftovers
from .protocol import Answer, RecorderConfig
from .record_writer import Ledger, RecorderClock
from .scraping.scrapers import Scrapers
from .stalls import Heartbeat, Probes, StoppedProcesses
from .watches import Watches
from .worker_history import OPERATOR

BEAT_S = 0.1
"""Interval between polls of the audit log and the processes file, each followed by a write of the journal, s."""

PROGRESS_S = 0.5

RECORDER = "recorder"
"""The recorder's name as a process, and its role in the audit log."""

Reason = Literal["stopped", "controller-gone", "interrupted", "failed"]
"""Why a recording ends; see ``records.Closed``."""

_INTERRUPTIONS: dict[Reason, str] = {
    "stopped": "the recording was stopped in the middle of it",
    "controller-gone": "the test process is gone",
    "interrupted": "the run was interrupted",
    "failed": "the recorder failed",
}


class Session:
    """One recording in progress: the sources, and the tasks that drive them."""

    def __init__(self, config: RecorderConfig, client: Client, writer: Writer, say: Callable[[Answer], None]) -> None:
        self.config = config
        self.clock = RecorderClock()
        self.ledger = Ledger(writer, self.clock, say)
        self.ledger.add(msgspec.structs.replace(config.opened, at=self.clock.now()))
        self.ledger.flush()
        self.watches = Watches(client, self.ledger)
        users = config.opened.identities
        self.kinds = FollowedKinds(
            self.watches,
            self.ledger,
            operator=users.get("operator", ""),
            harness=users.get("harness", ""),
            recorder=users.get(RECORDER, ""),
        )
        self.audit = (
            AuditLog(
                Path(config.audit_log),
                client,
                self.ledger,
                prober=users.get(RECORDER, ""),
                created=self.kinds.created,
            )
            if config.audit_log
            else None
        )
        self.injected = InjectedFaults(Path(config.fault_log), self.ledger) if config.fault_log else None
        extra = {name: Identity(pid, ticks) for name, (pid, ticks) in config.extra_processes.items()}
        self.roster = Roster(
            self.ledger,
            file=Path(config.processes_file) if config.processes_file else None,
            wanted=[target.name for target in config.processes],
            extra={**extra, RECORDER: Identity(os.getpid(), started_ticks(os.getpid()))},
        )
        self.captures = Captures(
            self.ledger,
            self.roster.process,
            run_folder=Path(config.run_folder) if config.run_folder else None,
            name=Path(config.journal).stem,
            reach=lambda target: at_leader(target, self.followed.leader, client.access),
        )
        self.roster.on_seen, self.roster.on_gone = self.captures.seen, self.captures.gone
        self.blocked = BlockedWorkers(self.captures.dump)
        self.leftovers = Leftovers()
        self.heartbeat = Heartbeat(self.ledger, round(BEAT_S * 1e9))
        self.stopped = StoppedProcesses(self.ledger, lambda: self.roster.others(RECORDER))
        self.probes = Probes(client, self.ledger, self.heartbeat)
        self.ledger.on_record = self._on_record
        self.followed = PodFollowers(client, self.ledger)
        self.scrapers = Scrapers(
            client,
            self.ledger,
            process=self.roster.process,
            leader=self.followed.leader,
            interval=config.scrape_interval_s,
        )
        for target in config.scrape_targets:
            self.scrapers.add(target)
        self.phases = Phases(
            self.ledger,
            client,
            watches=self.watches,
            roster=self.roster,
            scrapers=self.scrapers,
            captures=self.captures,
            audit=self.audit,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, broken: Callable[[], None]) -> None:
        """Start the background tasks; ``broken`` is called when one of them fails."""
        rhythms: list[tuple[float, Callable[[], None]]] = [
            (BEAT_S, self._beat),
            (PROGRESS_S, self.phases.progress),
            (self.config.timeline_s, self._timeline),
        ]
        for seconds, act in rhythms:
            self._run(_every(seconds, act), broken)
        self._run(self._timers(), broken)
        self._run(self.probes.run(), broken)
        self.scrapers.run()

    def _run(self, work: Coroutine[None, None, None], broken: Callable[[], None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(lambda done: None if done.cancelled() else broken())
        self._tasks.append(task)

    async def close(self, reason: Reason, message: str = "") -> None:
        """Stop all sources, process their remaining data, and close the journal."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        faults = [r for r in results if isinstance(r, Exception)]
        for fault in faults:
            traceback.print_exception(fault)
        await self.watches.close()
        await self.followed.close()
        await self.blocked.close()
        self.ledger.tick()
        self.phases.interrupt(message if reason == "interrupted" and message else _INTERRUPTIONS[reason])
        await self.captures.close()
        self.roster.read()
        if self.audit is not None:
            if reason == "stopped":
                await self.audit.drain()
            self.audit.close()
        if self.injected is not None:
            self.injected.close()
        self.roster.close()
        await self.scrapers.close()
        if faults:
            reason, message = "failed", redaction.text(f"{type(faults[0]).__name__}: {faults[0]}")
        self.ledger.close(records.Closed(at=self.clock.now(), reason=reason, message=message))

    async def obey(self, command: protocol.Command) -> list[records.LateObject]:
        """Execute one command of the harness; return late objects, if any."""
        match command:
            case protocol.OpenWatches():
                await self.watches.ensure(command.specs, command.timeout)
            case protocol.BeginPhase():
                if not self.leftovers.begun:
                    await self.captures.dump(OPERATOR, records.STACKS_FIRST, served_only=True)
                await self.phases.begin(command)
                self.kinds.begin()
            case protocol.EndPhase():
                self._report_stalls()
                if self.injected is not None:
                    self.injected.poll()
                return await self.phases.end(command)
            case protocol.Explain():
                return await self.phases.late()
            case protocol.AddMark(label=label, state=state, detail=detail, count=count):
                detail = redaction.text(detail)
                self.ledger.add(records.Mark(at=self.clock.now(), label=label, state=state, detail=detail, count=count))
            case protocol.AddLines(source=source, lines=lines):
                self.ledger.add(records.Lines(at=self.clock.now(), source=source, lines=redaction.lines(lines)))
            case protocol.Conceal(secrets=secrets):
                redaction.conceal(*secrets)
            case protocol.QuietPhase():
                await self.scrapers.halt()
            case protocol.AddTarget(target=wanted):
                self.scrapers.add(wanted)
            case protocol.RemoveTarget(name=name):
                self.scrapers.remove(name)
            case protocol.ScrapeOnce(name=name):
                await self.scrapers.once(name)
            case protocol.DeclareCheck(check=check, source=source, enforced=enforced):
                self.ledger.add(
                    records.CheckDeclared(at=self.clock.now(), check=check, source=source, enforced=enforced)
                )
            case protocol.EndTest(outcome=outcome, message=message):
                self.ledger.add(
                    records.TestEnded(at=self.clock.now(), outcome=outcome, message=redaction.text(message))
                )
            case protocol.AddProfileTarget(target=target):
                self.captures.add(target)
            case protocol.AlsoWatch(specs=specs):
                self.phases.also_watch(specs)
            case protocol.FollowPods(pods=pods):
                await self.followed.add(pods)
            case protocol.AddIncident(kind=kind, subject=subject, detail=detail):
                detail = redaction.text(detail)
                self.ledger.add(records.Incident(at=self.clock.now(), kind=kind, subject=subject, detail=detail))
            case protocol.MeasureFile(path=path):
                self.roster.add_file(Path(path))
            case protocol.Settle(timeout=timeout, edge=edge):
                if self.audit is not None:
                    await self.audit.drain()
                await self.kinds.settled(timeout)
                self.ledger.add(records.Mark(at=self.clock.now(), label=edge))
                self.roster.read(edge)
                await self.scrapers.edge(edge)
                if edge == records.SETTLED:
                    # All is measured: what is left may be named. Tasks are in no count: only the stacks show them.
                    await self.captures.dump(OPERATOR, records.STACKS_LEFT, served_only=not self.leftovers.there)
                self.scrapers.run(rest=True)
            case protocol.Flush():
                self._report_stalls()
                self._beat()
            case protocol.Stop():
                pass
        return []

    def _on_record(self, record: records.AnyRecord) -> None:
        self.probes.feed(record)
        # Nearly all records are one of these two.
        if isinstance(record, records.ObjectSeen):
            self.phases.counted()
        elif not isinstance(record, records.Request):
            self.blocked.feed(record)
            self.leftovers.feed(record)
            if isinstance(record, records.Mark) and (record.label, record.state) == (records.RESTART, "end"):
                self.phases.calms_down()

    def _report_stalls(self) -> None:
        """Journal the stalls that continue: the open phase is about to be judged."""
        self.heartbeat.beat()
        self.stopped.report()
        self.probes.report()

    def _beat(self) -> None:
        self.heartbeat.beat()
        self.stopped.look()
        if self.audit is not None:
            self.audit.poll()
        if self.injected is not None:
            self.injected.poll()
        self.roster.look()
        self.ledger.flush()

    def _timeline(self) -> None:
        offset = self.clock.step()
        if offset is not None:
            self.ledger.add(records.ClockStep(at=self.clock.now(), offset_ns=offset))
        self.roster.read()

    async def _timers(self) -> None:
        """Process timers and holds when they are due."""
        while True:
            self.phases.begun.clear()
            due = self.phases.next_due()
            wait = None if due is None else max((due - self.clock.now()) / 1e9, 0.0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.phases.begun.wait(), wait)
            self.ledger.tick()
            self.phases.look()


async def _every(seconds: float, act: Callable[[], None]) -> None:
    """Act periodically; missed beats are skipped."""
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    while True:
        await asyncio.sleep(max(due - loop.time(), 0))
        act()
        due = max(due + seconds, loop.time())
