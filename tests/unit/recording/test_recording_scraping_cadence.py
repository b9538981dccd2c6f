"""When a target is due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.recording.scraping.target import due, offset

MOMENTS = st.floats(0, 1e7)
INTERVALS = st.floats(0.01, 600)


@given(MOMENTS, INTERVALS, st.text())
def test_the_next_moment_is_ahead_and_at_most_an_interval_away(after: float, interval: float, name: str) -> None:
    moment = due(after, interval, offset(name, interval))
    # The clock's own resolution at this size of it.
    assert after - 1e-8 < moment <= after + interval + 1e-8


@given(MOMENTS, INTERVALS, st.text(), st.integers(1, 50))
def test_moments_that_were_missed_are_left_out(after: float, interval: float, name: str, missed: int) -> None:
    shift = offset(name, interval)
    first = due(after, interval, shift)
    later = due(first + (missed + 0.5) * interval, interval, shift)
    assert abs(later - first - (missed + 1) * interval) < 1e-6


@given(st.text(), INTERVALS)
def test_the_grid_is_shifted_by_less_than_an_interval(name: str, interval: float) -> None:
    assert 0 <= offset(name, interval) < interval


def test_the_grid_of_a_name_is_the_same_in_each_run() -> None:
    assert round(offset("operator", 5.0), 6) == 4.211933


def test_five_hundred_targets_come_one_after_another() -> None:
    of_each_second = [0] * 5
    for number in range(500):
        of_each_second[int(offset(f"operator/pod-{number}", 5.0))] += 1
    assert max(of_each_second) < 2 * min(of_each_second)
