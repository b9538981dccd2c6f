"""The work queue: de-duplication, no key twice at a time, backoff, delays, closing."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.reference_operator.work_queue import WorkQueue


def test_a_key_waits_once() -> None:
    async def run() -> None:
        queue = WorkQueue("q")
        for key in "abaab":
            queue.add(key)
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert len(queue) == 0
        assert queue.adds == 2

    asyncio.run(run())


def test_a_key_added_while_at_work_comes_after() -> None:
    async def run() -> None:
        queue = WorkQueue("q")
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert queue.in_hand == 0

    asyncio.run(run())


def test_backoff_doubles_until_forgotten() -> None:
    async def run() -> list[float]:
        queue = WorkQueue("q")
        delays = [queue.add_rate_limited("a") for _ in range(4)]
        queue.forget("a")
        delays.append(queue.add_rate_limited("a"))
        for _ in range(60):
            last = queue.add_rate_limited("b")
        queue.close()
        return [*delays, last]

    assert asyncio.run(run()) == [0.005, 0.01, 0.02, 0.04, 0.005, 1000.0]


def test_of_two_delays_the_shorter_stands() -> None:
    async def run() -> None:
        queue = WorkQueue("q")
        queue.add_after("a", 3600)
        queue.add_after("a", 0.001)
        queue.add_after("a", 3600)
        assert await queue.get() == "a"
        assert queue.retries == 3
        queue.done("a")
        assert queue.in_hand == 0

    asyncio.run(run())


def test_closing_wakes_all_workers() -> None:
    async def run() -> list[str | None]:
        queue = WorkQueue("q")
        workers = [asyncio.create_task(queue.get()) for _ in range(3)]
        # One turn of the loop, so that they wait.
        await asyncio.sleep(0)
        queue.close()
        queue.add("late")
        return await asyncio.gather(*workers)

    assert asyncio.run(run()) == [None, None, None]


def test_a_cancelled_worker_passes_its_key_on() -> None:
    async def run() -> str | None:
        queue = WorkQueue("q")
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert asyncio.run(run()) == "a"


@given(st.lists(st.tuples(st.sampled_from(["add", "get", "done"]), st.sampled_from("abc")), max_size=60))
def test_nothing_is_lost_and_nothing_runs_twice(steps: list[tuple[str, str]]) -> None:
    async def run() -> None:
        queue, wanted, working = WorkQueue("q"), set[str](), set[str]()
        for step, key in steps:
            if step == "add":
                queue.add(key)
                wanted.add(key)
            elif step == "get" and len(queue):
                got = await queue.get()
                assert got in wanted
                assert got not in working
                assert got is not None
                wanted.discard(got)
                working.add(got)
            elif step == "done" and key in working:
                queue.done(key)
                working.discard(key)
        assert len(queue) == len(wanted - working)

    asyncio.run(run())
