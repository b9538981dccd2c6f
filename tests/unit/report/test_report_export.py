"""Exports of a run, read back by the programs that they are for: Perfetto's schema, pyarrow, Prometheus' parsers."""

from __future__ import annotations

import builtins
import csv
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pyarrow import parquet

from pytest_grovescale import cli
from pytest_grovescale.analysis.api_requests import counted
from pytest_grovescale.errors import ExitCode
from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.recording import records as rec

from ..analysis.simulated import full_run

N = 12
RECORDS = full_run(N).records()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "recordings").mkdir(parents=True)
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in RECORDS)
    (folder / "recordings" / "test.jsonl").write_bytes(lines)
    return folder


def exported(run: Path, form: str, *more: str) -> Path:
    assert cli.main(["export", str(run), "--format", form, *more]) == ExitCode.PASSED
    return run


class Trace:
    """A trace by Perfetto's own schema: all packets, and the full name of each track."""

    def __init__(self, file: Path) -> None:
        self.packets = schema.Trace.FromString(file.read_bytes()).packet
        self._tracks = {
            one.track_descriptor.uuid: one.track_descriptor for one in self.packets if "track_descriptor" in one
        }
        self._names: dict[int, str] = {}
        for packet in self.packets:
            self._names |= {name.iid: name.name for name in packet.interned_data.event_names}

    def path(self, track: int) -> tuple[str, ...]:
        described = self._tracks[track]
        above = self.path(described.parent_uuid) if described.parent_uuid else ()
        return (*above, described.name)

    def slices(self) -> dict[tuple[str, ...], list[tuple[str, int, int]]]:
        """Return track → its slices as Perfetto nests them: (name, begin, end), by their ends."""
        by_track: dict[int, list[Any]] = defaultdict(list)
        for packet in self.packets:
            if packet.track_event.type in (schema.TrackEvent.TYPE_SLICE_BEGIN, schema.TrackEvent.TYPE_SLICE_END):
                by_track[packet.track_event.track_uuid].append(packet)
        found: dict[tuple[str, ...], list[tuple[str, int, int]]] = defaultdict(list)
        for track, packets in by_track.items():
            open_: list[tuple[str, int]] = []
            for packet in sorted(packets, key=lambda one: one.timestamp):
                if packet.track_event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
                    open_.append((self._names[packet.track_event.name_iid], packet.timestamp))
                else:
                    name, began = open_.pop()
                    found[self.path(track)].append((name, began, packet.timestamp))
            assert not open_
        return found

    def counts(self) -> dict[tuple[str, ...], list[float]]:
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for packet in self.packets:
            if packet.track_event.type == schema.TrackEvent.TYPE_COUNTER:
                found[self.path(packet.track_event.track_uuid)].append(packet.track_event.double_counter_value)
        return found


