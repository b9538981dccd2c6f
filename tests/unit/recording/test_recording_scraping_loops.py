"""Loops: each target in its own rhythm, whatever the others do, and nothing left when they are stopped."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.exposition.families import Exposition
from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.recording.record_writer import RecorderClock
from pytest_grovescale.recording.records import AnyRecord, Scraped, SourceFailed, TargetGone, TargetSeen
from pytest_grovescale.recording.scraping import target as target_module
from tests.unit.recording.scraping_harness import Endpoint, Harness, reply, scraping, serving, until

TICK = 0.02


class Gate:
    """Replies once it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, writer: asyncio.StreamWriter) -> None:
        await self.open.wait()
        await reply("a 1\n")(writer)


def test_every_target_is_scraped_again_and_again_and_reported_what_is_spoken(tmp_path: Path) -> None:
    async def run() -> tuple[Harness, Endpoint]:
        async with serving() as endpoint:
            targets = [endpoint.target(name, reply(f"{name} 1\n")) for name in "abc"]
            async with scraping(tmp_path, *targets, interval=TICK) as harness:
                harness.scrapers.run()
                for name in "abc":
                    await endpoint.until_asked(f"/{name}", 5)
        return harness, endpoint

    harness, endpoint = asyncio.run(run())
    for name in "abc":
        first, *others = harness.scrapes(name)
        assert (first.samples, first.edge) == ({name: 1}, "")
        # Nothing changed: that it was scraped is all there is to say.
        assert all(other == Scraped(at=other.at, target=name, took_ns=other.took_ns) for other in others)
        assert len(others) >= 3
    assert "application/vnd.google.protobuf" in endpoint.heads[0]
    assert "Accept-Encoding: identity" in endpoint.heads[0]
    assert [seen.url for seen in harness.records(TargetSeen) if seen.target == "a"] == [endpoint.url("/a")]


