"""A recording may end after any record: analysis never fails on one, and what it said early stays true."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_grovescale.analysis.analyse import analyse, contents_of, result_of
from pytest_grovescale.analysis.live_analysis import LiveAnalysis
from pytest_grovescale.analysis.recording_index import Contents
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.errors import NotMeasuredError, RecordingError
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.journal import Writer, read
from pytest_grovescale.report.run_report import render_test

from .simulated import full_run


@cache
def whole() -> tuple[list[rec.AnyRecord], TestResult]:
    records = full_run(12).records()
    return records, analyse(records)


@given(st.integers(1, 400))
def test_any_prefix_can_be_analysed_and_rendered(length: int) -> None:
    records, _ = whole()
    result = analyse(records[:length])
    assert render_test(result)
    assert msgspec.json.decode(msgspec.json.encode(result), type=TestResult) == result
    if length < len(records):
        assert result.scenario_outcome == "unfinished"
        assert result.closed == ""


@given(st.integers(1, 400))
def test_what_a_prefix_says_of_an_ended_phase_stays_true(length: int) -> None:
    records, final = whole()
    cut = analyse(records[:length])
    for early, late in zip(cut.phases, final.phases, strict=False):
        for before, after in zip(early.milestones, late.milestones, strict=False):
            if before.met:
                assert before.observed_s == after.observed_s
            if before.server_s is not None and after.server_s is not None:
                # Later records may narrow an interval; they never contradict it.
                assert max(before.server_s[0], after.server_s[0]) <= min(before.server_s[1], after.server_s[1])
        if early.outcome != "unfinished":
            assert early.cpu == late.cpu or len(early.cpu) < len(late.cpu)
            assert sum(row.count for row in early.api) <= sum(row.count for row in late.api)


VALUES = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.sampled_from([0, 1, 1.0, True, False, "", "1", None, ["x"], [], {"y": 1}]),
    max_size=2,
)


@given(st.lists(st.tuples(st.sampled_from(["p", "q"]), VALUES, VALUES, st.sampled_from([None, "a", "b"])), max_size=12))
def test_records_are_what_they_were_when_equal_parts_of_them_are_kept_once(
    events: list[tuple[str, dict[str, Any], dict[str, Any], str | None]],
) -> None:
    records: list[rec.AnyRecord] = [
        rec.ObjectSeen(
            at=at,
            watch="w1",
            change="modified",
            name=name,
            fields=fields,
            numbers=numbers,
            difference=None if path is None else rec.Difference(kind="content", paths=[path], back=[path]),
        )
        for at, (name, fields, numbers, path) in enumerate(events)
    ]
    before = msgspec.json.encode(records)
    contents_of(records)
    assert msgspec.json.encode(records) == before


def test_feeding_on_after_a_result_gives_the_same_as_all_at_once() -> None:
    records, final = whole()
    contents = Contents()
    for record in records:
        contents.feed(record)
        if isinstance(record, rec.PhaseEnded):
            result_of(contents)
    assert result_of(contents) == final


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(1, 400), max_size=6), findings=st.lists(st.booleans(), min_size=7, max_size=7))
def test_a_live_analysis_says_at_each_moment_what_one_of_all_that_is_written_says(
    tmp_path: Path, cuts: set[int], findings: list[bool]
) -> None:
    records, _ = whole()
    path = tmp_path / "live.jsonl.zst"
    path.unlink(missing_ok=True)
    writer, live = Writer(path), LiveAnalysis(path)
    written = 0
    for cut, wanted in zip([*sorted(cuts), len(records)], findings, strict=False):
        for record in records[written:cut]:
            writer.append(record)
        # As `Scale.check` does it: a result, and then the check.
        written = max(written, min(cut, len(records)))
        for check in range(2):
            writer.append(rec.CheckDeclared(at=records[written - 1].at + check, check={}, source="test"))
            writer.flush()
            found = contents_of(read(path))
            assert live.result(findings=wanted) == result_of(found, findings=wanted)
            for phase in result_of(found).phases:
                assert live.phase(phase.name) == phase
    with pytest.raises(NotMeasuredError):
        live.phase("none")
    writer.close()


@given(st.data())
def test_records_that_are_missing_do_no_harm(data: st.DataObject) -> None:
    records, _ = whole()
    lost = data.draw(st.sets(st.integers(1, len(records) - 1), max_size=20))
    assert render_test(analyse(record for index, record in enumerate(records) if index not in lost))


def test_an_empty_recording_is_an_error_with_a_next_step() -> None:
    with pytest.raises(RecordingError, match="no records") as caught:
        analyse([])
    assert caught.value.next_step
