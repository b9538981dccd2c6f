"""A run as OpenMetrics text with a time for each sample, for ``promtool tsdb create-blocks-from openmetrics``.

Format: https://prometheus.io/docs/specs/om/open_metrics_spec/. It wants all samples of a family in one place, those of
a series by time: what is counted is therefore kept until the end, as one point for each second and series.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...analysis.api_requests import counted
from ...exposition.families import text
from ...exposition.text import written
from ...recording import records as rec
from .recording_state import RecordingState


class _Family(NamedTuple):
    name: str
    """Of its samples: a counter's ends in ``_total``."""
    kind: str
    help: str
    unit: str = ""


PHASE = _Family("grovescale_phase_running", "gauge", "Whether the phase is running.")
MILESTONE = _Family(
    "grovescale_milestone_seconds", "gauge", "From the phase's start until it was met, by the watch.", "seconds"
)
CPU = _Family("grovescale_process_cpu_seconds_total", "counter", "CPU time of the process and its children.", "seconds")
MEMORY = _Family("grovescale_process_resident_memory_bytes", "gauge", "Resident memory.", "bytes")
OBJECTS = _Family("grovescale_objects", "gauge", "Objects by the furthest state that they are in.")
REQUESTS = _Family("grovescale_api_requests_total", "counter", "Requests that the API server answered.")
RECONCILES = _Family("grovescale_reconciles_total", "counter", "Reconciles, as the operator counts them.")

_SECOND = 1_000_000_000
_MINUTE_MS = 60_000

Labels = tuple[tuple[str, str], ...]


class _Points:
    """All samples, by family and series."""

    def __init__(self) -> None:
        self._series: dict[_Family, dict[Labels, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))

    def add(self, family: _Family, at: int, value: float, **labels: str) -> None:
        """Add a sample at the millisecond of ``at``, ns; a later one of the same millisecond replaces it.

        A series that does not change has a sample a minute: Prometheus ends one without for 5 minutes.
        """
        points, at_ms = self._series[family][tuple(labels.items())], at // 1_000_000
        last = next(reversed(points), None)
        if last is None or points[last] != value or at_ms - last >= _MINUTE_MS:
            points[at_ms] = value

    def lines(self) -> Iterable[str]:
        for family, by_labels in sorted(self._series.items()):
            name = family.name.removesuffix("_total")
            yield f"# TYPE {name} {family.kind}\n"
            if family.unit:
                yield f"# UNIT {name} {family.unit}\n"
            yield f"# HELP {name} {family.help}\n"
            for labels, points in by_labels.items():
                series = text(family.name, dict(labels))
                for at, value in sorted(points.items()):
                    yield f"{series} {written(value)} {at // 1000}.{at % 1000:03d}\n"
        yield "# EOF\n"


class _Recording:
    """Adds one recording's points."""

    def __init__(self, points: _Points) -> None:
        self._points = points
        self._state = RecordingState()
        self._requests: Counter[Labels] = Counter()
        self._states: Counter[tuple[str, str]] = Counter()
        self._objects: dict[tuple[str, str, str], str] = {}
        self._second = 0
        self._last_at = 0

    def feed(self, record: rec.AnyRecord) -> None:
        """Take in the next record."""
        if record.at // _SECOND > self._second:
            self.tick()
            self._second = record.at // _SECOND
        self._last_at = max(self._last_at, record.at)
        self._state.feed(record)
        match record:
            case rec.PhaseStarted():
                self._add(PHASE, record.at, 1, phase=record.phase)
            case rec.PhaseEnded():
                self._add(PHASE, record.at, 0, phase=record.phase)
            case rec.MilestoneMet():
                after = (record.at - self._state.phase_started) / 1e9
                self._add(MILESTONE, record.at, after, phase=record.phase, milestone=record.name)
            case rec.CpuRead():
                # A restarted process counts from 0 again, as its own counter would.
                self._add(CPU, record.at, record.cpu_ns / 1e9, process=record.process)
                self._add(MEMORY, record.at, record.rss_bytes, process=record.process)
            case rec.Request() if counted(record):
                labels = {
                    "identity": self._state.identity(record),
                    "verb": record.verb,
                    "resource": record.qualified,
                    "subresource": record.subresource,
                    "code": str(record.code),
                }
                self._requests[tuple(labels.items())] += 1
            case rec.ObjectSeen():
                self._object(record)
            case rec.Scraped():
                for controller, count in self._state.reconciles().items():
                    self._add(RECONCILES, record.at, count, controller=controller)
            case _:
                pass

    def tick(self) -> None:
        """Add what was counted by the last record."""
        for labels, count in self._requests.items():
            self._add(REQUESTS, self._last_at, count, **dict(labels))
        for (resource, state), count in self._states.items():
            self._add(OBJECTS, self._last_at, count, resource=resource, state=state)

    def _object(self, event: rec.ObjectSeen) -> None:
        resource = self._state.watched(event.watch)
        key = (event.watch, event.namespace, event.name)
        if (before := self._objects.pop(key, None)) is not None:
            self._states[resource, before] -= 1
        if event.change != "deleted":
            self._objects[key] = self._state.state(event)
            self._states[resource, self._objects[key]] += 1

    def _add(self, family: _Family, at: int, value: float, **labels: str) -> None:
        self._points.add(family, at, value, test=self._state.test, **labels)


def write(recordings: Iterable[Iterable[rec.AnyRecord]], to: Callable[[bytes], object]) -> None:
    """Write the samples of some recordings."""
    points = _Points()
    for records in recordings:
        one = _Recording(points)
        for record in records:
            one.feed(record)
        one.tick()
    for line in points.lines():
        to(line.encode())
