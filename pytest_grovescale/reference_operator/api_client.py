"""API requests: one session, kept-alive connections, bodies in and out as bytes.

A 429 is retried after its Retry-After, as in client-go (the server did not process the request), and a 401 once with
a freshly read token. All other errors are the caller's: a failed reconcile is queued with backoff. Errors are
classified as the metrics count them.

The client-side limit is a token bucket, as client-go's ``--kube-api-qps`` and ``--kube-api-burst``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from .credentials import Credentials
from .histograms import Histogram

ERROR_TYPES = (
    "not_found",
    "conflict",
    "already_exists",
    "timeout",
    "forbidden",
    "invalid",
    "rate_limited",
    "internal",
)
"""The values of the label ``error_type``; every error has one of them."""

_BY_CODE = {
    400: "invalid",
    401: "forbidden",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    410: "conflict",
    422: "invalid",
    429: "rate_limited",
    504: "timeout",
}


class Status(msgspec.Struct):
    """The fields of a metav1.Status that are used here."""

    message: str = ""
    reason: str = ""
    code: int = 0


class ApiError(Exception):
    """A response with a status code of 400 or more, or none at all (code 0)."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message

    @property
    def not_found(self) -> bool:
        return self.code == 404

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        return self.code == 409 and not self.already_exists

    @property
    def gone(self) -> bool:
        """Whether the requested resourceVersion is older than the server's history (410 Gone)."""
        return self.code == 410

    @property
    def persistent(self) -> bool:
        """Whether a retry without a change elsewhere cannot succeed."""
        return self.code in (400, 403, 422)


class NotOwned(ApiError):
    """An object of the required name exists and has another owner."""

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(409, "AlreadyExists", f"{kind} {key} exists and is not controlled by this object")


class TerminalError(Exception):
    """A reconcile failed in a way that no retry can fix; only a new event triggers the next one."""


def from_answer(code: int, body: bytes) -> ApiError:
    """Return the error for a response; quotes a body that is not a Status."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status(message=body[:200].decode(errors="replace"))
    return ApiError(code, status.reason, status.message)


def error_type(error: BaseException) -> str:
    """Return the value of the label ``error_type`` for the exception that ended a reconcile."""
    if isinstance(error, ApiError):
        if error.already_exists:
            return "already_exists"
        return _BY_CODE.get(error.code, "internal")
    return "timeout" if isinstance(error, TimeoutError) else "internal"


class RateLimiter:
    """Passes ``burst`` requests at once, and then ``qps`` per second, in order of arrival."""

    def __init__(self, qps: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    def reserve(self) -> float:
        """Reserve a token, possibly a future one; return the seconds until it is available."""
        now = self._clock()
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._qps) - 1.0
        self._at = now
        return max(0.0, -self._tokens / self._qps)

    async def wait(self) -> None:
        """Return when the next request may be sent."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)


def rate_limiter(qps: float, burst: int) -> RateLimiter | None:
    """Return the configured limiter; None for ``qps`` 0. ``burst`` 0 stands for one second's requests."""
    if qps <= 0:
        return None
    return RateLimiter(qps, burst or max(1, int(qps)))


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
