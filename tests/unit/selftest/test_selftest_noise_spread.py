"""The spread of single runs that checks go by is that of the recorded noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import pytest

from pytest_grovescale.checks import noop
from pytest_grovescale.selftest import power


def long_windows(*, alike: bool) -> list[power.NoiseBlock]:
    """Comparisons with windows of 20 s, which the spread is of: they were recorded before idle costs were."""
    return [block for block in power.read(power.RECORDED).of("noop", alike=alike) if "idle_cpu" not in block.pairs[0].a]


def windows() -> Iterator[list[float]]:
    """The log CPU of a no-op in the windows of one comparison, of each operator without a defect."""
    for alike, arms in ((True, "ab"), (False, "a")):
        for block in long_windows(alike=alike):
            for arm in arms:
                yield [math.log(getattr(pair, arm)["noop_cpu"]) for pair in block.pairs]


def test_the_spread_of_windows_is_the_recorded_one() -> None:
    of_each = [statistics.variance(window) for window in windows()]
    assert len(of_each) == 9
    assert math.sqrt(statistics.mean(of_each)) == pytest.approx(noop.WINDOW_NOISE, abs=0.003)


def test_the_spread_of_triggers_is_that_of_windows_side_by_side() -> None:
    """Up to 100 triggers in each of two windows: what differs is the machine's speed from trigger to trigger."""
    ratios = [
        [math.log(pair.b["noop_cpu"] / pair.a["noop_cpu"]) for pair in block.pairs]
        for block in long_windows(alike=True)
    ]
    pair = math.sqrt(statistics.mean(statistics.variance(block) for block in ratios))
    assert noop.TRIGGER_NOISE * math.sqrt(2 / 100) < pair < noop.TRIGGER_NOISE * math.sqrt(2 / 21)
