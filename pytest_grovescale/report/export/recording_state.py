"""What the records so far say of the next one: the running phase, the clocks, the watches, the states of objects.

Exports read a recording once, record by record, and keep no more of it than this.
"""

from __future__ import annotations

from ...analysis import reconcile_counters
from ...analysis.api_requests import identity_of, roles
from ...analysis.recording_index import WallClock
from ...analysis.result import OPERATOR
from ...analysis.timeline import STATES, states_of
from ...recording import records as rec
from ...recording.conditions import WatchSpec

_ORDER = ("existing", *STATES)


class RecordingState:
    """Feed it every record, in order, before the record is exported."""

    def __init__(self) -> None:
        self.opened: rec.Opened | None = None
        self.phase = ""
        """The running phase; empty between phases."""
        self.phase_started = 0
        self._names: dict[str, str] = {}
        self._clock = WallClock()
        self._watches: dict[str, WatchSpec] = {}
        self._reconciles: dict[str, float] = {}

    @property
    def test(self) -> str:
        """The recorded test or command."""
        return self.opened.test if self.opened is not None else ""

    @property
    def start(self) -> int:
        """The recording's first moment, recorder's clock, ns."""
        return self.opened.at if self.opened is not None else 0

    def feed(self, record: rec.AnyRecord) -> None:
        """Take in the next record."""
        match record:
            case rec.Opened():
                self.opened = record
                self._names = roles(record.identities)
            case rec.PhaseStarted():
                self.phase, self.phase_started = record.phase, record.at
            case rec.PhaseEnded():
                self.phase = ""
            case rec.ClockStep():
                self._clock.add(record)
            case rec.WatchOpened():
                self._watches[record.watch] = record.spec
            case rec.Scraped(target=target) if target == OPERATOR:
                for series in record.gone:
                    self._reconciles.pop(series, None)
                declared = self.opened.reconciles if self.opened is not None else None
                self._reconciles.update(
                    (series, value)
                    for series, value in record.samples.items()
                    if reconcile_counters.is_kept(series.partition("{")[0], declared)
                )
            case _:
                pass

    def identity(self, request: rec.Request) -> str:
        """Return the name of a request's user, as in tables: ``operator``."""
        return identity_of(request.user, self._names)

    def received(self, request: rec.Request) -> int:
        """Return when a request was received, recorder's clock, ns."""
        return request.received_wall - self._clock.offset(request.at)

    def completed(self, request: rec.Request) -> int:
        """Return when a request was answered, recorder's clock, ns."""
        return request.completed_wall - self._clock.offset(request.at)

    def watched(self, watch: str) -> str:
        """Return what a watch shows: the resource, with its selectors."""
        spec = self._watches.get(watch)
        if spec is None:
            return watch
        chosen = ", ".join(part for part in (spec.label_selector, spec.field_selector) if part)
        return f"{spec.resource} ({chosen})" if chosen else spec.resource

    def resource(self, watch: str) -> str:
        """Return the resource that a watch shows: ``pods``."""
        spec = self._watches.get(watch)
        return spec.resource if spec is not None else ""

    def state(self, event: rec.ObjectSeen) -> str:
        """Return the furthest of the states that an object is in after an event; ``gone`` for a deleted one."""
        spec = self._watches.get(event.watch)
        found = states_of(event, spec.fields) if spec is not None else {"existing"}
        return next((name for name in reversed(_ORDER) if name in found), "gone")

    def reconciles(self) -> dict[str, float]:
        """Return controller → the operator's own count of its reconciles at the last scrape."""
        declared = self.opened.reconciles if self.opened is not None else None
        counts: dict[str, float] = {}
        for series, controller in reconcile_counters.counters_of(self._reconciles, declared).items():
            counts[controller] = counts.get(controller, 0.0) + self._reconciles[series]
        return counts
