"""A target that a process serves: found where it listens now, and nowhere else."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pytest_grovescale.endpoints import Address
from pytest_grovescale.procfs import Identity, ports_of, started_ticks
from pytest_grovescale.recording.records import Scraped, SourceFailed, TargetSeen
from pytest_grovescale.recording.scrape_targets import OfProcess, ScrapeTarget
from pytest_grovescale.recording.scraping import locators, target
from tests.processes import new_descendants
from tests.unit.recording.scraping_harness import Endpoint, Harness, reply, scraping, serving, until

TICK = 0.05
OURS = Identity(os.getpid(), started_ticks(os.getpid()))
"""The endpoints of these tests are served by the very process that runs them."""

METRICS = reply("a 1\n")
PAGE = reply("<html>", type="text/html")


@pytest.fixture(autouse=True)
def _no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only what a test starts be found: no more ports are tried than an operator has."""
    new_descendants(monkeypatch, locators)
    known = ports_of([os.getpid()])
    monkeypatch.setattr(locators, "ports_of", lambda pids: ports_of(pids) - known)


async def _silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


def operator(port: int) -> ScrapeTarget:
    address = Address(url=f"http://127.0.0.1:{port}/metrics")
    return ScrapeTarget(name="operator", place=OfProcess(process="operator", address=address))


class Processes:
    """Which process has the name."""

    def __init__(self) -> None:
        self.now: Identity | None = OURS

    def __call__(self, name: str) -> Identity | None:
        assert name == "operator"
        return self.now


async def _served(stack: AsyncExitStack, answer: object = METRICS) -> Endpoint:
    endpoint = await stack.enter_async_context(serving())
    endpoint.replies["/metrics"] = answer  # type: ignore[assignment]
    return endpoint


def test_a_moved_port_is_found_in_the_tick_in_which_it_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One port after the other, those that never answer would use up the time of the whole scrape. A busy machine needs
    # more of it than a scrape has, to look which ports there are.
    for limit in ("TIMEOUT_S", "_ELSEWHERE_S"):
        monkeypatch.setattr(target, limit, 60.0)

    async def run() -> tuple[Harness, list[Endpoint]]:
        async with AsyncExitStack() as stack:
            # Other ports of the same process: pages, an empty answer, and some that never answer.
            for other in (PAGE, reply(""), reply("", status="404 Not Found"), _silent, _silent, _silent):
                await _served(stack, other)
            first_life = await stack.enter_async_context(AsyncExitStack())
            first = await _served(first_life)
            moving = operator(first.port)
            harness = await stack.enter_async_context(scraping(tmp_path, moving, process=Processes()))
            await harness.scrapers.edge("start:p")
            second = await _served(stack, reply("a 2\n"))
            await first_life.aclose()
            await harness.scrapers.edge("end:p")
            # And it stays there, without another look.
            asked = len(second.asked)
            await harness.scrapers.edge("start:q")
            assert len(second.asked) == asked + 1
        return harness, [first, second]

    harness, (first, second) = asyncio.run(run())
    assert [(scrape.edge, scrape.samples) for scrape in harness.records(Scraped)] == [
        ("start:p", {"a": 1}),
        ("end:p", {"a": 2}),
        ("start:q", {}),
    ]
    assert [seen.url for seen in harness.records(TargetSeen)] == [first.url(), second.url()]
    assert not harness.records(SourceFailed)


