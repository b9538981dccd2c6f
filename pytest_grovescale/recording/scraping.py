"""Text scrapes of metrics endpoints at phase edges; only what changed goes into the journal."""

from __future__ import annotations

import asyncio
import math

import aiohttp

from ..kube.client import Client
from ..kube.errors import ApiError
from ..operator.endpoints import Address, authorization, ssl_context
from . import redaction
from .exposition import Scrape
from .ledger import Ledger
from .records import Scraped

TIMEOUT_S = 5.0
MAX_BYTES = 64 << 20

_ACCEPT = "text/plain;version=0.0.4;q=1, */*;q=0.1"
_REFUSALS = {
    401: ": it wants to know who asks; an endpoint of the definition can send the operator's own token",
    403: ": the identity that asks may not read this; its RBAC needs the path among nonResourceURLs",
}


class Target:
    """One endpoint and what it last said."""

    def __init__(self, name: str, address: Address) -> None:
        self.name = name
        self.address = address
        self.scrape = Scrape()
        self.last: dict[str, str] = {}


class Scrapers:
    """All targets. Each scrape has its own time limit; one that hangs delays no other."""

    def __init__(self, client: Client, ledger: Ledger, *, server: str) -> None:
        self._client = client
        self._ledger = ledger
        self._server = server.rstrip("/") + "/"
        self._targets: dict[str, Target] = {}
        self._session: aiohttp.ClientSession | None = None

    def add(self, name: str, address: Address) -> None:
        """Scrape an endpoint from here on; a known name keeps its history and gets the new address."""
        if name in self._targets:
            self._targets[name].address = address
        else:
            self._targets[name] = Target(name, address)

    def remove(self, name: str) -> None:
        """Scrape it no longer."""
        self._targets.pop(name, None)

    async def edge(self, edge: str) -> None:
        """Scrape all targets at once and journal what changed; a target that fails is journaled as failed."""
        await asyncio.gather(*(self._one(target, edge) for target in list(self._targets.values())))

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _one(self, target: Target, edge: str) -> None:
        began = self._ledger.now()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                body = await self._read(target.address)
            found = target.scrape.parse(body.decode("utf-8"))
        except TimeoutError:
            self._failed(target, f"no answer within {TIMEOUT_S:g} s")
        except (aiohttp.ClientError, ApiError, ValueError, OSError) as error:
            self._failed(target, str(error) or type(error).__name__)
        else:
            at = self._ledger.now()
            self._ledger.add(changes(target, found, at=at, edge=edge, took_ns=at - began))

    async def _read(self, address: Address) -> bytes:
        if address.url.startswith(self._server):
            path = address.url[len(self._server) - 1 :]
            return await self._client.request("GET", path, accept="text/plain", timeout=TIMEOUT_S)
        if self._session is None:
            # A fresh connection each time: minutes lie between two edges.
            connector = aiohttp.TCPConnector(force_close=True)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        headers = {"Accept": _ACCEPT, **authorization(address)}
        tls = ssl_context(address)
        async with self._session.get(
            address.url, headers=headers, ssl=tls if tls is not None else True, allow_redirects=False
        ) as response:
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}{_REFUSALS.get(response.status, '')}")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ValueError(f"more than {MAX_BYTES >> 20} MB")
            return bytes(body)

    def _failed(self, target: Target, message: str) -> None:
        self._ledger.failed(f"scrape:{target.name}", f"{redaction.url(target.address.url)}: {message}")


def changes(target: Target, found: dict[str, str], *, at: int, edge: str, took_ns: int) -> Scraped:
    """Return what differs from the target's last scrape, and make ``found`` the last one.

    Compared as text, so that NaN equals itself and a value is new only when it is written otherwise.
    """
    last = target.last
    target.last = found
    samples: dict[str, float] = {}
    special: dict[str, str] = {}
    gone = [series for series in last if series not in found]
    for series, text in found.items():
        if last.get(series) == text:
            continue
        value = float(text)
        if math.isfinite(value):
            samples[series] = value
            continue
        special[series] = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        if series in last:
            gone.append(series)
    return Scraped(
        at=at,
        target=target.name,
        edge=edge,
        took_ns=took_ns,
        samples={redaction.value(series): value for series, value in samples.items()},
        special={redaction.value(series): value for series, value in special.items()},
        gone=[redaction.value(series) for series in gone],
    )
