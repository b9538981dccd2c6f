"""One GET of a metrics endpoint, with its credentials and a size limit."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import weakref
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from ...endpoints import Credentials, authorization, tls_context
from ...errors import RecordingError
from ...exposition.body import Body, Limits, too_large
from ...exposition.reader import ACCEPT
from ...kube.access import Access, ssl_context
from ...kube.client import Client
from ...kube.errors import Unauthorized, from_response

_PACKED_PIECE = 2048
"""Compressed bytes decompressed at a time, to 2 MB at most: deflate packs a thousand to one."""

_REFUSAL_BYTES = 1 << 16
_KEEPALIVE_S = 75.0
_CLOSING_TURNS = 1000
_REFUSALS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: ": it wants to know who asks; an endpoint of the definition can send the operator's own "
    "token",
    HTTPStatus.FORBIDDEN: ": the identity that asks may not read this; its RBAC needs the path among nonResourceURLs",
}


class ScrapeError(RecordingError):
    """An endpoint answered, but without metrics."""


class Where(NamedTuple):
    """The current location of a target."""

    url: str
    credentials: Credentials | None
    """None: a path of the API server, with the recorder's access."""


class Answer(NamedTuple):
    """A complete response body."""

    body: bytes
    content_type: str


class Connections:
    """Connections to all endpoints, kept open between scrapes."""

    def __init__(self, client: Client, limits: Limits | None = None) -> None:
        self._client = client
        self._limits = limits or Limits()
        self._session: aiohttp.ClientSession | None = None
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._tls: dict[Credentials, tuple[tuple[int, ...], ssl.SSLContext]] = {}
        self._api_tls: tuple[Access, ssl.SSLContext | None] | None = None

    async def get(self, where: Where) -> Answer:
        """Return the response of an endpoint.

        Raises ScrapeError for an error status, ApiError for one of the API server, ExpositionError for a body that is
        too large or wrongly compressed, aiohttp.ClientError and OSError where there is no response. Sets no time limit.
        When the API server rejects the recorder's credentials, retries once with fresh ones: a missed edge cannot be
        repeated.
        """
        used = self._client.access
        try:
            return await self._asked(where)
        except Unauthorized as error:
            # A pod may answer the same through the proxy, in its own words: that does not concern our credentials.
            if not error.by_the_server or not used.renewable:
                raise
        await self._client.renew(used)
        return await self._asked(where)

    async def _asked(self, where: Where) -> Answer:
        access = self._client.access
        tls = self._tls_to(where)
        async with self._opened().get(
            where.url,
            # Compression would cost CPU in the measured process.
            headers={"Accept": ACCEPT, "Accept-Encoding": "identity", **self._authorization(where)},
            ssl=tls if tls is not None else True,
            server_hostname=None if where.credentials else access.tls_server_name or None,
            proxy=None if where.credentials else access.proxy or None,
            # A redirect may lead anywhere: the token must not leave its server.
            allow_redirects=False,
        ) as response:
            if response.status != HTTPStatus.OK:
                await self._refused(where, response)
            return Answer(await _body(response, self._limits), response.headers.get("Content-Type", ""))

    async def close(self) -> None:
        """Close all connections and their sockets."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        for one in self._sockets:
            # A TLS close_notify without an answer would take half a minute.
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(_CLOSING_TURNS):
            # Connections that the loop could not close by then end with the process.
            if all(one.fileno() < 0 for one in self._sockets):
                break
            await asyncio.sleep(0.001)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No limit: endpoints that hang must not keep others from connecting.
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=_KEEPALIVE_S, socket_factory=self._new_socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "grovescale-recorder"},
                timeout=aiohttp.ClientTimeout(total=None),
                trust_env=False,
                # Decompressed here, up to a limit.
                auto_decompress=False,
            )
        return self._session

    def _new_socket(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    def _authorization(self, where: Where) -> dict[str, str]:
        if where.credentials is not None:
            return authorization(where.credentials)
        return self._client.headers()

    def _tls_to(self, where: Where) -> ssl.SSLContext | None:
        """Return the TLS settings, rebuilt when one of their files has changed: that takes some milliseconds."""
        if where.credentials is None:
            access = self._client.access
            if self._api_tls is None or self._api_tls[0] is not access:
                self._api_tls = access, ssl_context(access)
            return self._api_tls[1]
        if not where.url.startswith("https:"):
            return None
        key = where.credentials
        stamp = tuple(part for name in (key.ca_file, key.cert_file, key.key_file) if name for part in _stamp(name))
        if key not in self._tls or self._tls[key][0] != stamp:
            self._tls[key] = stamp, tls_context(key)
        return self._tls[key][1]

    async def _refused(self, where: Where, response: aiohttp.ClientResponse) -> None:
        if where.credentials is None:
            said = await response.content.read(_REFUSAL_BYTES)
            raise from_response(response.status, said, request=f"GET {response.url.path}")
        raise ScrapeError(f"HTTP {response.status}{_REFUSALS.get(response.status, '')}")


def _stamp(name: str) -> tuple[int, ...]:
    found = Path(name).stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


async def _body(response: aiohttp.ClientResponse, limits: Limits) -> bytes:
    if (response.content_length or 0) > limits.max_bytes:
        raise too_large(limits.max_bytes)
    encoding = response.headers.get("Content-Encoding", "")
    body = Body(encoding, limits)
    async for chunk in response.content.iter_any():
        if not encoding:
            body.add(chunk)
            continue
        for start in range(0, len(chunk), _PACKED_PIECE):
            body.add(chunk[start : start + _PACKED_PIECE])
            # Decompressing a few bytes must not delay the other targets.
            await asyncio.sleep(0)
    return body.whole()
