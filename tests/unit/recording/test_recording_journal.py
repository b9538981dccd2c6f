"""The journal: whole lines only, readable wherever it was cut, plain about damage."""

from __future__ import annotations

import errno
import os
import random
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


def plain(path: Path) -> list[bytes]:
    """Make a journal one of plain lines, as earlier versions wrote them; return these."""
    lines = list(journal.Reader(path).lines())
    path.write_bytes(b"".join(lines))
    return lines


def flushed(path: Path, groups: list[list[AnyRecord]]) -> list[int]:
    """Write these records with a flush after each group; return the file's size after each."""
    path.unlink(missing_ok=True)
    writer = journal.Writer(path)
    sizes = []
    for group in groups:
        for record in group:
            writer.append(record)
        writer.flush()
        sizes.append(path.stat().st_size)
    writer.close()
    return sizes


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert list(journal.read(write(tmp_path / "j.jsonl", RECORDS))) == RECORDS


def test_plain_lines_of_earlier_versions_are_read_wherever_they_were_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "whole.jsonl", RECORDS)
    data = b"".join(plain(path))
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        assert list(journal.read(path)) == RECORDS[: data[:length].count(b"\n")]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.lists(st.integers(0, 400), max_size=4), max_size=8), large=st.integers(0, 300_000))
def test_cut_at_any_byte_nothing_is_lost_that_was_flushed_before(
    tmp_path: Path, sizes: list[list[int]], large: int
) -> None:
    """Lines without a pattern, and one that takes several blocks."""
    noise = random.Random(large)
    lines: list[list[AnyRecord]] = [
        [Lines(at=2, source="s", lines=[noise.randbytes(size).hex()]) for size in group] for group in sizes
    ]
    groups: list[list[AnyRecord]] = [[opened()], *lines, [Mark(at=3, label=noise.randbytes(large).hex())]]
    path = tmp_path / "j.jsonl.zst"
    ends = flushed(path, groups)
    data, records = path.read_bytes(), [record for group in groups for record in group]
    near = {end + by for end in ends for by in (-2, -1, 0, 1)}
    for length in near | {noise.randrange(len(data) + 1) for _ in range(40)} | set(range(40)):
        path.write_bytes(data[:length])
        found = list(journal.read(path))
        whole = sum(len(group) for group, end in zip(groups, ends, strict=True) if end <= length)
        assert len(found) >= whole
        assert found == records[: len(found)]
        if found:
            journal.append(path, RECORDS[-1])
            assert list(journal.read(path)) == [*found, RECORDS[-1]]


def test_what_is_flushed_can_be_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl.zst"
    writer = journal.Writer(path)
    for number, record in enumerate(RECORDS, start=1):
        writer.append(record)
        writer.flush()
        assert list(journal.read(path)) == RECORDS[:number]
    writer.close()


def test_a_record_can_be_added_again_and_again(tmp_path: Path) -> None:
    path = write(tmp_path / "j.jsonl.zst", RECORDS[:2])
    for record in RECORDS[2:]:
        journal.append(path, record)
    assert list(journal.read(path)) == RECORDS


def test_lines_that_are_alike_take_little_space(tmp_path: Path) -> None:
    records: list[AnyRecord] = [
        ObjectSeen(
            at=n, watch="w1", change="modified", name=f"pod-{n}", uid=f"{n:032x}", fields={"status.phase": "Running"}
        )
        for n in range(1000)
    ]
    path = tmp_path / "j.jsonl.zst"
    flushed(path, [[opened()], *([record] for record in records)])
    assert path.stat().st_size * 3 < sum(map(len, journal.Reader(path).lines()))


def test_damage_of_compressed_lines_is_named_by_the_line_behind_the_sound_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "j.jsonl.zst", RECORDS)
    path.write_bytes(path.read_bytes() + b"something else")
    records = journal.read(path)
    assert [next(records) for _ in RECORDS] == RECORDS
    with pytest.raises(RecordingError, match=rf"{len(RECORDS) + 1}: damaged"):
        next(records)
    with pytest.raises(RecordingError, match="damaged, nothing can be added"):
        journal.append(path, RECORDS[-1])


@pytest.mark.parametrize("line", range(2, len(RECORDS) + 1))
def test_damage_is_named_by_its_line(tmp_path: Path, line: int) -> None:
    path = write(tmp_path / "j.jsonl", RECORDS)
    lines = plain(path)
    lines[line - 1] = b'{"type":"mark","at":"soon"}\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(RecordingError, match=rf"j\.jsonl:{line}: damaged"):
        list(journal.read(path))


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"\0\0\0\n", b"\n", b'{"type":"unheard-of","at":1}\n'])
def test_bytes_that_are_no_record_are_damage(tmp_path: Path, damage: bytes) -> None:
    path = write(tmp_path / "j.jsonl", RECORDS[:2])
    path.write_bytes(b"".join(plain(path)) + damage)
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
    records: list[AnyRecord] = [
        opened(),
        *(Lines(at=n, source="s", lines=[random.Random(n).randbytes(n % 50).hex()]) for n in range(60)),
    ]
    code = limited(path, limit, records)
    assert path.stat().st_size <= limit
    text = b"".join(journal.Reader(path).lines())
    assert text.endswith(b"\n") or not text
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
        sizes = []
        for record in RECORDS[:3]:
            writer.append(record)
            writer.flush()
            sizes.append(path.stat().st_size)
        before, first = list(journal.read(path)), sizes[0]
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
