"""Rate and concurrency, by count: never by how long something took."""

from __future__ import annotations

import asyncio

import pytest

from pytest_grovescale.errors import UsageError
from pytest_grovescale.kube.client import in_parallel
from pytest_grovescale.workload.actions import Pace


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def starts(rate: float, items: int, *, concurrency: int, work: float = 0.0) -> list[float]:
    clock, begun = Clock(), []

    async def action(_: int) -> None:
        begun.append(clock() - 100)
        if work:
            await clock.sleep(work)

    pace = Pace(rate, clock=clock, sleep=clock.sleep)
    asyncio.run(in_parallel(range(items), action, concurrency=concurrency, turn=pace.turn))
    return begun


def test_rate_is_a_schedule() -> None:
    assert starts(10, 5, concurrency=20) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


def test_slow_requests_do_not_let_the_schedule_drift() -> None:
    # One at a time and 0.25 s each: late from the second on, and never made up for by a slower start.
    assert starts(10, 4, concurrency=1, work=0.25) == pytest.approx([0, 0.25, 0.5, 0.75])


@pytest.mark.parametrize("concurrency", [1, 3, 20])
def test_concurrency_is_reached_and_never_exceeded(concurrency: int) -> None:
    active, most = 0, 0

    async def action(_: int) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0)
        active -= 1

    asyncio.run(in_parallel(range(100), action, concurrency=concurrency))
    assert (active, most) == (0, concurrency)


def test_items_start_in_order_and_once() -> None:
    begun: list[int] = []

    async def action(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0)

    asyncio.run(in_parallel(range(500), action, concurrency=20))
    assert begun == list(range(500))


def test_first_failure_ends_it_and_those_begun_finish() -> None:
    begun: list[int] = []
    finished: list[int] = []

    async def action(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0)
        if item == 2:
            raise ValueError("no")
        await asyncio.sleep(0)
        finished.append(item)

    with pytest.raises(ValueError, match="no"):
        asyncio.run(in_parallel(range(100), action, concurrency=4))
    assert set(begun) == {*finished, 2}
    assert len(begun) < 12


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_impossible_rate(rate: float) -> None:
    with pytest.raises(UsageError, match="a rate of"):
        Pace(rate)


def test_impossible_concurrency() -> None:
    async def action(_: int) -> None:
        raise AssertionError("must not begin")

    with pytest.raises(UsageError, match="a concurrency of 0"):
        asyncio.run(in_parallel([1], action, concurrency=0))
