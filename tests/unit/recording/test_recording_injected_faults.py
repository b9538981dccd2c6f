"""The proxy's log as a source: each line becomes a record, once, and none of a test before."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pytest_grovescale.kube.faults.settings import Injected
from pytest_grovescale.recording.injected_faults import InjectedFaults
from pytest_grovescale.recording.journal import Writer, read
from pytest_grovescale.recording.record_writer import Ledger, RecorderClock
from pytest_grovescale.recording.records import FaultInjected
from tests.unit.analysis import simulated


def line(name: str) -> bytes:
    fault = Injected(
        kind="lost-answer", verb="create", group="a.io", resource="things", namespace="t", name=name, applied=201,
        received_wall=1, answered_wall=2,
    )  # fmt: skip
    return msgspec.json.encode(fault) + b"\n"


def test_faults_become_records_from_the_recordings_start_on(tmp_path: Path) -> None:
    log, journal = tmp_path / "faults.jsonl", tmp_path / "journal.jsonl"
    log.write_bytes(line("before"))
    ledger = Ledger(Writer(journal), RecorderClock(), lambda update: None)
    ledger.add(simulated.Simulation().records()[0])
    source = InjectedFaults(log, ledger)
    for names in (["a", "b"], [], ["c"]):
        with log.open("ab") as file:
            file.writelines(map(line, names))
        source.poll()
    source.close()
    ledger.flush()
    records = [record for record in read(journal) if isinstance(record, FaultInjected)]
    assert [record.name for record in records] == ["a", "b", "c"]
    assert {record.qualified for record in records} == {"things.a.io"}
    assert {(record.applied, record.code, record.received_wall, record.answered_wall) for record in records} == {
        (201, 0, 1, 2)
    }
