"""Go's ``net/http/pprof``: a CPU profile of exactly one phase, and heap and goroutine snapshots at its end.

Served on this host, or at the leading pod through the API server.

A CPU profile is requested for an hour and ended by closing our half of the connection: it then arrives 0.01 to 0.14 s
later. Through the API server's proxy that would end the whole exchange: there, rounds of some seconds follow one
another.

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
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from ... import endpoints
from ...endpoints import Address, addressed
from ...kube import access
from ...kube.access import Access
from ...kube.informer import Followed
from ..protocol import ProfileTarget
from ..records import ProfileKind
from ..scrape_targets import OfFollowed
from ..scraping.locators import pod_where
from .capture import ATTACH_S, FINISH_S, ProfileFailed, Taken


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


SNAPSHOTS: dict[ProfileKind, str] = {"heap": "/heap", "goroutines": "/goroutine"}
"""Kind → path of the snapshots read at the end of a phase."""

ROUND_S = 5
"""Length of one round where a profile cannot be ended early, s; a round that spans the phase's end is completed."""

_CPU = "/profile?seconds={seconds}"
_WHOLE_S = 3600
_STACKS = "/goroutine?debug=2"
_REFUSED_AT_ONCE_S = 0.1
"""A server that cannot profile answers within this time, s; one that can is silent until the end. Measured: 1 to 4 ms.
"""

_MAX_BYTES = 256 << 20


class Pprof:
    """One CPU profile, or one round of it.

    ``over``: called when a round has ended by itself; given only for profiles in rounds.
    """

    def __init__(self, address: AnyAddress, file: Path, over: Callable[[], None] | None = None) -> None:
        self._address = address
        self._file = file
        self._over = over
        self._path = _CPU.format(seconds=_WHOLE_S if over is None else ROUND_S)
        self._sent = asyncio.Event()
        self._exchange: Exchange | None = None
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def attached(cls, address: AnyAddress, file: Path, over: Callable[[], None] | None = None) -> Self:
        """Return self once the server profiles, or has at least not refused. Raises ProfileFailed."""
        capture = cls(address, file, over)
        await capture._wait_until_it_is_asked()
        if over is not None:
            capture._receiving.add_done_callback(lambda done: None if done.cancelled() else over())
        return capture

    async def _wait_until_it_is_asked(self) -> None:
        sent = asyncio.create_task(self._sent.wait())
        try:
            await asyncio.wait({sent, self._receiving}, timeout=ATTACH_S, return_when=asyncio.FIRST_COMPLETED)
            if not sent.done() and not self._receiving.done():
                raise ProfileFailed(f"{self._address.url} took no connection within {ATTACH_S:g} s")
            done, _ = await asyncio.wait({self._receiving}, timeout=_REFUSED_AT_ONCE_S)
            if done:
                self._receiving.result()
                raise ProfileFailed(
                    f"{self._address.url}{self._path} was over at once",
                    next_step="It is not net/http/pprof: see the definition's pprof.url.",
                )
        except BaseException:
            await self._end()
            raise
        finally:
            sent.cancel()

    def stop(self) -> None:
        """End the profile; a round runs to its own end."""
        if self._exchange is not None and self._over is None:
            self._exchange.half_close()

    async def finish(self) -> Taken:
        """Return when the profile is in its file; the sample count is only in the file."""
        try:
            async with asyncio.timeout(FINISH_S if self._over is None else ROUND_S + FINISH_S):
                await self._receiving
        except TimeoutError:
            raise _late(self._address.url + self._path) from None
        finally:
            await self._end()
        return Taken()

    async def _receive(self) -> None:
        try:
            async with Exchange.opened(self._address, self._path) as self._exchange:
                self._sent.set()
                await _save(self._exchange, self._file)
        except (OSError, ValueError, Refused) as error:
            raise explained(self._address.url + self._path, error) from error

    async def _end(self) -> None:
        self._receiving.cancel()
        await asyncio.wait({self._receiving})


async def snapshot(address: AnyAddress, path: str, file: Path) -> None:
    """Write an endpoint's response into a file. Raises ProfileFailed."""
    try:
        async with asyncio.timeout(FINISH_S), Exchange.opened(address, path) as exchange:
            await _save(exchange, file)
    except TimeoutError:
        raise _late(address.url + path) from None
    except (OSError, ValueError, Refused) as error:
        raise explained(address.url + path, error) from error


async def dump(address: AnyAddress) -> str:
    """Return the stacks of all goroutines. Raises ProfileFailed; the caller sets the time limit."""
    text = bytearray()
    try:
        async with Exchange.opened(address, _STACKS) as exchange:
            async for piece in exchange.answer():
                text += piece
                if len(text) > _MAX_BYTES:
                    break
    except (OSError, ValueError, Refused) as error:
        raise explained(address.url + _STACKS, error) from error
    return text.decode(errors="replace")


def explained(url: str, error: Exception) -> ProfileFailed:
    """Return the error message with its remedy."""
    match error:
        case Refused(status=500, text=text) if "already in use" in text or "already enabled" in text:
            return ProfileFailed(
                f"{url} is busy with another profile",
                next_step="A Go process takes one CPU profile at a time: end the other one.",
            )
        case Refused(status=404):
            remedy = "Serve net/http/pprof in the operator, or see pprof.url in its definition."
        case Refused(status=401 | 403):
            remedy = "Set `token: true` at pprof in the definition, and grant its identity the nonResourceURL."
        case Refused(status=400, text=text) if "WriteTimeout" in text:
            remedy = "Let the operator serve pprof without a WriteTimeout: it cuts every profile short."
        case Refused():
            remedy = "See the operator's log."
        case ssl.SSLError():
            remedy = "Set `ca_file`, or `insecure_skip_verify: true`, at pprof in the definition."
        case ConnectionRefusedError():
            remedy = "No process listens there: see pprof.url in the definition, and the operator's log."
        case ConnectionError():
            remedy = "The process has ended, and its profile with it: a Go process keeps it to the end."
        case _:
            remedy = "See pprof.url in the definition."
    said = error.message if isinstance(error, Refused) else str(error) or type(error).__name__
    return ProfileFailed(f"{url}: {said}", next_step=remedy)


def _late(url: str) -> ProfileFailed:
    return ProfileFailed(
        f"{url} did not send its profile within {FINISH_S:g} s",
        next_step="The endpoint hangs, or a proxy stands before it: give the process's own address.",
    )


async def _save(exchange: Exchange, file: Path) -> None:
    size = 0
    with file.open("wb") as output:
        async for piece in exchange.answer():
            size += len(piece)
            if size > _MAX_BYTES:
                raise ValueError(f"more than {_MAX_BYTES >> 20} MB")
            output.write(piece)
    if not size:
        raise ValueError("an empty answer")
