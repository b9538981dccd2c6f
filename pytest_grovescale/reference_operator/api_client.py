"""API requests: one session, kept-alive connections, bodies in and out as bytes.

A 429 is retried after its Retry-After, as in client-go (the server did not process the request), and a 401 once with
a freshly read token. All other errors are the caller's: a failed reconcile is queued with backoff.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from .api_errors import ApiError, from_answer
from .credentials import Credentials
from .histograms import Histogram
from .rate_limiter import RateLimiter

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

_ATTEMPTS = 10
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)
# The API server deletes a collection's objects one after another, with a limit of one minute of its own.
_COLLECTION_TIMEOUT = aiohttp.ClientTimeout(total=70)
# Bookmarks arrive about once a minute; a stream that is silent for longer has died without a FIN.
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=150)
_CONNECTIONS = 64
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Buckets of client-go's rest_client_* histograms, in seconds.
_TIME_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

encode = msgspec.json.Encoder().encode


class ApiClient:
    """Use as ``async with ApiClient(credentials) as api``. All requests raise ApiError."""

    def __init__(
        self, credentials: Credentials, *, limiter: RateLimiter | None = None, waits_when_asked: bool = True
    ) -> None:
        """``waits_when_asked``: for the Retry-After of a 429; not with the defect early-retry."""
        self._credentials = credentials
        self._limiter = limiter
        self._waits_when_asked = waits_when_asked
        self._base = credentials.server
        self.host = urlsplit(credentials.server).netloc
        self.requests: Counter[tuple[str, str]] = Counter()
        """Responses by (code, method); code ``<error>`` where there was none. Served as rest_client_requests_total."""
        self.latency = {method: Histogram(_TIME_BUCKETS) for method in METHODS}
        """Request duration by method, without watches: includes the wait for the limiter and retries, as in client-go.
        Served as rest_client_request_duration_seconds."""
        self.throttled = {method: Histogram(_TIME_BUCKETS) for method in METHODS}
        """The limiter's part of the duration. Served as rest_client_rate_limiter_duration_seconds."""
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        ssl_context = self._credentials.ssl_context
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl_context if ssl_context else True, limit=_CONNECTIONS),
            # Compression saves nothing on the way to a nearby server.
            headers={"User-Agent": "grove-reference-operator", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            read_bufsize=1 << 18,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, *, accept: str = "application/json") -> bytes:
        return await self._request("GET", path, accept=accept)

    async def post(self, path: str, body: Any) -> bytes:
        return await self._request("POST", path, body=encode(body))

    async def put(self, path: str, body: Any) -> bytes:
        return await self._request("PUT", path, body=encode(body))

    async def patch(self, path: str, body: Any, *, content_type: str = MERGE_PATCH) -> bytes:
        return await self._request("PATCH", path, body=encode(body), content_type=content_type)

    async def delete(self, path: str, body: Any = None) -> bytes:
        return await self._request("DELETE", path, body=encode(body) if body is not None else None)

    async def delete_collection(self, path: str) -> bytes:
        """Delete all objects of a collection that the query selects. The response holds their metadata only."""
        return await self._request("DELETE", path, accept=METADATA_LIST, timeout=_COLLECTION_TIMEOUT)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: aiohttp.ClientTimeout = _REQUEST_TIMEOUT,
    ) -> bytes:
        start = time.perf_counter()
        try:
            if self._limiter is not None:
                await self._limiter.wait()
                self.throttled[method].observe(time.perf_counter() - start)
            return await self._attempts(method, path, body, content_type, accept, timeout)
        finally:
            self.latency[method].observe(time.perf_counter() - start)

    async def _attempts(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        accept: str,
        timeout: aiohttp.ClientTimeout,
    ) -> bytes:
        assert self._session is not None, "use `async with`"
        url = URL(self._base + path, encoded=True)
        renewed = False
        attempt = 0
        while True:
            attempt += 1
            headers = {"Accept": accept, "Authorization": self._credentials.authorization(now=renewed)}
            if body is not None:
                headers["Content-Type"] = content_type
            try:
                async with self._session.request(method, url, data=body, headers=headers, timeout=timeout) as response:
                    answer = await response.read()
            except (aiohttp.ClientError, OSError) as error:
                self.requests["<error>", method] += 1
                # TimeoutError is an OSError and keeps its own name in the metrics.
                if isinstance(error, TimeoutError):
                    raise
                raise ApiError(0, "NoAnswer", f"{method} {path}: {error!r}") from error
            self.requests[str(response.status), method] += 1
            if response.status < 400:
                return answer
            if response.status == 401 and self._credentials.renewable and not renewed:
                renewed = True
            elif response.status == 429 and attempt < _ATTEMPTS:
                wait = float(response.headers.get("Retry-After", "1")) * random.uniform(1.0, 1.2)
                await asyncio.sleep(wait if self._waits_when_asked else 0)
            else:
                raise from_answer(response.status, answer)

    async def watch(self, path: str, *, accept: str = "application/json") -> AsyncIterator[bytes]:
        """Yield the lines of a watch stream until either side ends it."""
        assert self._session is not None, "use `async with`"
        headers = {"Accept": accept, "Authorization": self._credentials.authorization()}
        url = URL(self._base + path, encoded=True)
        try:
            async with self._session.get(url, headers=headers, timeout=_WATCH_TIMEOUT) as response:
                self.requests[str(response.status), "GET"] += 1
                if response.status >= 400:
                    if response.status == 401:
                        self._credentials.authorization(now=True)
                    raise from_answer(response.status, await response.read())
                async for line in _lines(response.content):
                    yield line
        except (aiohttp.ClientError, OSError) as error:
            raise ApiError(0, "NoAnswer", f"WATCH {path}: {error!r}") from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield complete lines of any length; StreamReader.readline would reject long ones."""
    pending = b""
    async for chunk in content.iter_any():
        *whole, rest = chunk.split(b"\n")
        if not whole:
            pending += rest
            continue
        whole[0] = pending + whole[0]
        pending = rest
        for line in whole:
            if line:
                yield line
