"""The table of backends as a reader sees it: the verdict first, what differs by how much, ratios to the first."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.backends import BackendRow, BackendRun, BackendsTable, BackendsVerdict, Figure
from pytest_grovescale.report import document
from pytest_grovescale.report.backends_table import blocks, verdict


def render(*of: Any, width: int = 120, color: bool = False) -> str:
    return document.text(blocks(*of), width=width, color=color)


def render_markdown(*of: Any) -> str:
    return document.markdown(blocks(*of))


def row(what: str, *figures: float | None, exact: bool = False, notes: tuple[str, ...] = ()) -> BackendRow:
    reported = [*notes, *[""] * (len(figures) - len(notes))]
    made = tuple(Figure(value=value, note=note) for value, note in zip(figures, reported, strict=True))
    return BackendRow(group="Group", what=what, unit="requests" if exact else "s", figures=made, exact=exact)


def table(outcome: BackendsVerdict, *rows: BackendRow, names: tuple[str, ...] = ("local", "kind")) -> BackendsTable:
    runs = tuple(BackendRun(name=name, run=name, started="", fingerprint="f", audited=True) for name in names)
    return BackendsTable(test="t.py::t", runs=runs, rows=rows, verdict=outcome, warnings=("take care",))


EQUAL = table("equal", row("create pods", 1000, 1000, exact=True), row("deploy", 10.0, 12.5))
UNEQUAL = table("unequal", row("create pods", 1000, 990, exact=True), row("deploy", 10.0, 12.5))


def test_the_verdict_comes_first(snapshot: SnapshotAssertion) -> None:
    text = render(EQUAL)
    assert text == snapshot
    first, second, *_ = text.splitlines()
    assert first == "t.py::t"
    assert second.startswith("Equal: ")


def test_what_differs_is_named_with_its_figures(snapshot: SnapshotAssertion) -> None:
    text = render(UNEQUAL)
    assert text == snapshot
    assert "Not equal: 1 of 1 " in text
    assert "- create pods: local 1,000, kind 990 (by 10)" in text
    assert "990 (≠)" in text


def test_figures_that_may_differ_have_a_ratio_to_the_first() -> None:
    assert "12.5 s (1.25×)" in render(EQUAL)
    assert "take care" in render(EQUAL)


def test_a_figure_that_is_missing_says_why_and_one_of_another_clock_says_which(snapshot: SnapshotAssertion) -> None:
    found = table("undetermined", row("deploy", None, 12.5, notes=("timeout", "watch's clock")))
    text = render(found)
    assert "– (timeout)" in text
    assert "12.5 s (watch's clock)" in text
    assert "\n- watch's clock: " in text
    assert text == snapshot


@pytest.mark.parametrize(
    ("figures", "who"), [((5.0, None), "local only"), ((None, None), "no run only")], ids=["one", "none"]
)
def test_too_few_that_tell(figures: tuple[float | None, ...], who: str, snapshot: SnapshotAssertion) -> None:
    said = verdict(table("undetermined", row("create pods", *figures, exact=True)))
    assert said == snapshot
    assert said.startswith("Undetermined: ")
    assert said.endswith(f" {who}")


def test_who_does_not_tell_is_named_beside_those_who_are_equal(snapshot: SnapshotAssertion) -> None:
    rows = row("create pods", 5.0, 5.0, 5.0, None, exact=True)
    found = table("equal", rows, names=("local", "kind", "kind (pod)", "existing"))
    assert verdict(found) == snapshot
    assert verdict(found).endswith(" by existing")


def test_markdown_says_the_same() -> None:
    lines = render_markdown(UNEQUAL).splitlines()
    assert lines[0] == "**t.py::t**"
    assert "|  | local | kind |" in lines
    assert "### Group" in lines
    assert "| create pods | 1,000 | 990 (≠) |" in lines
    assert "- create pods: local 1,000, kind 990 (by 10)" in lines


def test_names_cannot_break_the_table() -> None:
    found = table("equal", row("a|b", 1.0, 1.0), names=("lo|cal", "kind"))
    assert r"|  | lo\|cal | kind |" in render_markdown(found)
