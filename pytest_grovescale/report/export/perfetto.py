"""A run as a Perfetto trace, for https://ui.perfetto.dev and its SQL.

Format: https://perfetto.dev/docs/reference/synthetic-track-event and protos/perfetto/trace/ of Perfetto's repository;
a test reads what is written here with the schema that Perfetto publishes. Tracks are grouped as test → kind → subject.
Times of the trace are the recorder's clock, ns since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ...analysis.api_requests import counted
from ...protobuf_wire import write_bytes, write_double, write_int
from ...recording import records as rec
from .recording_state import RecordingState

# Numbers of fields and values in trace_packet.proto, track_descriptor.proto, track_event.proto, interned_data.proto,
# debug_annotation.proto and clock_snapshot.proto.
_PACKET = 1
_CLOCK_SNAPSHOT, _TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 6, 8, 10, 11, 12, 13, 60
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_UUID, _NAME, _PARENT, _COUNTER, _ORDERING, _RANK = 1, 2, 5, 8, 11, 12
_UNIT, _UNIT_NAME, _BYTES = 3, 6, 3
_LEXICOGRAPHIC, _EXPLICIT = 1, 3
_ARGUMENTS, _TYPE, _NAME_ID, _TRACK, _VALUE = 4, 9, 10, 11, 44
_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4
_ARGUMENT_NAME_ID, _TEXT, _TEXT_ID = 1, 6, 17
_EVENT_NAMES, _ARGUMENT_NAMES, _ARGUMENT_TEXTS = 2, 3, 29
_CLOCKS, _PRIMARY, _CLOCK_ID, _CLOCK_TIME, _REALTIME, _BOOTTIME = 1, 2, 1, 2, 1, 6

PHASES, REQUESTS, OBJECTS, RECONCILES, CPU, MEMORY = (
    "phases",
    "API requests",
    "objects",
    "reconciles",
    "CPU, cores",
    "memory",
)
_GROUPS = (PHASES, REQUESTS, RECONCILES, CPU, MEMORY, OBJECTS)
"""In the order in which they are shown: the one with a track for each object last."""

_MOST_TEXTS = 50_000
"""Texts that a reader has to keep; further ones are written where they occur."""

Path = tuple[str, ...]
Arguments = Mapping[str, str]


class _Packets:
    """Writes packets, and describes each track and each repeated text before its first use."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._tracks: dict[tuple[Path, int], int] = {}
        self._ids: dict[int, dict[str, int]] = {_EVENT_NAMES: {}, _ARGUMENT_NAMES: {}, _ARGUMENT_TEXTS: {}}
        self._new: list[bytes] = []
        self._flags = _STATE_CLEARED | _NEEDS_STATE

    def clock(self, at: int) -> None:
        """Write that the trace's clock, BOOTTIME by default, is the wall clock at the recording's start."""
        clocks = [write_int(_CLOCK_ID, clock) + write_int(_CLOCK_TIME, at) for clock in (_REALTIME, _BOOTTIME)]
        snapshot = b"".join(write_bytes(_CLOCKS, clock) for clock in clocks) + write_int(_PRIMARY, _BOOTTIME)
        self._packet(write_bytes(_CLOCK_SNAPSHOT, snapshot))

    def track(self, path: Path, *, lane: int = 0, unit: str | None = None) -> int:
        """Return the id of a track, written with those above it.

        ``lane``: of several tracks of one name, which the UI merges. ``unit``: of a counter; the UI knows ``bytes``.
        """
        if (known := self._tracks.get((path, lane))) is not None:
            return known
        parent = self.track(path[:-1]) if len(path) > 1 else 0
        number = self._tracks[path, lane] = len(self._tracks) + 1
        described = write_int(_UUID, number) + write_bytes(_NAME, path[-1])
        described += write_int(_PARENT, parent) if parent else b""
        if unit is not None:
            kind = write_int(_UNIT, _BYTES) if unit == "bytes" else write_bytes(_UNIT_NAME, unit)
            described += write_bytes(_COUNTER, kind)
        described += write_int(_ORDERING, _EXPLICIT if len(path) == 1 else _LEXICOGRAPHIC)
        if len(path) == 2:
            described += write_int(_RANK, _GROUPS.index(path[1]))
        self._packet(write_bytes(_DESCRIPTOR, described))
        return number

    def begin(self, track: int, at: int, name: str, arguments: Arguments) -> None:
        self._event(at, _BEGIN, track, self._named(name) + self._arguments(arguments))

    def end(self, track: int, at: int) -> None:
        self._event(at, _END, track, b"")

    def instant(self, track: int, at: int, name: str, arguments: Arguments) -> None:
        self._event(at, _INSTANT, track, self._named(name) + self._arguments(arguments))

    def count(self, track: int, at: int, value: float) -> None:
        self._event(at, _COUNT, track, write_double(_VALUE, value))

    def _named(self, name: str) -> bytes:
        return write_int(_NAME_ID, self._id(_EVENT_NAMES, name))

    def _arguments(self, arguments: Arguments) -> bytes:
        return b"".join(
            write_bytes(_ARGUMENTS, write_int(_ARGUMENT_NAME_ID, self._id(_ARGUMENT_NAMES, name)) + self._text(value))
            for name, value in arguments.items()
            if value
        )

    def _text(self, value: str) -> bytes:
        known = self._ids[_ARGUMENT_TEXTS]
        if value not in known and len(known) >= _MOST_TEXTS:
            return write_bytes(_TEXT, value)
        return write_int(_TEXT_ID, self._id(_ARGUMENT_TEXTS, value))

    def _id(self, kind: int, text: str) -> int:
        known = self._ids[kind]
        if (number := known.get(text)) is None:
            number = known[text] = len(known) + 1
            self._new.append(write_bytes(kind, write_int(1, number) + write_bytes(2, text)))
        return number

    def _event(self, at: int, kind: int, track: int, content: bytes) -> None:
        event = write_int(_TYPE, kind) + write_int(_TRACK, track) + content
        new = b""
        if self._new:
            new = write_bytes(_INTERNED, b"".join(self._new))
            self._new.clear()
        self._packet(new + write_int(_TIMESTAMP, at) + write_bytes(_EVENT, event))

    def _packet(self, content: bytes) -> None:
        head = write_int(_SEQUENCE, 1) + write_int(_FLAGS, self._flags)
        self._flags = _NEEDS_STATE
        self._write(write_bytes(_PACKET, head + content))


