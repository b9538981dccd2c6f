"""A run as two tables, events and samples, in CSV or Parquet."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

from ...analysis.api_requests import counted
from ...atomic_write import replacing
from ...errors import UsageError
from ...recording import records as rec
from .recording_state import RecordingState

if TYPE_CHECKING:
    import pyarrow


class Event(NamedTuple):
    """A row of the events: something that happened at a moment."""

    test: str
    at_ns: int
    """Recorder's clock, ns since the epoch; of a request, when it was answered."""
    seconds: float
    """Since the recording's start."""
    phase: str
    """The running phase; empty between phases."""
    kind: str
    """``phase``, ``milestone``, ``mark``, ``object``, ``request``, ``fault``, ``incident``, ``stall``, ``failure``,
    ``process``."""
    event: str
    """What happened: ``started``, ``met``, ``added``; a request's verb."""
    resource: str = ""
    """Plural with group; of a request, with its subresource."""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    state: str = ""
    """Of an object, the furthest that it is in: ``existing``, ``scheduled``, ``running``, ``ready`` …, ``gone``."""
    identity: str = ""
    """Who made a request: ``operator``, ``kube-scheduler`` …"""
    code: int | None = None
    """HTTP status."""
    duration_s: float | None = None
    detail: str = ""


class Sample(NamedTuple):
    """A row of the samples: a value that was read at a moment."""

    test: str
    at_ns: int
    seconds: float
    phase: str
    source: str
    """The process, ``machine``, or the metrics endpoint."""
    series: str
    """``cpu_seconds_total``, ``resident_memory_bytes``, ``runnable_seconds_total``; of an endpoint, as it serves it."""
    value: float | None
    """An endpoint's series has a row when its value changed; None: it is no longer served."""


Row: TypeAlias = Event | Sample
Tables = Callable[[Path], "contextlib.AbstractContextManager[_Sinks]"]


def rows(records: Iterable[rec.AnyRecord]) -> Iterator[Row]:
    """Yield the rows of one recording, in its order."""
    state = RecordingState()
    for record in records:
        # The end of a phase belongs to it.
        phase = state.phase
        state.feed(record)
        for event in _events(record, state):
            yield event._replace(phase=event.phase or phase)
        for source, series, value in _values(record):
            seconds = (record.at - state.start) / 1e9
            yield Sample(state.test, record.at, seconds, state.phase, source, series, value)


def _events(record: rec.AnyRecord, state: RecordingState) -> Iterator[Event]:
    def event(kind: str, what: str, at: int = record.at, **more: Any) -> Event:
        return Event(state.test, at, (at - state.start) / 1e9, state.phase, kind, what, **more)

    match record:
        case rec.PhaseStarted():
            yield event("phase", "started", name=record.phase)
        case rec.PhaseEnded():
            yield event("phase", record.outcome, name=record.phase, detail=record.message)
        case rec.MilestoneMet():
            met = record.object or rec.ObjectRef(resource="")
            detail = "/".join(part for part in (met.resource, met.namespace, met.name) if part)
            yield event("milestone", "met", name=record.name, detail=detail)
        case rec.Mark():
            yield event("mark", record.state, name=record.label, detail=record.detail)
        case rec.ObjectSeen():
            yield event(
                "object",
                record.change,
                resource=state.resource(record.watch),
                namespace=record.namespace,
                name=record.name,
                uid=record.uid,
                state=state.state(record),
                detail="initial" * record.initial,
            )
        case rec.Request() if counted(record):
            yield event(
                "request",
                record.verb,
                state.completed(record),
                resource="/".join(part for part in (record.qualified or record.path, record.subresource) if part),
                namespace=record.namespace,
                name=record.name,
                identity=state.identity(record),
                code=record.code,
                duration_s=(record.completed_wall - record.received_wall) / 1e9,
            )
        case rec.FaultInjected():
            yield event(
                "fault",
                record.kind,
                resource=record.qualified,
                namespace=record.namespace,
                name=record.name,
                code=record.code,
                detail=record.verb,
            )
        case rec.Incident():
            yield event("incident", record.kind, name=record.subject, detail=record.detail)
        case rec.Stalled():
            yield event("stall", record.kind, record.began, name=record.process, duration_s=record.length_ns / 1e9)
        case rec.SourceFailed():
            yield event("failure", "failed", name=record.source, detail=record.message)
        case rec.ProcessSeen() | rec.ProcessGone():
            what = "seen" if isinstance(record, rec.ProcessSeen) else "gone"
            yield event("process", what, name=record.process, detail=f"pid {record.pid}")
        case _:
            pass