def test_an_answer_that_takes_long_to_read_was_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder without a core, or a first reading of a large page: the target is not to blame."""
    read = Reader.read

    def slowly(reader: Reader, body: bytes, content_type: str = "") -> Exposition:
        time.sleep(2 * target_module.TIMEOUT_S)
        return read(reader, body, content_type)

    monkeypatch.setattr(target_module, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(target_module, "_LARGE", 0)
    monkeypatch.setattr(Reader, "read", slowly)

    async def run() -> Harness:
        async with serving() as endpoint, scraping(tmp_path, endpoint.target("it", reply("a 1\n"))) as harness:
            await harness.scrapers.edge("start:p")
        return harness

    harness = asyncio.run(run())
    assert [scrape.samples for scrape in harness.scrapes("it")] == [{"a": 1}]
    assert not harness.records(SourceFailed)


def test_one_that_is_wanted_soon_is_scraped_before_its_time_and_only_where_it_has_a_schedule(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with serving() as endpoint:
            targets = [endpoint.target(name, reply(f"{name} 1\n")) for name in "ab"]
            async with scraping(tmp_path, *targets, interval=3600) as harness:
                harness.scrapers.soon("a")
                harness.scrapers.run()
                for count in (1, 2):
                    harness.scrapers.soon("a")
                    await until(lambda count=count: len(harness.scrapes("a")) == count)  # type: ignore[misc]
        return harness

    assert not asyncio.run(run()).scrapes("b")


def test_one_whose_schedule_rests_is_scraped_beside_and_an_edge_does_not_wait_for_it(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with serving() as endpoint:
            gate = Gate()
            at_edges = msgspec.structs.replace(endpoint.target("at-edges", reply("a 1\n")), interval_s=0)
            targets = [endpoint.target("a", reply("a 1\n")), endpoint.target("hangs", gate), at_edges]
            async with scraping(tmp_path, *targets, interval=3600) as harness:
                for name in ("at-edges", "a", "hangs", "unknown"):
                    harness.scrapers.beside(name)
                await until(lambda: len(harness.scrapes("a")) == 1)
                await endpoint.until_asked("/hangs")
                await harness.scrapers.halt()
        return harness

    harness = asyncio.run(run())
    assert not harness.scrapes("hangs")
    assert not harness.scrapes("at-edges")
    assert not harness.records(SourceFailed)


class Counting:
    """Replies how often it was asked by then; the first time not before it is asked again, or a while has passed."""

    def __init__(self) -> None:
        self.asked = 0
        self.again = asyncio.Event()

    async def __call__(self, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        count = self.asked
        if count > 1:
            self.again.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.again.wait(), 0.2)
        await reply(f"# TYPE a counter\na {count}\n")(writer)


def test_scrapes_of_one_target_never_overlap(tmp_path: Path) -> None:
    """Of two at once the older answer could be read last, and a counter would seem to have been reset."""

    async def run() -> Harness:
        async with serving() as endpoint:
            target = endpoint.target("a", Counting())
            async with scraping(tmp_path, target, interval=3600) as harness:
                harness.scrapers.beside("a")
                harness.scrapers.beside("a")
                await until(lambda: len(harness.scrapes("a")) == 2)
        return harness

    first, second = asyncio.run(run()).scrapes("a")
    assert (first.samples, second.samples) == ({"a": 1}, {"a": 2})
    assert second.at - second.took_ns >= first.at


def test_one_that_hangs_keeps_no_one_waiting(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with serving() as endpoint:
            hanging = [endpoint.target(f"hangs-{number}", Gate()) for number in range(20)]
            good = endpoint.target("good", reply("a 1\n"))
            async with scraping(tmp_path, *hanging, good, interval=TICK) as harness:
                harness.scrapers.run()
                await endpoint.until_asked("/hangs-0")
                before = len(harness.scrapes("good"))
                await until(lambda: len(harness.scrapes("good")) >= before + 10)
        return harness

    assert not asyncio.run(run()).records(SourceFailed)


def test_a_slow_one_is_asked_less_often_and_has_nothing_to_catch_up_with(tmp_path: Path) -> None:
    async def run() -> Endpoint:
        gate = Gate()
        async with serving() as endpoint:
            slow, other = endpoint.target("slow", gate), endpoint.target("other", reply("a 1\n"))
            async with scraping(tmp_path, slow, other, interval=TICK) as harness:
                harness.scrapers.run()
                await endpoint.until_asked("/slow")
                asked = endpoint.asked.count("/other")
                await endpoint.until_asked("/other", asked + 20)
                assert endpoint.asked.count("/slow") == 1
                gate.open.set()
                asked = endpoint.asked.count("/other")
                await endpoint.until_asked("/other", asked + 2)
                await harness.scrapers.halt()
        return endpoint

    # Twenty of its ticks went by; in two more it is asked about twice, not twenty times.
    assert asyncio.run(run()).asked.count("/slow") <= 1 + 2 + 2


def test_an_edge_takes_the_place_of_what_the_loops_do(tmp_path: Path) -> None:
    async def run() -> Harness:
        gate = Gate()
        async with serving() as endpoint, scraping(tmp_path, endpoint.target("it", gate), interval=TICK) as harness:
            harness.scrapers.run()
            await endpoint.until_asked("/it")
            gate.open.set()
            await harness.scrapers.edge("start:p")
            asked = len(endpoint.asked)
            assert not any(task.get_name() == "scrape it" for task in asyncio.all_tasks())
            harness.scrapers.run(rest=True)
            await endpoint.until_asked("/it", asked + 1)
            await harness.scrapers.edge("end:p")
        return harness

    edges = [scrape.edge for scrape in asyncio.run(run()).records(Scraped)]
    assert edges[0] == "start:p"
    assert edges[-1] == "end:p"
    assert set(edges[1:-1]) <= {""}


def test_at_an_edge_no_time_limit_runs_out_on_our_own_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer takes a part of the time limit to read, and all of them together many times as long."""
    monkeypatch.setattr(target_module, "TIMEOUT_S", 1.0)
    read = Reader.read

    def slowly(reader: Reader, body: bytes, content_type: str = "") -> Exposition:
        time.sleep(0.05)
        return read(reader, body, content_type)

    monkeypatch.setattr(Reader, "read", slowly)

    async def run() -> Harness:
        async with serving() as endpoint:
            targets = [endpoint.target(f"t{number}", reply("a 1\n")) for number in range(40)]
            async with scraping(tmp_path, *targets) as harness:
                await harness.scrapers.edge("start:p")
        return harness

    harness = asyncio.run(run())
    assert not harness.records(SourceFailed)
    assert len(harness.records(Scraped)) == 40


