"""HTTP client of one Prometheus: read-only, except for the configuration reload of the run's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from ..endpoints import Address, authorization, ssl_context
from ..errors import PrometheusError
from .answers import Answer, QueryError, Scalar, decode, decode_data

QUERY_S = 10.0
_OTHER_S = 10.0
_MARGIN_S = 2.0
"""Added to the server's timeout, so that its error response for a timed-out query arrives."""
_CONNECTIONS = 64
_REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


class ScrapedTarget(msgspec.Struct, frozen=True, rename="camel"):
    """A target in Prometheus' target list."""

    labels: dict[str, str]
    scrape_url: str
    health: str
    """``up``, ``down``, ``unknown`` before its first scrape."""
    last_error: str = ""


class _Targets(msgspec.Struct, rename="camel"):
    active_targets: list[ScrapedTarget] = []


class Metadata(msgspec.Struct, frozen=True):
    """Metadata of a metric family, from its targets."""

    type: str
    help: str = ""
    unit: str = ""


class Api:
    """An open connection to a Prometheus; an asynchronous context manager. Belongs to one event loop."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.ahead_s = 0.0
        """Difference of its clock to this machine's, s, positive if ahead; valid after `open`."""
        self._base = address.url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> Self:
        """Connect. Raises PrometheusError if it is unreachable, or rejects the credentials."""
        loopback = urlsplit(self._base).hostname in ("127.0.0.1", "::1", "localhost")
        try:
            tls = ssl_context(self.address)
        except OSError as error:
            raise PrometheusError(f"{self._base}: the CA file cannot be used: {error}") from error
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=tls if tls is not None else True)
        # A proxy of the environment must not handle loopback requests.
        self._session = aiohttp.ClientSession(connector=connector, trust_env=not loopback)
        try:
            await self._compare_clocks()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def now(self) -> float:
        """Return the current time of its clock, Unix time, s."""
        return time.time() + self.ahead_s

    async def query(self, query: str, *, at: float | None = None, timeout_s: float = QUERY_S) -> Answer:
        """Return the result of an instant query, evaluated ``at`` a Unix time (s; default: now).

        Raises QueryError if it fails or takes longer than ``timeout_s``, PrometheusError without an answer.
        """
        form = {"query": query, "timeout": f"{timeout_s:g}s", "time": f"{self.now() if at is None else at:.3f}"}
        try:
            body = await self._request("POST", "/api/v1/query", form=form, timeout_s=timeout_s + _MARGIN_S)
        except TimeoutError as error:
            raise QueryError(query, "timeout", f"no answer within {timeout_s:g} s") from error
        return decode(query, body)

    async def targets(self) -> list[ScrapedTarget]:
        """Return its active targets. Raises PrometheusError."""
        body = await self._get("/api/v1/targets?state=active")
        found: _Targets = decode_data(body, _Targets, what="targets")
        return found.active_targets

    async def metadata(self) -> dict[str, Metadata]:
        """Return type and help of every family that its targets currently serve; the first of differing ones."""
        body = await self._get("/api/v1/metadata")
        found: dict[str, list[Metadata]] = decode_data(body, dict[str, list[Metadata]], what="metadata")
        return {name: said[0] for name, said in found.items() if said}

    async def names(self, *, since: float) -> set[str]:
        """Return the names of all metrics with samples since a Unix time (s).

        Raises PrometheusError.
        """
        body = await self._get(f"/api/v1/label/__name__/values?start={since:.3f}&end={self.now():.3f}")
        found: set[str] = decode_data(body, set[str], what="names")
        return found

    async def own_metrics(self) -> str:
        """Return its own metrics, as text. Raises PrometheusError."""
        return (await self._get("/metrics")).decode(errors="replace")

    async def _compare_clocks(self) -> None:
        """Measure how far its clock is ahead, with an error of half a round trip."""
        began = time.time()
        try:
            body = await self._request("POST", "/api/v1/query", form={"query": "time()"}, timeout_s=_OTHER_S)
        except TimeoutError as error:
            raise self._silent(_OTHER_S) from error
        middle = (began + time.time()) / 2
        answer = decode("time()", body)
        assert isinstance(answer, Scalar)
        self.ahead_s = answer.at - middle

    async def _get(self, path: str) -> bytes:
        try:
            return await self._request("GET", path, timeout_s=_OTHER_S)
        except TimeoutError as error:
            raise self._silent(_OTHER_S) from error

    async def _request(
        self, method: str, path: str, *, form: Mapping[str, str] | None = None, timeout_s: float
    ) -> bytes:
        if self._session is None:
            raise PrometheusError(f"the connection to {self._base} is closed")
        try:
            headers = authorization(self.address)
            async with (
                asyncio.timeout(timeout_s),
                # A token goes to this server only: a redirect may lead anywhere.
                self._session.request(
                    method, self._base + path, data=form, headers=headers, allow_redirects=False
                ) as response,
            ):
                body = await response.read()
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise PrometheusError(
                f"Prometheus at {self._base} cannot be reached: {error}", next_step="Does it run, and is that its URL?"
            ) from error
        self._check(response, body)
        return body

    def _check(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        of_api = response.content_type == "application/json" and response.status not in _REFUSED
        if response.status == HTTPStatus.OK or of_api:
            # The body of an error response contains the reason.
            return
        text = body[:200].decode(errors="replace").strip()
        raise PrometheusError(
            f"Prometheus at {self._base} answers {response.status} {response.reason}: {text}",
            next_step="Give a token that it accepts: --grovescale-prometheus-token=FILE."
            if response.status in _REFUSED
            else "Is that its URL, without /api/v1?",
        )

    def _silent(self, seconds: float) -> PrometheusError:
        return PrometheusError(
            f"Prometheus at {self._base} does not answer within {seconds:g} s", next_step="Does it run?"
        )
