"""Reruns of a test: each run is kept and numbered, and the last one counts, wherever something counts."""

from __future__ import annotations

import msgspec

from pytest_grovescale.analysis.analyse import analyse, merge
from pytest_grovescale.analysis.baseline import usable
from pytest_grovescale.analysis.phase_result import Outcome
from pytest_grovescale.analysis.result import TestResult, last, numbered
from pytest_grovescale.report import run_report
from pytest_grovescale.report.html.tiles import answer
from pytest_grovescale.report.run_report import render_markdown

from .simulated import full_run

ONCE = analyse(full_run(3).records(), recording="recordings/one.jsonl")


def run_at(minute: int, outcome: Outcome = "passed", *, test: str = "a", profiled: bool = False) -> TestResult:
    started = f"2026-01-31T12:{minute:02}:00.000Z"
    return msgspec.structs.replace(ONCE, test=test, started=started, scenario_outcome=outcome, profiled=profiled)


def test_runs_are_numbered_in_the_order_of_their_starts() -> None:
    found = numbered([run_at(3), run_at(1, "failed"), run_at(2, test="b"), run_at(0, "timeout")])
    assert [(one.test, one.attempt, one.attempts, one.superseded) for one in found] == [
        ("a", 1, 3, True),
        ("a", 2, 3, True),
        ("b", 1, 1, False),
        ("a", 3, 3, False),
    ]
    assert [one.started[14:16] for one in last(found)] == ["02", "03"]


def test_the_pass_with_profilers_is_no_rerun() -> None:
    found = numbered([run_at(1), run_at(2, profiled=True)])
    assert not any(one.superseded for one in found)


def test_a_run_is_as_good_as_its_last_attempts() -> None:
    assert merge([run_at(1, "failed"), run_at(2)]).scenario_outcome == "passed"
    assert merge([run_at(1), run_at(2, "failed")]).scenario_outcome == "failed"


def test_a_baseline_holds_the_last_attempt_or_none() -> None:
    assert usable(merge([run_at(1), run_at(2)]))["a"].attempt == 2
    assert not usable(merge([run_at(1), run_at(2, "failed")]))


def test_reports_say_which_run_counts() -> None:
    result = merge([run_at(1, "failed"), run_at(2)])
    for shown in ("\n".join(map(run_report.render_test, result.tests)), render_markdown(result)):
        assert shown.count("a rerun followed, and this one counts for nothing") == 1
        assert shown.count("Rerun 1: this one counts") == 1
    assert any("a rerun followed" in line.text for line in answer(result.tests[0]))


def test_what_ran_once_says_nothing_of_it() -> None:
    assert "erun" not in "\n".join(map(run_report.render_test, merge([run_at(1)]).tests))