def _values(record: rec.AnyRecord) -> Iterator[tuple[str, str, float | None]]:
    match record:
        case rec.CpuRead():
            yield record.process, "cpu_seconds_total", record.cpu_ns / 1e9
            yield record.process, "resident_memory_bytes", float(record.rss_bytes)
            if record.waiting_ns is not None:
                yield record.process, "runnable_seconds_total", record.waiting_ns / 1e9
        case rec.MachineRead(times=times) if times is not None:
            yield "machine", "cpu_seconds_total", times.busy_ns / 1e9
            yield "machine", "steal_seconds_total", times.steal_ns / 1e9
        case rec.Scraped():
            for series in record.gone:
                if series not in record.special:
                    yield record.target, series, None
            for series, value in record.samples.items():
                yield record.target, series, value
            for series, text in record.special.items():
                yield record.target, series, float(text)
        case _:
            pass


class _Sinks(NamedTuple):
    """Where the rows of both tables go."""

    event: Callable[[Event], object]
    sample: Callable[[Sample], object]


def write(recordings: Iterable[Iterable[rec.AnyRecord]], folder: Path, tables: Tables) -> None:
    """Write both tables of some recordings into a folder, row by row, as they are read. Raises OSError."""
    with tables(folder) as sinks:
        for records in recordings:
            for row in rows(records):
                if isinstance(row, Event):
                    sinks.event(row)
                else:
                    sinks.sample(row)


@contextlib.contextmanager
def in_csv(folder: Path) -> Iterator[_Sinks]:
    """Yield what writes ``events.csv`` and ``samples.csv`` (RFC 4180, UTF-8); they replace older ones at the end."""
    with (
        replacing(folder / "events.csv") as events,
        replacing(folder / "samples.csv") as samples,
        _csv(events, Event) as event,
        _csv(samples, Sample) as sample,
    ):
        yield _Sinks(event, sample)


@contextlib.contextmanager
def _csv(file: BinaryIO, row: type[Row]) -> Iterator[Callable[[Row], object]]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(row._fields)
    yield writer.writerow
    # The file is its owner's to close.
    text.detach()


_ROWS = 50_000
"""Of a row group: what is held in memory."""

_TYPES = {"at_ns": "int64", "seconds": "float64", "code": "int16", "duration_s": "float64", "value": "float64"}
"""Column → type; others are strings, stored once for each distinct one."""


@contextlib.contextmanager
def in_parquet(folder: Path) -> Iterator[_Sinks]:
    """Yield what writes ``events.parquet`` and ``samples.parquet``; they replace older ones at the end.

    Raises UsageError where pyarrow is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed",
            next_step="pip install 'pytest-grovescale[parquet]', or export --format csv.",
        ) from None
    with (
        replacing(folder / "events.parquet") as events,
        replacing(folder / "samples.parquet") as samples,
        _parquet(pyarrow, events, Event) as event,
        _parquet(pyarrow, samples, Sample) as sample,
    ):
        yield _Sinks(event, sample)


@contextlib.contextmanager
def _parquet(arrow: Any, file: BinaryIO, row: type[Row]) -> Iterator[Callable[[Row], object]]:
    from pyarrow import parquet

    schema: pyarrow.Schema = arrow.schema([(name, _TYPES.get(name, "string")) for name in row._fields])
    held: list[Row] = []

    def flush() -> None:
        columns = zip(*held, strict=True)
        arrays = [arrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
        writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
        held.clear()

    def add(one: Row) -> None:
        held.append(one)
        if len(held) >= _ROWS:
            flush()

    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        yield add
        if held:
            flush()