def fields_of(message: Any) -> Iterator[Any]:
    """Yield a message and all that it contains."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                yield from fields_of(one)


def test_perfettos_own_schema_knows_every_field_of_a_trace(run: Path) -> None:
    trace = Trace(exported(run, "perfetto") / "trace.pftrace")
    assert len(trace.packets) > 100
    assert not [one for packet in trace.packets for one in fields_of(packet) if len(UnknownFieldSet(one))]
    assert {packet.trusted_packet_sequence_id for packet in trace.packets} == {1}
    assert trace.packets[0].sequence_flags == 3
    seen: set[int] = set()
    for packet in trace.packets:
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in seen
            assert packet.track_descriptor.parent_uuid in seen | {0}
            seen.add(packet.track_descriptor.uuid)
        if packet.HasField("track_event"):
            assert packet.track_event.track_uuid in seen


def test_a_trace_has_phases_objects_requests_and_cpu(run: Path) -> None:
    trace = Trace(exported(run, "perfetto") / "trace.pftrace")
    (opened,) = (record for record in RECORDS if isinstance(record, rec.Opened))
    slices, test = trace.slices(), opened.test
    started = [record for record in RECORDS if isinstance(record, rec.PhaseStarted)]
    assert [(name, began) for name, began, _ in slices[test, "phases", "phase"]] == [
        (record.phase, record.at) for record in started
    ]
    pods = {path[3]: found for path, found in slices.items() if path[1:3] == ("objects", "pods")}
    assert len(pods) == N
    for name, found in pods.items():
        # The life of an object contains its states, one after the other.
        *states, (life, began, ended) = found
        assert (life, states[0][1], states[-1][2]) == (name, began, ended)
        assert all(before[2] == after[1] for before, after in pairwise(states))
        assert "ready" in [state for state, _, _ in states]
    requests = Counter(
        name
        for path, found in slices.items()
        if path[1] == "API requests"
        for name, began, ended in found
        if ended >= began
    )
    written = [one for one in RECORDS if isinstance(one, rec.Request) and counted(one) and one.verb != "watch"]
    assert requests.total() == len(written)
    cores = trace.counts()[test, "CPU, cores", "operator"]
    assert cores
    assert all(0 <= value <= 64 for value in cores)


def test_a_recording_that_was_cut_short_ends_its_slices(run: Path) -> None:
    lines = (run / "recordings" / "test.jsonl").read_bytes().splitlines(keepends=True)
    (run / "recordings" / "test.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]) + b'{"type":"obj')
    trace = Trace(exported(run, "perfetto") / "trace.pftrace")
    assert trace.slices()


def test_both_tables_hold_all_that_was_recorded(run: Path) -> None:
    exported(run, "csv")
    exported(run, "parquet")
    with (run / "events.csv").open(newline="") as file:
        events = list(csv.DictReader(file))
    assert len([one for one in events if one["kind"] == "object"]) == sum(
        isinstance(one, rec.ObjectSeen) for one in RECORDS
    )
    assert len([one for one in events if one["kind"] == "request"]) == sum(
        isinstance(one, rec.Request) and counted(one) for one in RECORDS
    )
    assert {one["phase"] for one in events} == {"", "deploy", "steady-state", "delete"}
    with (run / "samples.csv").open(newline="") as file:
        samples = list(csv.DictReader(file))
    last = max(
        (one for one in RECORDS if isinstance(one, rec.CpuRead) and one.process == "operator"), key=lambda one: one.at
    )
    (cpu,) = {
        one["value"]
        for one in samples
        if (one["source"], one["series"], one["at_ns"]) == ("operator", "cpu_seconds_total", str(last.at))
    }
    assert float(cpu) == last.cpu_ns / 1e9
    for name, rows in (("events", events), ("samples", samples)):
        columns = parquet.read_table(run / f"{name}.parquet").to_pylist()
        shown = [{key: "" if value is None else str(value) for key, value in row.items()} for row in columns]
        assert shown == rows


def test_both_parsers_of_openmetrics_accept_the_samples(run: Path, tmp_path: Path) -> None:
    exported(run, "openmetrics", "-o", str(tmp_path / "new" / "folder"))
    body = (tmp_path / "new" / "folder" / "run.openmetrics").read_bytes()
    own = Reader().read(body, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    parsed = text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
    families = {family.name: family for family in parsed}
    assert {name.removesuffix("_total") for name in own.families} == set(families)
    ready = [one for one in families["grovescale_objects"].samples if one.labels["state"] == "ready"]
    pods = [one.value for one in ready if one.labels["resource"] == "pods"]
    assert (max(pods), pods[-1]) == (N, 0)
    last = {tuple(one.labels.items()): one.value for one in families["grovescale_api_requests"].samples}
    assert sum(last.values()) == sum(isinstance(one, rec.Request) and counted(one) for one in RECORDS)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (b"", "no recording, and no folder of a run"),
        (b'{"type":"phase-started"}\n', "is not a recording"),
        (b'{"type":"opened","schema_version":99}\n', "has schema version 99"),
    ],
)
def test_a_folder_without_a_readable_recording_is_refused(
    run: Path, damage: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / "recordings" / "test.jsonl"
    file.write_bytes(damage) if damage else file.unlink()
    assert cli.main(["export", str(run), "--format", "perfetto"]) != ExitCode.PASSED
    assert said in capsys.readouterr().err
    assert [path.name for path in run.iterdir()] == ["recordings"]


def test_a_damaged_line_is_named_and_leaves_no_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "recordings" / "test.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:5], b'{"type":"nonsense"}\n', *lines[5:]]))
    assert cli.main(["export", str(run), "--format", "csv"]) == ExitCode.INFRASTRUCTURE
    assert "test.jsonl:6: damaged record" in capsys.readouterr().err
    assert [path.name for path in run.iterdir()] == ["recordings"]


def test_parquet_without_its_library_says_how_to_get_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "pyarrow":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert cli.main(["export", str(run), "--format", "parquet"]) == ExitCode.USAGE
    assert "pip install 'pytest-grovescale[parquet]'" in capsys.readouterr().err
