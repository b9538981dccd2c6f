"""Scrapes and readiness of a server that asks for TLS and a token, as Go servers with delegated authentication do."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from pytest_grovescale.endpoints import Address
from pytest_grovescale.operator import readiness, webhooks
from pytest_grovescale.recording.journal import Reader
from pytest_grovescale.recording.records import Scraped, SourceFailed
from pytest_grovescale.recording.scrape_targets import AtUrl, ScrapeTarget
from tests.unit.recording.scraping_harness import scraping

TOKEN = "right-token"


async def _metrics(request: web.BaseRequest) -> web.StreamResponse:
    sent = request.headers.get("Authorization", "")
    if request.path == "/elsewhere":
        return web.Response(text="1" if not sent else "the token came along", status=200 if not sent else 418)
    if not sent:
        return web.Response(status=401)
    if sent != f"Bearer {TOKEN}":
        return web.Response(status=403)
    if request.path == "/moved":
        return web.Response(status=302, headers={"Location": "/elsewhere"})
    return web.Response(text="up 1\n")


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Address]:
    """A server with a certificate of its own, and the address that is let in."""
    webhooks.write(webhooks.issue("127.0.0.1"), folder)
    (folder / "token").write_text(f"{TOKEN}\n")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    runner = web.ServerRunner(web.Server(_metrics), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}/metrics"
    yield Address(url=url, token_file=str(folder / "token"), ca_file=str(folder / "ca.crt"))
    await runner.cleanup()


async def scraped(folder: Path, *addresses: Address) -> list[Scraped | SourceFailed]:
    """Return what each address leaves in a journal."""
    folder.mkdir(exist_ok=True)
    async with scraping(folder) as harness:
        for number, address in enumerate(addresses):
            harness.scrapers.add(ScrapeTarget(name=f"t{number}", place=AtUrl(address=address)))
            await harness.scrapers.edge("start:p")
            harness.scrapers.remove(f"t{number}")
    return [record for record in harness.all() if isinstance(record, Scraped | SourceFailed)]


def test_a_token_and_a_ca_open_the_metrics(tmp_path: Path) -> None:
    async def run() -> list[Scraped | SourceFailed]:
        async with serving(tmp_path) as address:
            unverified = msgspec.structs.replace(address, ca_file="", insecure_skip_verify=True)
            return await scraped(tmp_path, address, unverified)

    first, second = asyncio.run(run())
    assert isinstance(first, Scraped)
    assert isinstance(second, Scraped)
    assert first.samples == second.samples == {"up": 1.0}


def test_the_token_is_read_again_for_each_scrape(tmp_path: Path) -> None:
    async def run() -> list[Scraped | SourceFailed]:
        async with serving(tmp_path) as address:
            (tmp_path / "token").write_text("of a former start")
            before = await scraped(tmp_path, address)
            (tmp_path / "token").write_text(TOKEN)
            (tmp_path / "recording.jsonl").unlink()
            return before + await scraped(tmp_path, address)

    before, after = asyncio.run(run())
    assert isinstance(before, SourceFailed)
    assert "HTTP 403" in before.message
    assert isinstance(after, Scraped)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"token_file": ""}, "send the operator's own token"),
        ({"ca_file": ""}, "certificate"),
        ({"token_file": "/nonexistent/token"}, "/nonexistent/token"),
        ({"ca_file": "/nonexistent/ca.crt"}, "/nonexistent/ca.crt"),
    ],
)
def test_what_keeps_it_out_is_reported_and_never_the_token(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    async def run() -> list[Scraped | SourceFailed]:
        async with serving(tmp_path) as address:
            return await scraped(tmp_path, msgspec.structs.replace(address, **changed))

    (failed,) = asyncio.run(run())
    assert isinstance(failed, SourceFailed)
    assert said in failed.message
    assert TOKEN not in b"".join(Reader(tmp_path / "recording.jsonl").lines()).decode()


def test_readiness_is_let_in_the_same_way(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with serving(tmp_path) as address:
            others = [
                msgspec.structs.replace(address, token_file=""),
                msgspec.structs.replace(address, ca_file=""),
                # A redirect may lead anywhere: the token stays with the server that it is for.
                msgspec.structs.replace(address, url=address.url.replace("/metrics", "/moved")),
            ]
            return [await asyncio.to_thread(readiness.answers, each) for each in (address, *others)]

    ready, refused, unknown, moved = asyncio.run(run())
    assert ready == ""
    assert "answered 401" in refused
    assert "certificate verify failed" in unknown.lower()
    assert moved == ""
