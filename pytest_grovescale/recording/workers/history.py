"""All records of the operator's workers in a recording."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from ..records import AnyRecord, CpuRead, Lines, PhaseEnded, PhaseStarted, Scraped, SourceFailed
from .cpu_times import CpuMoment, CpuTimes
from .readings import Reading, readings_of, tells

OPERATOR = "operator"
"""Name of the scraped target, and of the process whose CPU clock and stacks are used."""

_PROCESS_CPU = "process_cpu_seconds_total"
_STACKS = f"stacks:{OPERATOR}"


class Dump(msgspec.Struct, frozen=True):
    """The operator's stacks at a moment."""

    at: int
    """Recorder's clock, ns."""
    phase: str
    lines: list[str]
    """Stacks as printed; empty where they are not available."""
    failure: str = ""


class WorkerHistory:
    """Readings, CPU times and stack dumps; feed it every record, in order."""

    def __init__(self) -> None:
        self.readings: dict[str, list[Reading]] = defaultdict(list)
        """By controller, or by work queue, which has its name."""
        self.cpu = CpuTimes()
        self.scrapes: list[tuple[int, str]] = []
        """Time and phase of each scrape, including those without worker metrics."""
        self.dumps: list[Dump] = []
        self.started: dict[str, int] = {}
        """When each phase began, ns."""
        self._phase = ""
        self._samples: dict[str, float] = {}

    def feed(self, record: AnyRecord) -> None:
        """Process the next record."""
        match record:
            case Scraped(target=target) if target == OPERATOR:
                self._scraped(record)
            case CpuRead(process=process) if process == OPERATOR:
                self.cpu.clock.append(CpuMoment(record.at, record.cpu_ns / 1e9, record.pid))
            case Lines(source=source) if source == _STACKS:
                self.dumps.append(Dump(record.at, self._phase, record.lines))
            case SourceFailed(source=source) if source == _STACKS:
                self.dumps.append(Dump(record.at, self._phase, [], record.message))
            case PhaseStarted():
                self._phase = record.phase
                self.started[record.phase] = record.at
            case PhaseEnded():
                self._phase = ""

    def of_phase(self, controller: str, phase: str) -> list[Reading]:
        """Return a controller's readings in a phase, its edges included."""
        return [reading for reading in self.readings.get(controller, ()) if reading.phase == phase]

    def _scraped(self, record: Scraped) -> None:
        for series in record.gone:
            self._samples.pop(series, None)
        for series, value in record.samples.items():
            if tells(series) or series == _PROCESS_CPU:
                self._samples[series] = value
        _, _, of_edge = record.edge.partition(":")
        phase = of_edge or self._phase
        self.scrapes.append((record.at, phase))
        if _PROCESS_CPU in self._samples:
            self.cpu.told.append(CpuMoment(record.at, self._samples[_PROCESS_CPU]))
        for controller, reading in readings_of(self._samples, at=record.at, phase=phase).items():
            self.readings[controller].append(reading)
