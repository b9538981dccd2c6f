"""What a comparison is planned to do, before anything of it is run."""

from __future__ import annotations

import pytest

from pytest_grovescale.bench import compare, variant
from pytest_grovescale.bench.store import WindowPlan
from tests.unit.bench.planned import SUBJECT

WANTED = compare.Wanted(
    pairing=variant.of_definitions("reference", "", values={}, other={}, parameters={}),
    subject=SUBJECT,
    pairs={"noop": 10, "deploy": 10},
)


@pytest.mark.parametrize(("one_look", "looks"), [(False, (6, 10)), (True, (10,))])
def test_looks_are_planned_before_the_first_run(one_look: bool, looks: tuple[int, ...]) -> None:
    plan = compare.plan_of(WANTED._replace(one_look=one_look))
    assert {comparison.looks for comparison in plan.comparisons.values()} == {looks}


def test_parts_share_the_alarms_that_are_allowed() -> None:
    assert {part: plan.alpha for part, plan in compare.plan_of(WANTED).comparisons.items()} == {
        "noop": 0.025,
        "deploy": 0.025,
    }
    assert [plan.alpha for plan in compare.plan_of(WANTED._replace(parts=("noop",))).comparisons.values()] == [0.05]


def test_windows_are_planned_too() -> None:
    windows = WindowPlan(seconds=3.0, fresh=False)
    assert compare.plan_of(WANTED._replace(windows=windows)).windows == windows
