"""Where the time went, in the terminal and in Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.phase_result import BottleneckRow, Contention, Suspect
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.report.format import escape
from pytest_grovescale.report.html.tiles import answer
from pytest_grovescale.report.run_report import render_markdown, render_test

from .sample import DEPLOY, RESULT, STEADY, TEST


@dataclass
class Given:
    """Rows as (suspect, seconds) of a phase of 11.2 s."""

    rows: tuple[tuple[Suspect, float], ...]

    def table(self) -> tuple[BottleneckRow, ...]:
        return tuple(
            BottleneckRow(suspect=suspect, seconds=seconds, share=seconds / 11.2, evidence="")
            for suspect, seconds in self.rows
        )


ROWS = Given((("api-server", 7.95), ("operator-cpu", 5.6), ("scheduler", 2.8), ("kwok", 0.0))).table()
LINE = "API server CPU-bound 71 % of deploy; operator using CPU 50 %"


@pytest.fixture
def shown() -> TestResult:
    deploy = msgspec.structs.replace(DEPLOY, bottlenecks=ROWS, bottleneck=LINE, missing={"bottlenecks": "no <metric>"})
    steady = msgspec.structs.replace(STEADY, missing={"bottlenecks": "it waits for time to pass"})
    return msgspec.structs.replace(TEST, phases=(deploy, steady))


def lines(text: str) -> list[str]:
    return [re.sub(r" +", " ", line).strip() for line in text.splitlines()]


def test_the_answer_stands_above_all_tables(shown: TestResult, snapshot: SnapshotAssertion) -> None:
    found = lines(render_test(shown, width=140))
    (answer,) = (at for at, line in enumerate(found) if line.endswith(f": {LINE}"))
    assert found[answer] == snapshot
    assert answer < found.index("Phases and milestones") < found.index("Where the time went")


@pytest.mark.parametrize(
    "line",
    ["waited for deploy", "operator, CPU used 5.60 s (50 %)", "scheduler 2.80 s (25 %)",
     "contributing factors (overlapping)", "API server CPU-bound 7.95 s (71 %)", "- deploy: no <metric>"],
)  # fmt: skip
def test_the_table(line: str, shown: TestResult) -> None:
    assert line in lines(render_test(shown, width=140))


def test_rows_without_time_and_phases_without_rows_are_left_out(shown: TestResult) -> None:
    text = render_test(shown, width=140)
    table = text[text.index("Where the time went\n") : text.index("CPU time and memory")]
    assert "kwok" not in table
    assert "steady-state" not in table


def test_a_run_without_any_rows_says_nothing() -> None:
    assert "Where the time" not in render_test(TEST)


@pytest.mark.parametrize("width", [60, 100])
def test_it_keeps_to_its_width(width: int, shown: TestResult) -> None:
    assert all(len(line) <= width for line in render_test(shown, width=width).splitlines())


def test_markdown(shown: TestResult, snapshot: SnapshotAssertion) -> None:
    text = render_markdown(msgspec.structs.replace(RESULT, tests=(shown,)))
    assert f" of deploy went: {LINE}" in text
    (table,) = (part for part in text.split("\n\n") if part.startswith("| waited for |"))
    assert table == snapshot
    assert table.splitlines()[2] == "| operator, CPU used | 5.60 s (50 %) |"
    assert "| kwok |" not in text


CONTENDED = Contention(
    cores=2, run_cores=0.7, others_cores=1.2, steal_cores=0.1, iowait_cores=0.0, idle_cores=0.0, others_share=0.65
)


def test_what_other_programs_took_is_said_above_all_tables(shown: TestResult, snapshot: SnapshotAssertion) -> None:
    deploy = msgspec.structs.replace(shown.phases[0], contention=CONTENDED)
    contended = msgspec.structs.replace(shown, phases=(deploy, shown.phases[1]))
    found = lines(render_test(contended, width=140))
    (inflated,) = (line.removeprefix("- ") for line in found if line.startswith("- Other programs used 1.2 of 2"))
    assert inflated == snapshot
    assert found.index(f"- {inflated}") < found.index("Phases and milestones")
    assert "other programs and steal 65 % –" in found
    assert escape(inflated) in render_markdown(msgspec.structs.replace(RESULT, tests=(contended,)))
    assert inflated in [line.text for line in answer(contended)]


def test_a_machine_that_the_run_has_to_itself_is_no_news(shown: TestResult) -> None:
    quiet = msgspec.structs.replace(CONTENDED, others_cores=0.05, steal_cores=0.0, others_share=0.025)
    deploy = msgspec.structs.replace(shown.phases[0], contention=quiet)
    assert "Other programs used" not in render_test(msgspec.structs.replace(shown, phases=(deploy,)))
