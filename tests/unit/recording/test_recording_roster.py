"""Processes by name: from files that others write, over takeovers and ends."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_grovescale.procfs import started_ticks
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.process_table import Roster
from pytest_grovescale.recording.protocol import ProcessExited, Update
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import (
    SCHEMA_VERSION,
    AnyRecord,
    CpuRead,
    Opened,
    ProcessGone,
    ProcessSeen,
)


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two that wait for their standard input to end."""
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    found = [subprocess.Popen(wait, stdin=subprocess.PIPE) for _ in range(2)]
    yield found
    for program in found:
        program.kill()
        program.communicate()


class Kept:
    """A roster on a journal, and a file that it is told of."""

    def __init__(self, folder: Path) -> None:
        self.reported: list[Update] = []
        self.file = folder / "container_processes.json"
        self._path = folder / "recording.jsonl"
        self._ledger = Ledger(journal.Writer(self._path), RecorderClock(), self.reported.append)
        opened = Opened(at=0, schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine())
        self._ledger.add(opened)
        self.roster = Roster(self._ledger, file=None, wanted=(), extra={})
        self.roster.add_file(self.file)

    def write(self, **processes: subprocess.Popen[bytes]) -> None:
        listed = {
            name.replace("__", "/"): {"pid": one.pid, "started_ticks": started_ticks(one.pid)}
            for name, one in processes.items()
        }
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(listed))
        temporary.replace(self.file)
        self.roster.look()

    def records(self) -> list[AnyRecord]:
        self._ledger.flush()
        return list(journal.read(self._path))[1:]


def test_a_takeover_is_no_end_and_the_old_one_is_read_a_last_time(
    tmp_path: Path, programs: list[subprocess.Popen[bytes]]
) -> None:
    first, second = programs

    async def script() -> Kept:
        kept = Kept(tmp_path)
        kept.write(operator=first, replica__b=second)
        kept.write(operator=second)
        kept.roster.close()
        return kept

    kept = asyncio.run(script())
    found = kept.records()
    assert not any(isinstance(record, ProcessGone) for record in found)
    assert not any(isinstance(update, ProcessExited) for update in kept.reported)
    after = found[4:]
    read = [(record.process, record.pid) for record in after if isinstance(record, CpuRead)]
    assert read == [("operator", first.pid), ("replica/b", second.pid), ("operator", second.pid)]
    assert [record.pid for record in after if isinstance(record, ProcessSeen)] == [second.pid]


def test_one_that_is_seen_late_says_for_how_long_it_has_run(
    tmp_path: Path, programs: list[subprocess.Popen[bytes]]
) -> None:
    async def script() -> Kept:
        kept = Kept(tmp_path)
        kept.write(operator=programs[0])
        kept.roster.close()
        return kept

    (seen,) = [record for record in asyncio.run(script()).records() if isinstance(record, ProcessSeen)]
    assert 0 < seen.ran_ns < 60e9


def has_ended(program: subprocess.Popen[bytes]) -> None:
    """Return when it has ended; it stays to be reaped."""
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)


def test_an_end_is_reported_though_the_file_is_faster(tmp_path: Path, programs: list[subprocess.Popen[bytes]]) -> None:
    first, second = programs

    async def script() -> Kept:
        kept = Kept(tmp_path)
        kept.write(operator=first)
        first.kill()
        # Not reaped, and the loop has not run: only its descriptor tells.
        has_ended(first)
        kept.write(operator=second)
        kept.roster.close()
        return kept

    found = asyncio.run(script()).records()
    assert [(record.process, record.pid) for record in found if isinstance(record, ProcessGone)] == [
        ("operator", first.pid)
    ]
