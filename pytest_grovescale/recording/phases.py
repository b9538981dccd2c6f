"""Phases in the recorder: their edges, their milestones, and when they are complete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from ..errors import UsageError
from ..kube.client import Client
from . import timeout_diagnosis
from .audit_log import AuditLog
from .conditions import Condition, Count, WatchSpec, compile_predicate, watches
from .evaluation import count_leaves
from .process_table import Roster
from .profiling.captures import Captures
from .protocol import BeginPhase, EndPhase, MilestoneReached, PhaseComplete, Progress
from .record_writer import Ledger
from .records import LateObject, MilestoneDeclared, MilestoneMet, PhaseEnded, PhaseStarted
from .scraping.scrapers import Scrapers
from .watches import Watches

OPERATOR = "operator"
"""The target whose series are held against the objects."""

_COUNTED = 6
"""Objects of a milestone from which on a third of them is a number of its own."""

_CALM_NS = 2_000_000_000
"""Time after all milestones, or a restart, at which an operator has taken in what changed, ns: what it does from then
on to the phase's end, it does by itself."""

WATCHES_S = 60.0
"""Time limit for the watches of a phase to become live, s."""


class Phases:
    """Begins and ends phases, one at a time, and reports the progress of the open one."""

    def __init__(
        self,
        ledger: Ledger,
        client: Client,
        *,
        watches: Watches,
        roster: Roster,
        scrapers: Scrapers,
        captures: Captures,
        audit: AuditLog | None,
    ) -> None:
        self._ledger = ledger
        self._client = client
        self._watches = watches
        self._roster = roster
        self._scrapers = scrapers
        self._captures = captures
        self._audit = audit
        self._also: list[WatchSpec] = []
        self._open: PhaseStarted | None = None
        self._complete = False
        self._requests_before = 0
        self._reported: tuple[dict[str, tuple[int, int]], int] = ({}, 0)
        self._reported_at = 0
        self._shares: dict[str, list[float]] = {}
        """Milestone of the open phase → numbers of objects at which the operator is scraped, the highest first."""
        self._calm_at: int | None = None
        """When the operator is to be scraped once more in the open phase, recorder's clock."""
        self._counted = -1
        """Updates of the engine's counts that were looked at for it."""
        self.begun = asyncio.Event()
        """Set when a phase begins, or comes to rest: its timers may be due before what the timer task waits for."""
        ledger.on_met = self._met

    @property
    def name(self) -> str:
        """Name of the open phase; empty for none."""
        return self._open.phase if self._open else ""

    def also_watch(self, specs: Sequence[WatchSpec]) -> None:
        """Add a watch to every phase from the next on, merged with milestones' watches of the same objects."""
        self._also += specs

    async def begin(self, wanted: BeginPhase) -> None:
        """Open the watches, read the clocks, scrape, attach the profilers, and start the phase.

        Raises UsageError for a condition that cannot be used or while another phase is open, RecordingError for a watch
        that cannot be opened.
        """
        if self._open is not None:
            raise UsageError(
                f"phase {wanted.phase!r} begins while {self._open.phase!r} is open",
                next_step="Phases follow one another: end the first one before.",
            )
        for name, condition in wanted.milestones:
            _check(name, condition)
        specs = [spec for _, condition in wanted.milestones for spec in sorted(watches(condition), key=str)]
        await self._watches.ensure([*specs, *self._also], WATCHES_S)
        for name, condition in wanted.milestones:
            record = MilestoneDeclared(at=self._ledger.now(), phase=wanted.phase, name=name, condition=condition)
            self._ledger.add(record)
        if self._audit is not None:
            # Earlier requests precede the phase in the journal; a log that gets no lines is detected now.
            await self._audit.drain()
            self._requests_before = self._audit.requests
        self._roster.read(f"start:{wanted.phase}")
        await self._scrapers.edge(f"start:{wanted.phase}")
        if wanted.profile:
            await self._captures.begin(wanted.phase)
        self._complete, self._calm_at = False, None
        self._shares, self._counted = {} if wanted.edges_only else _shares(wanted.milestones), -1
        self._reported = ({}, 0)
        self._reported_at = self._ledger.now()
        self._open = PhaseStarted(
            at=self._reported_at,
            phase=wanted.phase,
            timeout_ns=round(wanted.timeout * 1e9),
            hold_ns=round(wanted.hold * 1e9),
            twin_of=wanted.twin_of,
        )
        self._ledger.add(self._open)
        self._captures.report()
        for process, why in wanted.unprofiled.items():
            self._ledger.failed(f"profile:{process}", why)
        self._ledger.flush()
        if not wanted.edges_only:
            self._scrapers.run(rest=True)
        self.begun.set()
        self.look()

    async def end(self, wanted: EndPhase) -> list[LateObject]:
        """Explain late objects, read the clocks, scrape, drain the audit log and end the phase.

        Profilers stop first, at this moment; their files are written last, when they delay no figure.

        Returns the late objects of a phase that timed out. Raises UsageError for a phase that is not open.
        """
        if self._open is None or self._open.phase != wanted.phase:
            raise UsageError(f"phase {wanted.phase!r} is not open", next_step="End the phase that was begun.")
        self._ledger.tick()
        self._captures.stop()
        objects: list[LateObject] = []
        if wanted.outcome == "timeout":
            await self._captures.dump_all()
            objects = [self._journal_late(found) for found in await self.late()]
        edge = f"end:{wanted.phase}"
        self._roster.read(edge)
        await self._scrapers.edge(edge)
        if self._audit is not None:
            await self._audit.drain()
        self.close(wanted)
        self._scrapers.run(rest=True)
        await self._captures.collect()
        self._ledger.flush()
        return objects

    async def late(self) -> list[LateObject]:
        """Return some late objects of each unmet milestone of the open phase, with the API's reasons."""
        if self._open is None:
            return []
        now, phase = self._ledger.now(), self._open.phase
        shortfalls = self._ledger.engine.shortfalls(phase, now, timeout_diagnosis.LIMIT)
        return await timeout_diagnosis.account(shortfalls, self._client, phase=phase, at=now)

    def close(self, wanted: EndPhase) -> None:
        """End the phase with the data available."""
        self._open = None
        self._shares, self._calm_at = {}, None
        self._ledger.add(
            PhaseEnded(at=self._ledger.now(), phase=wanted.phase, outcome=wanted.outcome, message=wanted.message)
        )
        self._ledger.flush()

    def interrupt(self, message: str) -> None:
        """End the open phase, if any, without further requests: the harness has gone."""
        if self._open is not None:
            self._captures.stop()
            self._roster.read(f"end:{self._open.phase}")
            self.close(EndPhase(id=0, phase=self._open.phase, outcome="interrupted", message=message))

    def next_due(self) -> int | None:
        """Return when a timer or the hold is due, recorder's clock; None when neither is pending."""
        moments = [self._ledger.engine.next_due(), self._calm_at]
        if self._open is not None and not self._complete and self._open.hold_ns:
            hold = self._open.at + self._open.hold_ns
            moments.append(hold if hold > self._ledger.now() else None)
        return min((moment for moment in moments if moment is not None), default=None)

    def look(self) -> None:
        """Report, once, that the phase is complete; scrape the operator, where it is time to."""
        now = self._ledger.now()
        if self._calm_at is not None and now >= self._calm_at:
            self._calm_at = None
            self._scrapers.beside(OPERATOR)
        if self._open is None or self._complete:
            return
        if now >= self._open.at + self._open.hold_ns and not self._ledger.engine.open_milestones(self._open.phase):
            self._complete = True
            self._ledger.tell(PhaseComplete(phase=self._open.phase, at=now))

    def calms_down(self) -> None:
        """Scrape the operator some time from now, if the phase still goes on: it has been given nothing more to do.

        A hold is scraped at its end only: with one scrape, nothing shows that reconciles go on in it.
        """
        if self._open is not None:
            self._calm_at = self._ledger.now() + _CALM_NS
            self.begun.set()

    def counted(self) -> None:
        """Scrape the operator where a milestone's count has reached a third of its goal, or two.

        A deployment may be over before the next scheduled scrape: series that come with the objects would then have
        been seen at two numbers of objects only.
        """
        updates = self._ledger.engine.updates
        if not self._shares or self._open is None or updates == self._counted:
            return
        self._counted = updates
        figures = self._ledger.engine.figures(self._open.phase, self._open.at)
        for name, numbers in list(self._shares.items()):
            passed = [number for number in numbers if figures.get(name, (0.0, 0.0))[0] >= number]
            if passed:
                self._scrapers.soon(OPERATOR)
                self._shares[name] = [number for number in numbers if number not in passed]
                if not self._shares[name]:
                    del self._shares[name]

    def progress(self) -> None:
        """Report the phase's progress if it has changed since the last report."""
        if self._open is None:
            return
        now = self._ledger.now()
        figures = self._ledger.engine.figures(self._open.phase, now)
        counts = {name: (int(have), round(want)) for name, (have, want) in figures.items()}
        requests = self._audit.requests - self._requests_before if self._audit else 0
        if (counts, requests) == self._reported:
            return
        rate = (requests - self._reported[1]) / max((now - self._reported_at) / 1e9, 1e-3)
        self._reported, self._reported_at = (counts, requests), now
        elapsed = (now - self._open.at) / 1e9
        self._ledger.tell(
            Progress(phase=self.name, counts=counts, elapsed=elapsed, api_requests=requests, api_rate=rate)
        )

    def _met(self, met: MilestoneMet) -> None:
        started = self._open.at if self._open else met.at
        elapsed = (met.at - started) / 1e9
        self._ledger.tell(MilestoneReached(phase=met.phase, name=met.name, at=met.at, elapsed=elapsed))
        if not self._ledger.engine.open_milestones(met.phase):
            self.calms_down()
        self.look()

    def _journal_late(self, found: LateObject) -> LateObject:
        # Stamped now: records came in while the API server was queried.
        record = msgspec.structs.replace(found, at=self._ledger.now())
        self._ledger.add(record)
        return record


def _shares(milestones: Iterable[tuple[str, Condition]]) -> dict[str, list[float]]:
    """Return milestone → a third and two thirds of the objects that it counts, of those that count enough."""
    counts = {
        name: condition.n for name, condition in milestones if isinstance(condition, Count) and not condition.name
    }
    return {name: [n * 2 / 3, n / 3] for name, n in counts.items() if n >= _COUNTED}


def _check(name: str, condition: Condition) -> None:
    """Raise UsageError, with the milestone's name, for a predicate that cannot be used."""
    for count in count_leaves(condition):
        try:
            compile_predicate(count.where, count.watch)
        except UsageError as error:
            raise UsageError(f"milestone {name!r}: {error.message}", next_step=error.next_step) from error
