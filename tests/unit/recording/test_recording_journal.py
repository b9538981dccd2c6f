"""The journal: whole lines only, readable wherever it was cut, plain about damage."""

from __future__ import annotations

import errno
import os
import resource
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_grovescale.errors import RecordingError
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.conditions import AllOf, Count, FieldTest, Predicate, Timer, WatchSpec
from pytest_grovescale.recording.records import (
    SCHEMA_VERSION,
    AnyRecord,
    Closed,
    Lines,
    Machine,
    Mark,
    MilestoneDeclared,
    ObjectSeen,
    Opened,
    Scraped,
)

MACHINE = Machine(fingerprint="f", cpu="c", cores=2, memory_bytes=1, kernel="k", python="3")


def opened(version: int = SCHEMA_VERSION) -> Opened:
    return Opened(at=1, schema_version=version, run="r", test="t", version="0", machine=MACHINE)


RECORDS: list[AnyRecord] = [
    opened(),
    MilestoneDeclared(
        at=2,
        phase="deploy",
        name="ready",
        condition=AllOf(
            of=(
                Count(
                    watch=WatchSpec(resource="pods", path="/api/v1/pods", fields=("status.phase",)),
                    where=Predicate(tests=(FieldTest(path="status.phase", value="Running"),)),
                    n=3,
                ),
                Timer(seconds=1.5),
            )
        ),
    ),
    Mark(at=3, label="apply", detail="größer\n than a line"),
    ObjectSeen(at=4, watch="w1", change="added", name="p", fields={"status.phase": None, "x": [1, 2.5, "ü"]}),
    Scraped(at=5, target="operator", samples={'a{b="c"}': 1e300}, special={"d": "NaN"}, gone=["e"]),
    Closed(at=6, reason="stopped"),
]


def write(path: Path, records: list[AnyRecord]) -> Path:
    writer = journal.Writer(path)
    for record in records:
        writer.append(record)
    writer.close()
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert list(journal.read(write(tmp_path / "j.jsonl", RECORDS))) == RECORDS


def test_cut_at_any_byte_it_is_readable_up_to_the_last_whole_line(tmp_path: Path) -> None:
    data = write(tmp_path / "whole.jsonl", RECORDS).read_bytes()
    cut = tmp_path / "cut.jsonl"
    for length in range(len(data) + 1):
        cut.write_bytes(data[:length])
        assert list(journal.read(cut)) == RECORDS[: data[:length].count(b"\n")]


@pytest.mark.parametrize("line", range(2, len(RECORDS) + 1))
def test_damage_is_named_by_its_line(tmp_path: Path, line: int) -> None:
    path = write(tmp_path / "j.jsonl", RECORDS)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = b'{"type":"mark","at":"soon"}\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(RecordingError, match=rf"j\.jsonl:{line}: damaged"):
        list(journal.read(path))


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"\0\0\0\n", b"\n", b'{"type":"unheard-of","at":1}\n'])
def test_bytes_that_are_no_record_are_damage(tmp_path: Path, damage: bytes) -> None:
    path = write(tmp_path / "j.jsonl", RECORDS[:2])
    path.write_bytes(path.read_bytes() + damage)
    with pytest.raises(RecordingError, match=r"j\.jsonl:3: damaged"):
        list(journal.read(path))


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "j.jsonl", [opened(SCHEMA_VERSION + 1)])
    with pytest.raises(RecordingError, match=f"schema version {SCHEMA_VERSION + 1}"):
        list(journal.read(path))


@pytest.mark.parametrize("content", [b"not json\n", b'{"type":"mark","at":1,"label":"x"}\n', b"[1]\n", b"\x80\n"])
def test_another_file_is_no_recording(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.txt"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="is not a recording"):
        list(journal.read(path))


def test_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be read"):
        list(journal.read(tmp_path / "none.jsonl"))


def test_an_old_recording_is_never_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / "j.jsonl", RECORDS)
    with pytest.raises(RecordingError, match="cannot be written"):
        journal.Writer(path)
    assert list(journal.read(path)) == RECORDS


def limited(path: Path, limit: int, records: list[AnyRecord]) -> int:
    """Write in a child whose files can't grow beyond ``limit`` bytes; return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 3
    try:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        code = fill(journal.Writer(path), records)
    finally:
        os._exit(code)


def fill(writer: journal.Writer, records: list[AnyRecord]) -> int:
    """Return 0 when all fitted, 1 when it was full and sealed, 2 when not even the seal fitted."""
    try:
        for number, record in enumerate(records):
            writer.append(record)
            if number % 3 == 0:
                writer.flush()
        writer.close()
    except journal.JournalFull as full:
        # The child's exit code tells the parent what went wrong.
        if not isinstance(full.__cause__, OSError) or full.__cause__.errno != errno.EFBIG:
            return 4
        return 1 if writer.seal(Closed(at=99, reason="journal-full")) else 2
    return 0


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(0, 4000))
def test_full_disk_leaves_whole_lines_and_a_last_word(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "full.jsonl"
    path.unlink(missing_ok=True)
    records: list[AnyRecord] = [opened(), *(Lines(at=n, source="s", lines=["x" * (n % 50)] * 3) for n in range(60))]
    code = limited(path, limit, records)
    data = path.read_bytes()
    assert len(data) <= limit
    assert data.endswith(b"\n") or not data
    found = list(journal.read(path))
    if code == 1:
        assert isinstance(found.pop(), Closed)
    assert code in (0, 1, 2)
    assert code != 0 or len(found) == len(records)
    # A file that cannot even hold its first line and the seal stays without the seal.
    assert code != 2 or len(found) <= 1
    assert found == records[: len(found)]


@given(data=st.data())
def test_a_journal_that_is_cut_while_it_is_written_ends_with_whole_lines_and_the_reason(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j.jsonl"
        writer = journal.Writer(path)
        for record in RECORDS[:3]:
            writer.append(record)
        writer.flush()
        before = list(journal.read(path))
        first = len(path.read_bytes().partition(b"\n")[0]) + 1
        cut = data.draw(st.integers(first, path.stat().st_size - 1) | st.just(path.stat().st_size + 3))
        os.truncate(path, cut)
        writer.append(RECORDS[3])
        with pytest.raises(journal.JournalFull, match="changed by another program"):
            writer.flush()
        assert writer.seal(Closed(at=99, reason="journal-full"))
        writer.close()
        *kept, last = journal.read(path)
        assert kept == before[: len(kept)]
        assert isinstance(last, Closed)


def test_full_journal_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j.jsonl"
    writer = journal.Writer(path)
    writer.append(opened())
    writer.flush()

    def no_space(fd: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", no_space)
        writer.append(RECORDS[2])
        with pytest.raises(journal.JournalFull, match="No space left"):
            writer.flush()
    writer.append(RECORDS[3])
    writer.flush()
    writer.close()
    writer.close()
    assert list(journal.read(path)) == [opened()]