def test_it_is_found_again_where_its_definition_says(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with AsyncExitStack() as stack:
            first_life = await stack.enter_async_context(AsyncExitStack())
            first = await _served(first_life)
            harness = await stack.enter_async_context(scraping(tmp_path, operator(first.port), process=Processes()))
            second_life = await stack.enter_async_context(AsyncExitStack())
            await _served(second_life)
            await first_life.aclose()
            await harness.scrapers.edge("start:p")
            await second_life.aclose()
            back = await stack.enter_async_context(serving(first.port))
            back.replies["/metrics"] = reply("a 3\n")
            await harness.scrapers.edge("end:p")
        return harness

    assert [scrape.samples for scrape in asyncio.run(run()).records(Scraped)] == [{"a": 1}, {"a": 3}]


def test_a_stranger_at_its_port_is_not_taken_for_it(tmp_path: Path) -> None:
    """The process listens on another port only, so whoever answers at this one is somebody else."""

    async def run() -> Harness:
        processes = Processes()
        processes.now = Identity(os.getppid(), started_ticks(os.getppid()))
        async with serving() as endpoint:
            endpoint.replies["/metrics"] = METRICS
            async with scraping(tmp_path, operator(endpoint.port), process=processes) as harness:
                await harness.scrapers.edge("start:p")
                assert not endpoint.asked
        return harness

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(locators, "ports_of", lambda pids: {1})
        (failed,) = asyncio.run(run()).records(SourceFailed)
    assert "does not listen on port" in failed.message


def test_a_process_that_is_not_there_is_no_failure_between_edges(tmp_path: Path) -> None:
    async def run() -> Harness:
        processes = Processes()
        async with serving() as endpoint:
            endpoint.replies["/metrics"] = METRICS
            async with scraping(tmp_path, operator(endpoint.port), process=processes, interval=TICK) as harness:
                harness.scrapers.run()
                await until(lambda: harness.records(Scraped))
                processes.now = None
                scraped = harness.scrapers._targets["operator"]
                await until(lambda: scraped.status.error)
                assert scraped.status.error.endswith("its process does not run")
                await harness.scrapers.edge("start:p")
        return harness

    (failed,) = asyncio.run(run()).records(SourceFailed)
    assert "its process does not run" in failed.message


@pytest.mark.parametrize("starting", [True, False])
def test_a_process_that_starts_has_a_while_to_answer(
    starting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locators, "STARTING_S", 60.0 if starting else 0.0)

    async def run() -> Harness:
        async with serving() as endpoint:
            endpoint.replies["/metrics"] = reply("", status="503 Not yet")
            async with scraping(tmp_path, operator(endpoint.port), process=Processes(), interval=TICK) as harness:
                harness.scrapers.run()
                await endpoint.until_asked("/metrics", 3)
                endpoint.replies["/metrics"] = METRICS
                await until(lambda: harness.records(Scraped))
                # From now on it has answered: the next failure is news at once.
                endpoint.replies["/metrics"] = reply("", status="500 Broken")
                asked = len(endpoint.asked)
                await endpoint.until_asked("/metrics", asked + 2)
        return harness

    said = [failed.message for failed in asyncio.run(run()).records(SourceFailed)]
    assert ["HTTP 503" in message for message in said] == ([False] if starting else [True, False])


def test_a_process_that_ends_in_the_middle_of_a_scrape_is_reported_by_its_end(tmp_path: Path) -> None:
    async def run() -> Harness:
        processes = Processes()

        async def ends(writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()
            asyncio.get_running_loop().call_later(0.01, setattr, processes, "now", None)

        async with serving() as endpoint:
            endpoint.replies["/metrics"] = METRICS
            async with scraping(tmp_path, operator(endpoint.port), process=processes, interval=TICK) as harness:
                harness.scrapers.run()
                await until(lambda: harness.records(Scraped))
                endpoint.replies["/metrics"] = ends
                await until(lambda: harness.scrapers._targets["operator"].status.error.endswith("does not run"))
        return harness

    assert not asyncio.run(run()).records(SourceFailed)


def test_a_process_that_no_one_measures_is_read_by_its_url(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with serving() as endpoint:
            endpoint.replies["/metrics"] = METRICS
            async with scraping(tmp_path, operator(endpoint.port)) as harness:
                await harness.scrapers.edge("start:p")
                endpoint.replies["/metrics"] = reply("", status="500 Broken")
                await harness.scrapers.edge("end:p")
        return harness

    harness = asyncio.run(run())
    assert [scrape.edge for scrape in harness.records(Scraped)] == ["start:p"]
    assert len(harness.records(SourceFailed)) == 1


def test_the_ports_of_a_process_are_those_that_it_listens_on() -> None:
    async def run() -> tuple[set[int], set[int]]:
        async with serving() as endpoint:
            return ports_of([os.getpid()]), {endpoint.port}

    found, served = asyncio.run(run())
    assert served <= found
    assert not served & ports_of([os.getpid()])
    assert ports_of([]) == set()
