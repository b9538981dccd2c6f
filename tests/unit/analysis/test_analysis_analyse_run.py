"""A run's folder: all recordings merged, cut and damaged ones included, and the outcome of the whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse, analyse_run, hide
from pytest_grovescale.errors import RecordingError
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.journal import Reader, Writer
from tests.golden import masked

from .simulated import Simulation, full_run


def save(folder: Path, name: str, records: Iterable[rec.AnyRecord]) -> Path:
    path = folder / "recordings" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    writer = Writer(path)
    for record in records:
        writer.append(record)
        writer.flush()
    writer.close()
    return path


def test_a_run_is_all_its_recordings(tmp_path: Path) -> None:
    records = full_run(3).records()
    save(tmp_path, "b", records)
    save(tmp_path, "a", [msgspec.structs.replace(records[0], test="another"), *records[1:40]])
    result = analyse_run(tmp_path)
    assert [test.recording for test in result.tests] == ["recordings/a.jsonl", "recordings/b.jsonl"]
    assert (result.run, result.scenario_outcome, result.machine) == ("run-1", "unfinished", result.tests[0].machine)
    assert result.tests[1] == analyse(records, recording="recordings/b.jsonl")


def test_killed_and_damaged_recordings_do_not_hide_the_others(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    records = full_run(3).records()
    save(tmp_path, "whole", records)
    cut = save(tmp_path, "cut", records)
    cut.write_bytes(cut.read_bytes()[:-30])
    damaged = save(tmp_path, "damaged", records)
    lines = list(Reader(damaged).lines())
    damaged.write_bytes(b"".join([*lines[:20], b"\x00garbage\n", *lines[21:]]))
    (tmp_path / "recordings" / "empty.jsonl").touch()
    (tmp_path / "recordings" / "other.jsonl").write_text("something else\n")
    result = analyse_run(tmp_path)
    assert [test.recording.partition("/")[2] for test in result.tests] == ["cut.jsonl", "damaged.jsonl", "whole.jsonl"]
    assert result.tests[0].closed == ""
    assert any("damaged.jsonl:21" in warning for warning in result.warnings)
    assert any("empty.jsonl: " in warning for warning in result.warnings)
    assert any("other.jsonl" in warning for warning in result.warnings)
    assert masked("\n".join(result.warnings), {tmp_path: "folder"}) == snapshot


def test_a_folder_without_recordings(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(RecordingError) as caught:
        analyse_run(tmp_path)
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot


@pytest.mark.parametrize(
    ("phase_outcome", "closed", "outcome"),
    [
        ("passed", "stopped", "passed"),
        ("timeout", "stopped", "timeout"),
        ("passed", "interrupted", "interrupted"),
        ("passed", "controller-gone", "interrupted"),
        ("passed", "failed", "failed"),
        ("passed", "journal-full", "failed"),
        (None, "stopped", "unfinished"),
        ("passed", None, "unfinished"),
    ],
)
def test_outcomes(phase_outcome: str | None, closed: str | None, outcome: str) -> None:
    sim = Simulation()
    sim.phase("p", 100, 200 if phase_outcome else None, phase_outcome)
    if closed:
        sim.add(rec.Closed(at=sim.at(300), reason=closed))  # type: ignore[arg-type]
    assert analyse(sim.records()).scenario_outcome == outcome


def test_different_machines_are_not_one(tmp_path: Path) -> None:
    first, *rest = full_run(1).records()
    assert isinstance(first, rec.Opened)
    other = msgspec.structs.replace(first.machine, fingerprint="other")
    save(tmp_path, "a", [first, *rest])
    save(tmp_path, "b", [msgspec.structs.replace(first, machine=other), *rest])
    assert analyse_run(tmp_path).machine is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see /home/me/reports/run/operator.log:12", "see …/operator.log:12"),
        ('File "/opt/x/y/z.py", line 3', 'File "…/z.py", line 3'),
        ("--data-dir=/tmp/x/etcd", "--data-dir=…/etcd"),
        ("GET /api/v1/namespaces/x: 404", "GET /api/v1/namespaces/x: 404"),
        ("https://127.0.0.1:6443/apis/grove.io/v1", "https://127.0.0.1:6443/apis/grove.io/v1"),
        ("/readyz/etcd", "/readyz/etcd"),
        ("pods/status of app.kubernetes.io/name", "pods/status of app.kubernetes.io/name"),
        ("tests/scale/test_pods.py::test_pods", "tests/scale/test_pods.py::test_pods"),
        ("12/s and 3 / 4", "12/s and 3 / 4"),
        ('x_total{path="/trials/a/b",file="/c/d"} of /e/f/g', 'x_total{path="/trials/a/b",file="/c/d"} of …/g'),
    ],
)
def test_paths_of_the_machine_are_hidden_and_nothing_else(text: str, shown: str) -> None:
    assert hide(text) == shown


def test_no_path_of_the_machine_is_in_a_result() -> None:
    sim = full_run(2)
    sim.add(rec.SourceFailed(at=sim.at(500), source="scrape:x", message="no file /var/lib/me/token"))
    sim.add(rec.Lines(at=sim.at(501), source="log:operator", lines=["panic: /root/go/src/main.go:3"]))
    text = msgspec.json.encode(analyse(sim.records())).decode()
    assert "/var/lib" not in text
    assert "/root" not in text
    assert "…/main.go:3" in text


def test_a_dump_is_grouped_and_its_lines_are_left_out_of_a_run_that_passed() -> None:
    dump = ["# py-spy: not permitted", "", "goroutine 7 [sleep]:", "main.reconcile(0x1)", "\t/src/main.go:3 +0x1", ""]
    sim = full_run(2)
    sim.add(rec.Lines(at=sim.at(500), source="stacks:operator", lines=[*dump, *dump]))
    sim.add(rec.Lines(at=sim.at(501), source="log:operator", lines=["a"]))
    stacks, log = analyse(sim.records()).evidence
    assert stacks.lines == ("# py-spy: not permitted",) * 2
    assert [(group.kind, group.count, group.of) for group in stacks.stacks] == [("reconcile worker", 2, 2)]
    assert (log.lines, log.stacks) == (("a",), ())
    sim.add(rec.PhaseStarted(at=sim.at(502), phase="late", timeout_ns=1))
    (late, _) = analyse(sim.records()).evidence
    assert len(late.lines) == 12, "where it did not pass"
    assert late.stacks == stacks.stacks
