"""Where a profile is served, on this host or at the leading pod through the API server; and the GET that reads it.

No client library offers that. A Go server treats the closed side as the request's cancellation, which ends a CPU
profile early, and still sends its response: the profile so far. Over TLS the socket below is shut down without a
``close_notify``: asyncio offers none that keeps its reading side open, and Go needs none (measured, Go 1.26).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from ... import endpoints
from ...endpoints import Address, addressed
from ...kube import access
from ...kube.access import Access
from ...kube.informer import Followed
from ..protocol import ProfileTarget
from ..scrape_targets import OfFollowed
from ..scraping.locators import pod_where
from .capture import ProfileFailed


class ApiUrl(msgspec.Struct, frozen=True):
    """A URL read through the API server, with the recorder's identity."""

    url: str
    access: Access


AnyAddress = Address | ApiUrl


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """The current endpoints of a profile target; None for each that it lacks."""

    pprof: AnyAddress | None = None
    stacks: AnyAddress | None = None


Reach = Callable[[ProfileTarget], Reached]
"""Raises ProfileFailed when the target is not available."""


def on_this_host(target: ProfileTarget) -> Reached:
    """Return the endpoints of a process of this host."""
    return Reached(pprof=target.address, stacks=target.stacks)


def at_leader(target: ProfileTarget, leader: Callable[[str], Followed | None], access: Access) -> Reached:
    """Return the endpoints of a target, those in pods at the leader. Raises ProfileFailed when there is no leader."""

    def at(place: OfFollowed | None, instead: Address | None) -> AnyAddress | None:
        if place is None:
            return instead
        pod = leader(place.pods)
        where = None if pod is None else pod_where(pod, place, access.server.rstrip("/"))
        if where is None:
            raise ProfileFailed(f"no pod of {place.pods} leads", next_step="See its log.")
        if where.credentials is None:
            return ApiUrl(where.url, access)
        return addressed(where.url, where.credentials)

    return Reached(pprof=at(target.pprof_at, target.address), stacks=at(target.stacks_at, target.stacks))


def tls(address: AnyAddress) -> ssl.SSLContext | None:
    """Return the TLS settings; None for a plain ``http`` address. Raises OSError for an unreadable or invalid file."""
    return endpoints.ssl_context(address) if isinstance(address, Address) else access.ssl_context(address.access)


def server_name(address: AnyAddress) -> str | None:
    """Return the name required in the server's certificate; None: the URL's host."""
    return None if isinstance(address, Address) else address.access.tls_server_name or None


def proxy(address: AnyAddress) -> str:
    """Return the URL of the HTTP proxy for an address; empty where there is none."""
    return "" if isinstance(address, Address) else address.access.proxy


def authorization(address: AnyAddress) -> dict[str, str]:
    """Return the authorization header, or nothing. Raises OSError when a token cannot be read."""
    if isinstance(address, Address):
        return endpoints.authorization(address)
    token = access.bearer(address.access)
    return {"Authorization": token} if token else {}


_BLOCK = 1 << 16
_ERROR_BYTES = 500


class Refused(ProfileFailed):
    """The server answered with a status other than 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text}" if text else f"HTTP {status}")
        self.status = status
        self.text = text


class Exchange:
    """One request on its own connection; create it with ``opened``, end it with ``close``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, address: AnyAddress, path: str) -> AsyncIterator[Exchange]:
        """Send ``GET <address.url><path>``. Raises OSError (ConnectionError, ssl.SSLError) when it cannot connect."""
        parts = urlsplit(address.url.rstrip("/") + path)
        context = tls(address)
        if context is not None:
            # HTTP/2 has no half-closed connection.
            context.set_alpn_protocols(["http/1.1"])
        host, port = parts.hostname or "", parts.port or (443 if context else 80)
        name = (server_name(address) or host) if context is not None else None
        if through := proxy(address):
            reader, writer = await _tunnel(through, host, port, context, name)
        else:
            reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        headers = {"Host": parts.netloc.rpartition("@")[2], "Connection": "close", **authorization(address)}
        head = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        try:
            writer.write("\r\n".join([*head, "", ""]).encode())
            await writer.drain()
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    def half_close(self) -> None:
        """Close the sending side; the response still arrives."""
        connection = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            # An already closed connection is detected by reading.
            connection.shutdown(socket.SHUT_WR)

    async def answer(self) -> AsyncIterator[bytes]:
        """Yield the body of the response, piece by piece.

        Raises Refused for a status other than 200, ConnectionError for a truncated response, ValueError for invalid
        HTTP.
        """
        try:
            status, headers = await self._head()
            body = self._body(headers)
            if status == 200:
                async for piece in body:
                    yield piece
                return
            text = b""
            async for piece in body:
                text += piece
                if len(text) >= _ERROR_BYTES:
                    break
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the connection broke off") from error
        except asyncio.LimitOverrunError as error:
            raise ValueError("the answer is not HTTP/1.1") from error
        raise Refused(status, text[:_ERROR_BYTES].decode(errors="replace").strip())

    async def _head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, _, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError("the answer is not HTTP/1.1")
        pairs = (line.partition(":") for line in lines[1:] if line)
        return int(rest.split()[0]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    async def _body(self, headers: dict[str, str]) -> AsyncIterator[bytes]:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
                async for piece in self._exactly(size):
                    yield piece
                await self._reader.readexactly(2)
        elif "content-length" in headers:
            async for piece in self._exactly(int(headers["content-length"])):
                yield piece
        else:
            while piece := await self._reader.read(_BLOCK):
                yield piece

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            piece = await self._reader.read(min(size, _BLOCK))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            size -= len(piece)
            yield piece


async def _tunnel(
    proxy: str, host: str, port: int, context: ssl.SSLContext | None, name: str | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a server through an HTTP proxy (``CONNECT``, RFC 9110, 9.3.6). Raises OSError when it refuses."""
    parts = urlsplit(proxy)
    secure = parts.scheme == "https"
    own_port = parts.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, own_port, ssl=secure or None)
    try:
        there = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        writer.write("\r\n".join([*_connect(there, parts), "", ""]).encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode("latin-1")
        if answer.split(" ")[1:2] != ["200"]:
            raise ConnectionRefusedError(f"the proxy {parts.hostname} does not connect us: {answer}")
        if context is not None:
            await writer.start_tls(context, server_hostname=name)
    except asyncio.IncompleteReadError as error:
        writer.transport.abort()
        raise ConnectionResetError(f"the proxy {parts.hostname} broke off") from error
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


def _connect(there: str, proxy: SplitResult) -> list[str]:
    """Return the head of a CONNECT request, with the user name and password from the proxy's URL."""
    head = [f"CONNECT {there} HTTP/1.1", f"Host: {there}"]
    if proxy.username is not None:
        user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        head.append(f"Proxy-Authorization: Basic {base64.b64encode(user.encode()).decode()}")
    return head
