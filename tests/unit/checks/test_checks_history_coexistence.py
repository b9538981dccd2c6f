"""What an operator serves with the harness' tracking, next to what it serves without."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.metrics.test_leakage import untracked
from pytest_grovescale.checks import NoTestLeakage
from tests.golden import masked
from tests.unit.checks.scraped_run import ACTIVE, DONE, NAMESPACE, RUN, SENT, ScrapedRun, controllers

BARE = untracked("operator")
SOUND = {**controllers(DONE, {"a": 5}, result="success"), **controllers(ACTIVE, {"a": 0})}


def run_of(
    tracked: Mapping[str, float], bare: Mapping[str, float] | None = None, *, help: str = "", bare_help: str = ""
) -> ScrapedRun:
    run = ScrapedRun()
    run.watch(NAMESPACE)
    run.watch("default")
    run.begin("deploy", "pods-ready")
    run.scrape({**SOUND, **tracked}, edge="end:deploy", help=help)
    run.end("deploy")
    run.begin("delete")
    run.scrape({**SOUND, **tracked}, edge="end:delete", help=help)
    run.end("delete")
    if bare is not None:
        run.scrape({**SOUND, **bare}, target=BARE, help=bare_help)
    return run


def test_the_same_families_and_labels_pass(snapshot: SnapshotAssertion) -> None:
    verdict, text = run_of({}, {}).judged(NoTestLeakage())
    assert verdict == "pass"
    assert text == snapshot


def test_without_the_second_pass_it_is_inconclusive_and_says_how_to_get_it(snapshot: SnapshotAssertion) -> None:
    verdict, text = run_of({}).judged(NoTestLeakage())
    assert verdict == "inconclusive"
    assert "scale.run_without_tracking()" in text
    assert text == snapshot


@pytest.mark.parametrize("word", [RUN, NAMESPACE, f"{RUN}-3"], ids=["run", "namespace", "part"])
def test_a_run_id_or_a_namespace_of_the_run_fails_by_itself(word: str, snapshot: SnapshotAssertion) -> None:
    verdict, text = run_of({f'my_info{{of="{word}"}}': 1}).judged(NoTestLeakage())
    assert verdict == "fail"
    assert f"'{word}'" in text
    assert masked(text, {word: "word"}) == snapshot


def test_a_namespace_that_the_run_did_not_make_is_none_of_its_names() -> None:
    assert run_of({'my_info{of="default"}': 1}, {'my_info{of="default"}': 1}).judged(NoTestLeakage())[0] == "pass"


@pytest.mark.parametrize(
    ("series", "word"),
    [
        ('my_info{phase="deploy"}', "deploy"),
        ('my_info{at="Pods-Ready"}', "pods-ready"),
        ("pods_ready_seconds", "pods-ready"),
        ('my_info{pods_ready="1"}', "pods-ready"),
    ],
)
def test_names_of_phases_and_milestones_are_found_wherever_they_stand(
    series: str, word: str, snapshot: SnapshotAssertion
) -> None:
    verdict, text = run_of({series: 1}, {}).judged(NoTestLeakage())
    assert verdict == "fail"
    assert f"'{word}'" in text
    assert text == snapshot


def test_a_word_that_the_operator_uses_untracked_too_is_its_own() -> None:
    word = f'{SENT}{{code="200",method="DELETE"}}'
    assert run_of({word: 4}, {word: 3}).judged(NoTestLeakage())[0] == "pass"


def test_a_part_of_a_word_is_not_the_word() -> None:
    assert run_of({'my_info{x="deployment"}': 1}, {'my_info{x="deployment"}': 1}).judged(NoTestLeakage())[0] == "pass"


def test_help_texts_are_read_too(snapshot: SnapshotAssertion) -> None:
    verdict, text = run_of({}, {}, help=f"Of run {RUN}.").judged(NoTestLeakage())
    assert verdict == "fail"
    assert f" {ACTIVE}" in text or f" {DONE}" in text
    assert masked(text, {RUN: "run"}) == snapshot


@pytest.mark.parametrize(
    ("tracked", "bare"),
    [
        ({"my_watchers": 1}, {}),
        ({}, {"my_watchers": 1}),
        ({'my_info{a="1"}': 1}, {"my_info": 1}),
        ({'my_info{on="yes"}': 1}, {'my_info{on="no"}': 1}),
    ],
    ids=["tracked alone", "bare alone", "label", "value"],
)
def test_what_differs_fails(tracked: dict[str, float], bare: dict[str, float], snapshot: SnapshotAssertion) -> None:
    run = run_of(tracked, bare)
    verdict, text = run.judged(NoTestLeakage())
    assert verdict == "fail"
    assert text == snapshot
    assert run.judged(NoTestLeakage(ignore=["my_*"]))[0] == "pass"


def test_what_only_the_work_brings_about_is_no_difference() -> None:
    ok, conflict = f'{SENT}{{code="200",method="PUT"}}', f'{SENT}{{code="409",method="PUT"}}'
    assert run_of({ok: 5, conflict: 1}, {ok: 5}).judged(NoTestLeakage())[0] == "pass"
    assert run_of({ok: 5}, {}).judged(NoTestLeakage())[0] == "pass", "a family that comes with its first use"
    kinds = {'my_errors_total{kind="conflict"}': 1.0, 'my_errors_total{kind="timeout"}': 1.0}
    assert run_of(kinds, {'my_errors_total{kind="conflict"}': 1}).judged(NoTestLeakage())[0] == "pass"


def test_what_was_served_for_a_while_counts() -> None:
    run = ScrapedRun()
    run.scrape({**SOUND, f'my_info{{of="{RUN}"}}': 1}, edge="start:deploy")
    run.scrape(SOUND, edge="end:deploy")
    run.scrape(SOUND, target=BARE)
    assert run.judged(NoTestLeakage())[0] == "fail"
