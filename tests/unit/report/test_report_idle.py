"""The table of the operator's work while nothing changes."""

from __future__ import annotations

import msgspec
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import merge
from pytest_grovescale.report.document import Table, text
from pytest_grovescale.report.html.page import render_run
from pytest_grovescale.report.idle_table import idle
from tests.unit.checks.noop_run import NoopRun


def test_work_while_idle_is_reported_by_kind_a_day_and_with_its_periods(snapshot: SnapshotAssertion) -> None:
    test = NoopRun(idle_polls=6, idle_renewals=15, idle_reconciles=30).result()
    assert text(idle(test)) == snapshot
    (table,) = [block for block in idle(test) if isinstance(block, Table)]
    headings = [column.heading for column in table.columns]
    row = dict(zip(headings, table.rows[0], strict=True))
    assert (row["phase"], row["requests"], row["Leases"], row["Events"]) == ("steady-state (idle)", "6", "15", "0")
    assert row["reconciles"] == "30"


def test_allocations_have_a_column_where_they_are_known() -> None:
    test = NoopRun().result()
    windows = tuple(msgspec.structs.replace(one, allocated_bytes=5_000_000) for one in test.idle)
    assert "allocated" not in text(idle(test))
    assert "5.00 MB" in text(idle(msgspec.structs.replace(test, idle=windows)))


def test_without_an_idle_window_there_is_no_table() -> None:
    assert not list(idle(msgspec.structs.replace(NoopRun().result(), idle=())))


def test_the_page_has_it_too() -> None:
    page = render_run(merge([NoopRun(idle_renewals=15).result()]))
    assert "Operator's work while nothing changes".replace("'", "&#39;") in page
    assert "<td>steady-state (idle)</td>" in page
    assert "every 2.00 s" in page
