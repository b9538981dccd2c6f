"""A recording that the real recorder made of a real API server: the same tables from it, byte for byte, each time.

``data/configmaps.jsonl``: 12 ConfigMaps made, patched (two of them with a no-op more) and deleted (four through a
finalizer) by 10 concurrent clients; then a phase that times out. ``data/configmaps.txt``: its tables. After a
change that is meant, ``make golden`` writes them again.
"""

from __future__ import annotations

from pathlib import Path

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.recording.journal import read
from pytest_grovescale.report.run_report import render_test
from tests.unit.analysis.commit_intervals import server_intervals

DATA = Path(__file__).with_name("data")
RECORDING = DATA / "configmaps.jsonl"
EXPECTED = DATA / "configmaps.txt"


def test_its_tables(writes_golden_files: bool) -> None:
    text = render_test(analyse(read(RECORDING)))
    if writes_golden_files:
        EXPECTED.write_text(text, encoding="utf-8")
    assert text == EXPECTED.read_text(encoding="utf-8")


def test_its_figures() -> None:
    result = analyse(read(RECORDING))
    everything, wait = result.phases
    assert [(m.name, m.clock, m.held_to_end) for m in everything.milestones] == [
        ("some", "server", False),
        ("patched", "server", False),
        ("gone", "recorder", True),
    ]
    assert everything.audit_complete
    assert sum(row.count for row in everything.api if row.verb == "delete") == 12
    assert (wait.outcome, wait.milestones[0].reached, wait.triggers, wait.trigger_writes) == ("timeout", 0, 1, 0)
    assert result.warnings == ()


def test_its_commits_are_certain_but_for_no_op_writes() -> None:
    found = server_intervals(read(RECORDING), "configmaps")
    assert len(found) == 10
    assert {"c1", "c11"}.isdisjoint(name for _, name in found)
    for intervals in found.values():
        assert all(interval.low <= interval.high for interval in intervals)
        assert [interval.low for interval in intervals] == sorted(interval.low for interval in intervals)


def test_any_prefix_of_it_can_be_rendered() -> None:
    records = list(read(RECORDING))
    for length in range(1, len(records)):
        assert render_test(analyse(records[:length]))
