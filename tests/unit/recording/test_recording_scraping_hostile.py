"""Endpoints at their worst: each leaves a clear mark, and the target beside it is scraped as ever."""

from __future__ import annotations

import asyncio
import gzip
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.recording.journal import Reader
from pytest_grovescale.recording.records import Scraped, SourceFailed, TargetSeen
from pytest_grovescale.recording.scraping import target as target_module
from tests.unit.recording.scraping_harness import TEXT, Harness, Reply, reply, scraping, serving

GOOD = reply("good_total 1\n")


async def _without_end(writer: asyncio.StreamWriter) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {TEXT}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    while True:
        writer.write(b"4\r\na 1\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def _endless_flood(writer: asyncio.StreamWriter) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {TEXT}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    chunk = b"100000\r\n" + b"#" * 0x100000 + b"\r\n"
    while True:
        writer.write(chunk)
        await writer.drain()


async def _silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _hangs_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


HOSTILE: dict[str, tuple[Reply, str]] = {
    "silent": (_silent, "no answer within"),
    "without-end": (_without_end, "no answer within"),
    "flood": (_endless_flood, "67,108,864 bytes"),
    "200-mb": (reply("a 1\n", length=200 << 20), "67,108,864 bytes"),
    "truncated": (reply("a 1\nb 2\n", length=100), "Not enough data"),
    "cut-in-a-line": (reply("a 1\nb 2"), "line 2"),
    "binary": (reply(bytes(range(256))), "line"),
    "bomb": (reply(gzip.compress(b"\0" * (80 << 20), 1), Content_Encoding="gzip"), "67,108,864 bytes"),
    "half-a-gzip": (reply(gzip.compress(b"a 1\n" * 9)[:-9], Content_Encoding="gzip"), "cut off"),
    "no-gzip": (reply("a 1\n", Content_Encoding="gzip"), "unpacked"),
    "brotli": (reply("a 1\n", Content_Encoding="br"), "'br'"),
    "html": (reply("<html>log in</html>", type="text/html"), "found text/html"),
    "json": (reply("{}", type="application/json"), "application/json"),
    "error": (reply("oops", status="500 Internal Server Error"), "HTTP 500"),
    "no-such-status": (reply("", status="799 Whatever"), "HTTP 799"),
    "redirect": (reply("", status="302 Found", Location="http://127.0.0.1:1/"), "HTTP 302"),
    "hangs-up": (_hangs_up, ""),
    "no-http": (_no_http, "400"),
    "large-header": (reply("a 1\n", X_Large="x" * 20_000), "400"),
    "duplicate": (reply("a 1\na 2\n"), "line 2"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_it_is_marked_and_the_rest_unharmed(
    kind: str, tmp_path: Path, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that ends by the time limit is not waited for; all others are to end before it, on any machine.
    never_ends = HOSTILE[kind][1] == "no answer within"
    monkeypatch.setattr(target_module, "TIMEOUT_S", 1.0 if never_ends else 60.0)

    async def run() -> Harness:
        worst, _ = HOSTILE[kind]
        async with serving() as endpoint:
            targets = endpoint.target("bad", GOOD), endpoint.target("good", GOOD)
            async with scraping(tmp_path, *targets) as harness:
                await harness.scrapers.edge("start:p")
                endpoint.replies["/bad"] = worst
                await harness.scrapers.edge("end:p")
                endpoint.replies["/bad"] = reply("good_total 2\n")
                await harness.scrapers.edge("start:q")
        return harness

    harness = asyncio.run(run())
    (failed,) = harness.records(SourceFailed)
    assert failed.source == "scrape:bad"
    assert HOSTILE[kind][1] in failed.message
    assert "/bad: " in failed.message
    assert re.sub(r"\d[\d.]*(?: m?s|m\d+s)", "<age>", failed.message.rpartition("; ")[2]) == snapshot
    assert [scrape.edge for scrape in harness.scrapes("good")] == ["start:p", "end:p", "start:q"]
    # Nothing of a bad answer is taken in, and the next good one is told against the last good one.
    assert [(scrape.edge, scrape.samples) for scrape in harness.scrapes("bad")] == [
        ("start:p", {"good_total": 1}),
        ("start:q", {"good_total": 2}),
    ]
    assert [seen.target for seen in harness.records(TargetSeen)].count("bad") == 2


def test_a_restart_in_the_middle_of_a_scrape_loses_that_scrape_only(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with serving() as endpoint:
            target = endpoint.target("it", reply("requests_total 900\nold 1\n"))
            async with scraping(tmp_path, target) as harness:
                await harness.scrapers.edge("start:p")
                endpoint.replies["/it"] = reply("requests_total 90", length=40)
                await harness.scrapers.edge("end:p")
                endpoint.replies["/it"] = reply("requests_total 3\n")
                await harness.scrapers.edge("start:q")
        return harness

    harness = asyncio.run(run())
    assert [(scrape.samples, scrape.gone) for scrape in harness.scrapes("it")] == [
        ({"requests_total": 900, "old": 1}, []),
        ({"requests_total": 3}, ["old"]),
    ]


def test_values_that_are_no_numbers_and_families_that_change_their_type(tmp_path: Path) -> None:
    first = "# TYPE a counter\na NaN\nb +Inf\nc -Inf\nd 1\n"
    second = "# TYPE a gauge\na NaN\nb 1\nc -Inf\nd NaN\n"

    async def run() -> Harness:
        async with serving() as endpoint, scraping(tmp_path, endpoint.target("it", reply(first))) as harness:
            await harness.scrapers.edge("start:p")
            endpoint.replies["/it"] = reply(second)
            await harness.scrapers.edge("end:p")
        return harness

    before, after = asyncio.run(run()).records(Scraped)
    assert (before.samples, before.special) == ({"d": 1}, {"a": "NaN", "b": "+Inf", "c": "-Inf"})
    assert before.families["a"].type == "counter"
    assert (after.samples, after.special, after.gone) == ({"b": 1}, {"d": "NaN"}, ["d"])
    assert {name: family.type for name, family in after.families.items()} == {"a": "gauge"}


def test_what_prometheus_refuses_is_recorded_with_the_scrape(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with serving() as endpoint, scraping(tmp_path, endpoint.target("it", reply("a 1\n"))) as harness:
            await harness.scrapers.edge("start:p")
            endpoint.replies["/it"] = reply("a 1\nb 1\r\n# TYPE b gauge\r\n")
            await harness.scrapers.edge("end:p")
        return harness

    before, after = asyncio.run(run()).records(Scraped)
    assert (before.refused, len(after.refused)) == ([], 1)


def test_no_targets_at_all(tmp_path: Path) -> None:
    async def run() -> Harness:
        async with scraping(tmp_path, interval=0.01) as harness:
            harness.scrapers.run()
            await harness.scrapers.edge("start:p")
            harness.scrapers.run()
            harness.scrapers.remove("nothing")
        return harness

    assert not asyncio.run(run()).records(Scraped)


def test_credentials_in_labels_are_blotted_out(tmp_path: Path) -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVz.c2lnbmF0dXJl"

    async def run() -> Harness:
        async with serving() as endpoint:
            said = f'a{{t="{token}"}} 1\nb 1\n# HELP b of {token}\n'
            async with scraping(tmp_path, endpoint.target("it", reply(said))) as harness:
                await harness.scrapers.edge("start:p")
                endpoint.replies["/it"] = reply(said.replace(" 1\n", " 2\n"))
                await harness.scrapers.edge("end:p")
                endpoint.replies["/it"] = reply("b 2\n")
                await harness.scrapers.edge("start:q")
        return harness

    harness = asyncio.run(run())
    blotted = 'a{t="[redacted]"}'
    assert [(s.samples, s.gone) for s in harness.records(Scraped)] == [
        ({blotted: 1, "b": 1}, []),
        ({blotted: 2, "b": 2}, []),
        ({}, [blotted]),
    ]
    assert token not in b"".join(Reader(harness.path).lines()).decode()