class _Read(NamedTuple):
    """The last read of a process, or of the machine."""

    at: int
    pid: int
    used_ns: int


class _Recording:
    """Writes one recording's records."""

    def __init__(self, packets: _Packets) -> None:
        self._packets = packets
        self._state = RecordingState()
        self._lanes: dict[Path, list[int]] = {}
        """Track of slices that may overlap → when the last slice of each of its lanes ends."""
        self._objects: dict[int, str] = {}
        """Track of an object that exists → the state that is shown."""
        self._reads: dict[str, _Read] = {}
        self._watches: dict[Path, int] = {}
        self._marks: dict[str, int] = {}
        self._last_at = 0

    def feed(self, record: rec.AnyRecord) -> None:
        """Write the next record."""
        self._state.feed(record)
        self._last_at = record.at
        match record:
            case rec.Opened():
                self._packets.clock(record.at)
            case rec.PhaseStarted():
                self._packets.begin(self._track(PHASES, "phase"), record.at, record.phase, {})
            case rec.PhaseEnded():
                self._packets.end(self._track(PHASES, "phase"), record.at)
                if record.outcome != "passed":
                    self._instant(record.at, f"{record.phase}: {record.outcome}", {"message": record.message})
            case rec.MilestoneMet():
                where = {"phase": record.phase, "object": record.object.name if record.object else ""}
                self._instant(record.at, record.name, where, track="milestones")
            case rec.Mark():
                self._mark(record)
            case rec.Incident():
                self._instant(record.at, record.kind, {"subject": record.subject, "detail": record.detail})
            case rec.Stalled():
                self._instant(
                    record.began, f"{record.process} {record.kind}", {"seconds": f"{record.length_ns / 1e9:g}"}
                )
            case rec.SourceFailed():
                self._instant(record.at, f"{record.source} failed", {"message": record.message})
            case rec.Request():
                self._request(record)
            case rec.FaultInjected():
                name = f"{record.verb} {record.qualified}"
                self._instant(record.at, f"fault {record.kind}", {"request": name, "object": record.name})
            case rec.ObjectSeen():
                self._object(record)
            case rec.CpuRead():
                self._cpu(record)
            case rec.MachineRead(times=times) if times is not None:
                self._cores("machine", _Read(record.at, 0, times.busy_ns))
            case rec.Scraped():
                for controller, count in self._state.reconciles().items():
                    self._packets.count(self._track(RECONCILES, controller, unit="reconciles"), record.at, count)
            case _:
                pass

    def finish(self) -> None:
        """End what was still going on when the recording ended."""
        for track, state in self._objects.items():
            self._packets.end(track, self._last_at)
            if state:
                self._packets.end(track, self._last_at)
        if self._state.phase:
            self._packets.end(self._track(PHASES, "phase"), self._last_at)

    def _track(self, *path: str, unit: str | None = None) -> int:
        return self._packets.track((self._state.test, *path), unit=unit)

    def _instant(self, at: int, name: str, arguments: Arguments, *, track: str = "incidents") -> None:
        self._packets.instant(self._track(PHASES, track), at, name, arguments)

    def _mark(self, mark: rec.Mark) -> None:
        if mark.state == "begin":
            self._marks[mark.label] = mark.at
            return
        arguments = {"detail": mark.detail, "count": str(mark.count or "")}
        if mark.state == "end" and (began := self._marks.pop(mark.label, None)) is not None:
            self._slice(PHASES, "actions", began=began, ended=mark.at, name=mark.label, arguments=arguments)
        else:
            self._instant(mark.at, mark.label, arguments, track="actions")

    def _slice(self, *path: str, began: int, ended: int, name: str, arguments: Arguments) -> None:
        """Write a slice that may overlap others: on the fullest lane that is free. The UI shows lanes as one track.

        Slices come in the order of their ends, so a lane is free when its last one ended before this one began.
        """
        lanes = self._lanes.setdefault(path, [])
        free = [lane for lane, end in enumerate(lanes) if end <= began]
        if free:
            lane = max(free, key=lanes.__getitem__)
            lanes[lane] = ended
        else:
            lane = len(lanes)
            lanes.append(ended)
        track = self._packets.track((self._state.test, *path), lane=lane)
        self._packets.begin(track, began, name, arguments)
        self._packets.end(track, ended)

    def _request(self, request: rec.Request) -> None:
        identity = self._state.identity(request)
        what = request.qualified or request.path
        if request.verb == "watch" and request.code < 400:
            path = (REQUESTS, identity, "open watches")
            change = 1 if counted(request) else -1
            # Of watches from before the recording, only the end is known.
            self._watches[path] = max(0, self._watches.get(path, 0) + change)
            at = self._state.received(request) if change > 0 else self._state.completed(request)
            self._packets.count(self._track(*path, unit="watches"), at, self._watches[path])
        elif counted(request):
            name = f"{request.verb} {what}{'/' * bool(request.subresource)}{request.subresource}"
            began, ended = self._state.received(request), self._state.completed(request)
            arguments = {"namespace": request.namespace, "name": request.name, "code": str(request.code)}
            self._slice(
                REQUESTS, identity, "requests", began=began, ended=max(began, ended), name=name, arguments=arguments
            )

    def _object(self, event: rec.ObjectSeen) -> None:
        name = f"{event.namespace}/{event.name}" if event.namespace else event.name
        track = self._track(OBJECTS, self._state.watched(event.watch), name)
        state, shown = self._state.state(event), self._objects.get(track)
        if shown is None and event.change != "deleted":
            arguments = {"uid": event.uid, "owner kind": event.owner_kind, "initial": "yes" * event.initial}
            self._packets.begin(track, event.at, name, arguments)
            shown = self._objects[track] = ""
        if shown is None or state == shown:
            return
        if shown:
            self._packets.end(track, event.at)
        if event.change == "deleted":
            self._packets.end(track, event.at)
            del self._objects[track]
        else:
            self._packets.begin(track, event.at, state, {})
            self._objects[track] = state

    def _cpu(self, read: rec.CpuRead) -> None:
        self._cores(read.process, _Read(read.at, read.pid, read.cpu_ns))
        self._packets.count(self._track(MEMORY, read.process, unit="bytes"), read.at, read.rss_bytes)

    def _cores(self, name: str, read: _Read) -> None:
        """Write the cores in use from the read before until this one, at the read before: a counter keeps its value."""
        before = self._reads.get(name)
        self._reads[name] = read
        if before is not None and before.pid == read.pid and read.at > before.at:
            cores = (read.used_ns - before.used_ns) / (read.at - before.at)
            self._packets.count(self._track(CPU, name, unit="cores"), before.at, cores)


def write(recordings: Iterable[Iterable[rec.AnyRecord]], to: Callable[[bytes], object]) -> None:
    """Write the trace of some recordings, packet by packet, as they are read."""
    packets = _Packets(to)
    for records in recordings:
        one = _Recording(packets)
        for record in records:
            one.feed(record)
        one.finish()
