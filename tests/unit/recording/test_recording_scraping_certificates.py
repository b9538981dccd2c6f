"""Endpoints that know their readers by a client certificate."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from pytest_grovescale.cluster import pki
from pytest_grovescale.endpoints import Address
from pytest_grovescale.recording.records import Scraped, SourceFailed
from pytest_grovescale.recording.scrape_targets import AtUrl, ScrapeTarget
from tests.unit.recording.scraping_harness import Harness, reply, scraping, serving


def written(folder: Path) -> tuple[ssl.SSLContext, Address]:
    """Write fresh certificates; return how a server asks for them, and an address without its URL that has them."""
    folder.mkdir(exist_ok=True)
    made = pki.create(("reader",), service_ip="127.0.0.1")
    texts = {
        "ca.crt": made.ca_pem,
        "tls.pem": made.server.cert_pem + made.server.key_pem,
        "reader.crt": made.clients["reader"].cert_pem,
        "reader.key": made.clients["reader"].key_pem,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "tls.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    files = {name: str(folder / name) for name in texts}
    return context, Address(
        url="", ca_file=files["ca.crt"], cert_file=files["reader.crt"], key_file=files["reader.key"]
    )


def target(address: Address, port: int, **changed: str) -> ScrapeTarget:
    fields = {name: getattr(address, name) for name in ("ca_file", "cert_file", "key_file")}
    url = f"https://127.0.0.1:{port}/metrics"
    return ScrapeTarget(name="it", place=AtUrl(address=Address(url=url, **{**fields, **changed})))


def test_a_client_certificate_opens_the_metrics(tmp_path: Path) -> None:
    async def run() -> Harness:
        tls, address = written(tmp_path)
        async with serving(ssl=tls) as endpoint:
            endpoint.replies["/metrics"] = reply("a 1\n")
            async with scraping(tmp_path, target(address, endpoint.port)) as harness:
                await harness.scrapers.edge("start:p")
                await harness.scrapers.edge("end:p")
                harness.scrapers.add(target(address, endpoint.port, cert_file="", key_file=""))
                await harness.scrapers.edge("start:q")
                harness.scrapers.add(target(address, endpoint.port, key_file="/nonexistent/reader.key"))
                await harness.scrapers.edge("end:q")
        return harness

    harness = asyncio.run(run())
    assert [scrape.edge for scrape in harness.records(Scraped)] == ["start:p", "end:p"]
    # With TLS 1.3 a server tells only after the handshake that it wants a certificate, by hanging up.
    _, second = harness.records(SourceFailed)
    assert "/nonexistent/reader.key" in second.message


def test_certificates_that_were_replaced_are_read_again(tmp_path: Path) -> None:
    async def run() -> Harness:
        tls, address = written(tmp_path)
        async with serving(ssl=tls) as before:
            before.replies["/metrics"] = reply("a 1\n")
            async with scraping(tmp_path, target(address, before.port)) as harness:
                await harness.scrapers.edge("start:p")
                tls, address = written(tmp_path)
                async with serving(ssl=tls) as after:
                    after.replies["/metrics"] = reply("a 2\n")
                    harness.scrapers.add(target(address, after.port))
                    await harness.scrapers.edge("end:p")
                    await harness.scrapers.close()
        return harness

    harness = asyncio.run(run())
    assert [scrape.samples for scrape in harness.records(Scraped)] == [{"a": 1}, {"a": 2}]


def test_one_that_hangs_in_its_tls_is_left_at_once(tmp_path: Path) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        tls, address = written(tmp_path)
        async with serving(ssl=tls) as endpoint:
            endpoint.replies["/metrics"] = silent
            async with scraping(tmp_path, target(address, endpoint.port), interval=0.02) as harness:
                harness.scrapers.run()
                await endpoint.until_asked("/metrics")
            # No goodbye is waited for: `scraping` has looked that nothing of it is left.

    asyncio.run(run())