def test_a_wall_clock_that_is_set_moves_no_scrape(tmp_path: Path) -> None:
    ahead = [0]
    clock = RecorderClock(wall=lambda: time.time_ns() + ahead[0])

    async def run() -> Harness:
        async with serving() as endpoint:
            target = endpoint.target("it", reply("a 1\n"))
            async with scraping(tmp_path, target, interval=TICK, clock=clock) as harness:
                harness.scrapers.run()
                for step in (3_600 * 10**9, -7_200 * 10**9):
                    ahead[0] += step
                    asked = len(endpoint.asked)
                    await endpoint.until_asked("/it", asked + 3)
        return harness

    scrapes = asyncio.run(run()).scrapes("it")
    assert all(0 < later.at - earlier.at < 60 * 10**9 for earlier, later in itertools.pairwise(scrapes))
    assert all(scrape.took_ns < 60 * 10**9 for scrape in scrapes)


def test_without_an_interval_only_edges_are_scraped(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with serving() as endpoint:
            never = endpoint.target("never", reply("a 1\n"), interval_s=0)
            often = endpoint.target("often", reply("a 1\n"), interval_s=TICK)
            async with scraping(tmp_path, never, often, interval=5.0) as harness:
                harness.scrapers.run()
                await endpoint.until_asked("/often", 3)
                await harness.scrapers.edge("start:p")
        return harness

    harness = asyncio.run(run())
    assert [scrape.edge for scrape in harness.scrapes("never")] == ["start:p"]
    assert len(harness.scrapes("often")) >= 3


def test_a_failure_is_reported_when_it_is_new_and_at_edges(tmp_path: Path) -> None:
    broken = reply("", status="500 Broken")

    async def run() -> Harness:
        async with serving() as endpoint, scraping(tmp_path, endpoint.target("it", broken), interval=TICK) as harness:
            harness.scrapers.run()
            await endpoint.until_asked("/it", 5)
            endpoint.replies["/it"] = reply("a 1\n")
            await until(lambda: harness.records(Scraped))
            endpoint.replies["/it"] = broken
            asked = len(endpoint.asked)
            await endpoint.until_asked("/it", asked + 5)
            endpoint.replies["/it"] = reply("no exposition\n")
            await endpoint.until_asked("/it", asked + 10)
            await harness.scrapers.edge("start:p")
        return harness

    harness = asyncio.run(run())
    story = [_reported(record) for record in harness.all() if isinstance(record, SourceFailed | TargetSeen)]
    assert story == ["HTTP 500, it has never answered", "seen", "HTTP 500", "line 1", "line 1"]


def _reported(record: AnyRecord) -> str:
    if not isinstance(record, SourceFailed):
        return "seen"
    assert ("never answered" in record.message) != record.message.endswith(" old")
    what = "HTTP 500" if "HTTP 500" in record.message else "line 1" if "line 1" in record.message else record.message
    return f"{what}, it has never answered" if "never" in record.message else what


def test_one_that_flaps_is_up_and_down_and_no_trouble_to_others(tmp_path: Path) -> None:
    answers = [reply("a 1\n"), reply("", status="503 Flapping")]

    async def flapping(writer: asyncio.StreamWriter) -> None:
        answers.reverse()
        await answers[0](writer)

    async def run() -> Harness:
        async with serving() as endpoint:
            flaps, good = endpoint.target("flaps", flapping), endpoint.target("good", reply("a 1\n"))
            async with scraping(tmp_path, flaps, good, interval=TICK) as harness:
                harness.scrapers.run()
                await endpoint.until_asked("/flaps", 20)
                await endpoint.until_asked("/good", 20)
        return harness

    harness = asyncio.run(run())
    mine = [type(r) for r in harness.all() if isinstance(r, SourceFailed | TargetSeen) and "good" not in str(r)]
    assert len(mine) >= 15
    assert all(one is not other for one, other in itertools.pairwise(mine))
    assert all(scrape.samples == {} for scrape in harness.scrapes("flaps")[1:])


def test_targets_come_and_go_while_others_are_scraped(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with serving() as endpoint:
            stays = endpoint.target("stays", reply("a 1\n"))
            comes = endpoint.target("comes", reply("b 1\n"))
            async with scraping(tmp_path, stays, interval=TICK) as harness:
                harness.scrapers.run()
                for _ in range(10):
                    harness.scrapers.add(comes)
                    asked = endpoint.asked.count("/comes")
                    await endpoint.until_asked("/comes", asked + 1)
                    await until(lambda: harness.scrapes("comes"))
                    harness.scrapers.remove("comes")
                asked = endpoint.asked.count("/stays")
                await endpoint.until_asked("/stays", asked + 2)
        return harness

    harness = asyncio.run(run())
    assert {gone.target for gone in harness.records(TargetGone)} == {"comes"}
    reported = [type(record) for record in harness.all() if getattr(record, "target", "") == "comes"]
    # Each life begins with all of it, and nothing is heard of it after its end.
    lives = "".join({TargetSeen: "s", Scraped: "r", TargetGone: "g"}[kind] for kind in reported)
    assert all(life.startswith("sr") for life in lives.rstrip("g").split("g") if life)
    assert not any(scrape.gone for scrape in harness.scrapes("comes"))


def test_a_known_name_goes_on_elsewhere_with_its_history(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with (
            serving() as endpoint,
            serving() as other,
            scraping(tmp_path, endpoint.target("it", reply("a 1\nb 1\n"))) as harness,
        ):
            await harness.scrapers.edge("start:p")
            harness.scrapers.add(other.target("it", reply("a 1\nb 2\n")))
            await harness.scrapers.edge("end:p")
        return harness

    harness = asyncio.run(run())
    assert [scrape.samples for scrape in harness.scrapes("it")] == [{"a": 1, "b": 1}, {"b": 2}]
    assert len({seen.url for seen in harness.records(TargetSeen)}) == 2


def test_large_answers_are_read_beside_the_loop(tmp_path: Path) -> None:
    body = "".join(f'a{{n="{number}"}} 1\n' for number in range(20_000))

    async def run() -> Harness:
        async with serving() as endpoint, scraping(tmp_path, endpoint.target("large", reply(body))) as harness:
            await harness.scrapers.edge("start:p")
            scrape = asyncio.create_task(harness.scrapers.edge("end:p"))
            await endpoint.until_asked("/large", 2)
            scrape.cancel()
            await asyncio.wait({scrape})
            await harness.scrapers.edge("start:q")
        return harness

    scrapes = asyncio.run(run()).scrapes("large")
    assert [(scrape.edge, len(scrape.samples)) for scrape in scrapes if scrape.edge != "end:p"] == [
        ("start:p", 20_000),
        ("start:q", 0),
    ]


def test_a_defect_of_ours_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **others: object) -> None:
        raise RuntimeError("a defect")

    async def run() -> Harness:
        async with (
            serving() as endpoint,
            scraping(tmp_path, endpoint.target("it", reply("a 1\n")), interval=TICK) as harness,
        ):
            monkeypatch.setattr(target_module, "changes", broken)
            harness.scrapers.run()
            await until(lambda: harness.records(SourceFailed))
        return harness

    (failed,) = asyncio.run(run()).records(SourceFailed)
    assert failed.message == "RuntimeError: a defect"
