"""Counters over a run: what they grew by, where they were reset; and whether an operator was at rest."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.metrics.counters import growth, increases, resets
from pytest_grovescale.analysis.metrics.history import TargetHistory
from pytest_grovescale.analysis.metrics.idleness import at_rest, rests, workers
from tests.unit.checks.scraped_run import ACTIVE, DEPTH, LIMIT, ScrapedRun, controllers

NAME = "x_total"


def counter(values: list[float | None]) -> TargetHistory:
    run = ScrapedRun()
    for value in values:
        run.scrape({NAME: value, "y": 1} if value is not None else {"y": 1}, types={NAME: "counter", "y": "gauge"})
    return run.target()


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12))
def test_a_counter_grows_by_its_steps_up_and_by_all_after_a_fall(values: list[int]) -> None:
    target = counter([float(value) for value in values])
    grown = [0.0]
    for before, after in pairwise(values):
        grown.append(grown[-1] + (after - before if after >= before else after))
    assert increases(target, NAME) == grown
    assert growth(target, NAME) == (grown[-1] if len(values) > 1 else None)
    assert [target.grown(NAME, 0, scrape) for scrape in range(len(values))] == grown
    assert len(list(resets(target))) == sum(after < before for before, after in pairwise(values))


@given(st.lists(st.integers(0, 50), min_size=2, max_size=10), st.integers(1, 8))
def test_growth_of_parts_adds_up(values: list[int], cut: int) -> None:
    cut = min(cut, len(values) - 1)
    run = ScrapedRun()
    for number, value in enumerate(values):
        edge = "start:first" if number <= cut else "end:second"
        run.scrape({NAME: value}, types={NAME: "counter"}, edge=edge)
    grown = increases(run.target(), NAME)
    first = growth(run.target(), NAME, "first") if cut else 0.0
    assert grown[cut] == first


@pytest.mark.parametrize(
    ("values", "grown"),
    [
        ([None, 5.0, 7.0], [None, 5.0, 7.0]),
        ([3.0, None, 5.0], [0.0, None, 2.0]),
        ([3.0, None, 1.0], [0.0, None, 1.0]),
    ],
)
def test_a_series_that_comes_late_has_grown_by_all_that_it_shows(
    values: list[float | None], grown: list[float | None]
) -> None:
    assert increases(counter(values), NAME) == grown


def test_a_counter_that_has_overtaken_itself_is_reported_by_the_start_of_its_process() -> None:
    run = ScrapedRun()
    for value, start in ((5, 100), (7, 200), (8, 200)):
        run.scrape({NAME: value, "process_start_time_seconds": start}, types={NAME: "counter"})
    assert increases(run.target(), NAME) == [0, 7, 8]


def test_growth_in_a_phase_is_from_its_first_scrape_to_its_last() -> None:
    run = ScrapedRun()
    for value, edge in ((4, "start:a"), (9, "end:a"), (9, "start:b"), (30, "end:b")):
        run.scrape({NAME: value}, types={NAME: "counter"}, edge=edge)
    assert [growth(run.target(), NAME, phase) for phase in ("a", "b", "c")] == [5, 21, None]


@pytest.mark.parametrize(
    ("served", "rest"),
    [
        ({**controllers(ACTIVE, {"a": 0, "b": 0}), f'{DEPTH}{{name="a"}}': 0}, True),
        ({**controllers(ACTIVE, {"a": 0, "b": 1}), f'{DEPTH}{{name="a"}}': 0}, False),
        ({**controllers(ACTIVE, {"a": 0}), f'{DEPTH}{{name="a"}}': 3}, False),
        ({**controllers(ACTIVE, {"a": 0}), "workqueue_unfinished_work_seconds": 0.3}, True),
        ({"workqueue_unfinished_work_seconds": 0, f'{DEPTH}{{name="a"}}': 0}, True),
        ({"workqueue_unfinished_work_seconds": 0.2, f'{DEPTH}{{name="a"}}': 0}, False),
        ({f'{DEPTH}{{name="a"}}': 0}, None),
        ({"x": 1}, None),
    ],
)
def test_at_rest_no_one_works_and_nothing_waits(served: dict[str, float], rest: bool | None) -> None:
    run = ScrapedRun()
    run.scrape(served)
    run.scrape(served, edge="end:a")
    target = run.target()
    assert at_rest(target) == [rest, rest]
    assert list(rests(target)) == ([0, 1] if rest else [1] if rest is None else [])


def test_workers_are_those_of_a_controller_or_of_all() -> None:
    run = ScrapedRun()
    run.scrape(controllers(LIMIT, {"a": 5, "b": 20}))
    run.scrape(controllers(LIMIT, {"a": 5}))
    assert workers(run.target()) == [25, 5]
    assert workers(run.target(), "b") == [20, 0]
    assert workers(ScrapedRun().history().targets.setdefault("x", TargetHistory("x"))) == []
