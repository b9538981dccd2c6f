"""The proxy between a program and the API server: ``python -m pytest_grovescale.kube.faults.proxy CONFIG``.

A process of its own: its CPU time is neither the program's nor the harness's. It ends TLS with a certificate of its
own, offers HTTP/1.1 by ALPN, which every client of the API server speaks, and passes on all else as it is: paths,
headers (the program's credentials among them), bodies of any format, streams as they come. It keeps no credentials.

Requests for exec, attach and port-forward are refused by name: they leave HTTP behind.

What a fault answers is a metav1.Status as the API server writes it, or the end of a watch as an event:
https://github.com/kubernetes/apimachinery/blob/master/pkg/api/errors/errors.go. Clients decode an answer by its
Content-Type, so an error may be JSON whatever they accept; an event has to be of its stream's own format.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import signal
import ssl
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from ..access import Access, ssl_context
from .request_path import Target, name_in, target_of
from .settings import CONTROL_PATH, Decision, Draws, FaultKind, Faults, Injected

_MAGIC = b"k8s\x00"
EXPIRED = "too old resource version: 1 (2)"


class Answer(NamedTuple):
    """An answer of the proxy's own. ``code`` 0: none, the connection is cut."""

    code: int
    body: bytes = b""
    retry_after_s: int = 0


def answer(kind: FaultKind, variant: float, target: Target, name: str, faults: Faults) -> Answer:
    """Return the answer of a fault to a request."""
    what = target.qualified
    match kind:
        case "conflict":
            return _status(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {what} "{name}": the object has been modified; please apply your'
                " changes to the latest version and try again",
                target,
                name,
            )
        case "throttled":
            text = "the server has received too many requests and has asked us to try again later"
            return _status(429, "TooManyRequests", text, target, name, retry_after_s=faults.retry_after_s)
        case "error" if variant < 0.5:
            return _status(500, "InternalError", "Internal error occurred: injected by grovescale", target, name)
        case "error":
            text = "the server is currently unable to handle the request: injected by grovescale"
            return _status(503, "ServiceUnavailable", text, target, name)
        case _ if variant < 0.5:
            text = f"the server was unable to return a response in the time allotted ({target.verb} {what})"
            return _status(504, "Timeout", text, target, name)
        case _:
            return Answer(0)


def _status(code: int, reason: str, message: str, target: Target, name: str, *, retry_after_s: int = 0) -> Answer:
    details: dict[str, Any] = {"name": name, "group": target.group, "kind": target.resource}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return Answer(code, status(code, reason, message, details), retry_after_s)


def status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    """Return a failed Status as JSON."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": {key: value for key, value in details.items() if value}} if details else {}),
        "code": code,
    }
    return msgspec.json.encode(body)


def expired(*, protobuf: bool) -> bytes:
    """Return the event by which the API server ends a watch that is too far behind, as a frame of its stream."""
    if not protobuf:
        return b'{"type":"ERROR","object":' + status(410, "Expired", EXPIRED) + b"}\n"
    # metav1.WatchEvent{type=1, object=2: RawExtension{raw=1}}; raw: runtime.Unknown{typeMeta=1, raw=2} behind its magic
    # number; Status{status=2, message=3, reason=4, code=6}.
    body = _text(2, "Failure") + _text(3, EXPIRED) + _text(4, "Expired") + b"\x30" + _varint(410)
    unknown = _bytes(1, _text(1, "v1") + _text(2, "Status")) + _bytes(2, body)
    event = _text(1, "ERROR") + _bytes(2, _bytes(1, _MAGIC + unknown))
    return len(event).to_bytes(4, "big") + event


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


_HOP_BY_HOP = (
    "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding",
    "Upgrade",
)  # fmt: skip
"""Headers of one connection, https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1."""

_WHOLE_BYTES = 1 << 20
"""Answers up to this length are passed on in one piece."""

_IDLE_S = 60.0
"""Kept-alive connections to the API server are closed after this, before it closes them itself (90 s)."""

_INITIAL_EVENTS_END = b"k8s.io/initial-events-end"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the proxy needs; a file that only its user can read."""

    access: Access
    """The API server. Without credentials: they come with each request."""
    port: int
    cert_file: str
    key_file: str
    log: str
    """File that a line of `Injected` is appended to for each fault."""
    secret: str
    """Bearer token by which faults are changed."""


class Proxy:
    """Passes requests on, but for those that meet a fault."""

    def __init__(self, config: Config) -> None:
        self._secret = f"Bearer {config.secret}"
        self._base = config.access.server.rstrip("/")
        self._access = config.access
        self._log = os.open(config.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._draws = Draws(Faults())
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Open the session to the API server; sends nothing."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl_context(self._access) or True, limit=0, keepalive_timeout=_IDLE_S),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            proxy=self._access.proxy or None,
            read_bufsize=1 << 18,
        )
        # As in `kube.client`: a request is repeated by the program, or by nothing.
        self._session._retry_connection = False

    async def close(self) -> None:
        """Close all connections to the API server."""
        if self._session is not None:
            await self._session.close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request of the program."""
        path, _, query = request.raw_path.partition("?")
        if path == CONTROL_PATH:
            return await self._control(request)
        received = time.time_ns()
        target = target_of(request.method, path, query)
        if target.takes_over_connection:
            return _refused(target)
        body = await request.content.read() if request.body_exists else None
        name = target.name or (name_in(body) if body and self._draws.faults.any else "")
        decision = self._draws.request(target, name)
        if decision.delay_s > 0:
            await asyncio.sleep(decision.delay_s)
        if decision.kind is not None and decision.kind != "lost-answer":
            return self._fault(request, decision, target, name, received)
        try:
            return await self._passed_on(request, body, decision, target, name, received)
        except (aiohttp.ClientError, ConnectionError) as error:
            if request.transport is not None and not request.transport.is_closing():
                _say(f"{target.stream}: {error!r}")
            return _cut(request)

    async def _control(self, request: web.BaseRequest) -> web.Response:
        if not hmac.compare_digest(request.headers.get("Authorization", ""), self._secret):
            return web.Response(status=401, body=status(401, "Unauthorized", "not the test's own token"))
        if request.method == "PUT":
            self._draws = Draws(msgspec.json.decode(await request.content.read(), type=Faults))
        return web.json_response(dict(self._draws.injected))

    def _fault(
        self, request: web.BaseRequest, decision: Decision, target: Target, name: str, received: int, applied: int = 0
    ) -> web.Response:
        assert decision.kind is not None
        found = answer(decision.kind, decision.variant, target, name, self._draws.faults)
        self._note(decision.kind, target, name, received, code=found.code, applied=applied, wait_s=found.retry_after_s)
        if not found.code:
            return _cut(request)
        headers = {"Retry-After": str(found.retry_after_s)} if found.retry_after_s else None
        return web.Response(status=found.code, body=found.body, headers=headers, content_type="application/json")

    def _note(
        self, kind: FaultKind, target: Target, name: str, received: int, *, code: int, applied: int = 0, wait_s: int = 0
    ) -> None:
        self._draws.injected[kind] += 1
        line = Injected(
            kind=kind,
            verb=target.verb,
            group=target.group,
            resource=target.resource,
            subresource=target.subresource,
            namespace=target.namespace,
            name=name,
            code=code,
            applied=applied,
            retry_after_s=wait_s,
            received_wall=received,
            answered_wall=time.time_ns(),
        )
        # In one write: the recorder sees whole lines. Before the answer: so it precedes what follows from it.
        os.write(self._log, msgspec.json.encode(line) + b"\n")

    async def _passed_on(
        self,
        request: web.BaseRequest,
        body: bytes | None,
        decision: Decision,
        target: Target,
        name: str,
        received: int,
    ) -> web.StreamResponse:
        assert self._session is not None
        headers = _end_to_end(request.headers)
        headers.popall("Host", None)
        headers.popall("Content-Length", None)
        async with self._session.request(
            request.method,
            URL(self._base + request.raw_path, encoded=True),
            data=body,
            headers=headers,
            allow_redirects=False,
            server_hostname=self._access.tls_server_name or None,
        ) as response:
            if decision.kind == "lost-answer":
                made = await response.read()
                known = name_in(made) if response.status < 300 and target.verb == "create" else ""
                return self._fault(request, decision, target, known or name, received, applied=response.status)
            if target.verb == "watch" and response.status == 200:
                return await self._watch(request, response, target)
            return await _copied(request, response)

    async def _watch(
        self, request: web.BaseRequest, response: aiohttp.ClientResponse, target: Target
    ) -> web.StreamResponse:
        """Pass on a watch, event by event; end it where an event meets a fault."""
        stream = await _begun(request, response)
        protobuf = "protobuf" in response.content_type
        frames = Frames(protobuf=protobuf) if protobuf or "json" in response.content_type else None
        initial = "sendInitialEvents=true" in request.raw_path or "sendInitialEvents=1" in request.raw_path
        async for chunk in response.content.iter_any():
            if frames is None:
                await stream.write(chunk)
                continue
            passed: list[bytes] = []
            for frame in frames.of(chunk):
                kind, variant = (None, 0.0) if initial or _is_bookmark(frame) else self._draws.event(target)
                initial = initial and _INITIAL_EVENTS_END not in frame
                if kind is not None:
                    return await self._ended(request, stream, b"".join(passed), kind, variant, target, protobuf)
                passed.append(frame)
            if passed:
                await stream.write(b"".join(passed))
        await stream.write_eof()
        return stream

    async def _ended(
        self,
        request: web.BaseRequest,
        stream: web.StreamResponse,
        passed: bytes,
        kind: FaultKind,
        variant: float,
        target: Target,
        protobuf: bool,
    ) -> web.StreamResponse:
        too_old = kind == "watch-expired"
        self._note(kind, target, target.name, time.time_ns(), code=410 if too_old else 0)
        await stream.write(passed + (expired(protobuf=protobuf) if too_old else b"") or b"")
        if not too_old and variant < 0.5:
            return _cut(request)
        await stream.write_eof()
        return stream


class Frames:
    """Splits the bytes of a watch into its events: lines of JSON, or messages behind their length."""

    def __init__(self, *, protobuf: bool) -> None:
        self._protobuf = protobuf
        self._rest = b""

    def of(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the events that are complete with this chunk, as they are sent."""
        data = self._rest + chunk if self._rest else chunk
        at = 0
        while (end := self._end(data, at)) <= len(data):
            yield data[at:end]
            at = end
        self._rest = data[at:]

    def _end(self, data: bytes, at: int) -> int:
        beyond = len(data) + 1
        if self._protobuf:
            return at + 4 + int.from_bytes(data[at : at + 4], "big") if len(data) >= at + 4 else beyond
        return data.find(b"\n", at) + 1 or beyond


def _is_bookmark(frame: bytes) -> bool:
    return frame.startswith(b'{"type":"BOOKMARK"') or frame[4:14] == b"\x0a\x08BOOKMARK"


async def _copied(request: web.BaseRequest, response: aiohttp.ClientResponse) -> web.StreamResponse:
    """Pass on an answer: in one piece where it is short, else as it comes."""
    length = response.content_length
    if length is not None and length <= _WHOLE_BYTES and request.method != "HEAD":
        headers = _end_to_end(response.headers)
        headers.popall("Content-Length", None)
        return web.Response(status=response.status, headers=headers, body=await response.read())
    stream = await _begun(request, response)
    async for chunk in response.content.iter_any():
        await stream.write(chunk)
    await stream.write_eof()
    return stream


async def _begun(request: web.BaseRequest, response: aiohttp.ClientResponse) -> web.StreamResponse:
    stream = web.StreamResponse(status=response.status, headers=_end_to_end(response.headers))
    if response.content_length is None and request.version >= aiohttp.HttpVersion11:
        stream.enable_chunked_encoding()
    await stream.prepare(request)
    return stream


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    passed: CIMultiDict[str] = CIMultiDict(headers)
    for name in _HOP_BY_HOP:
        passed.popall(name, None)
    return passed


def _cut(request: web.BaseRequest) -> web.Response:
    """Cut the connection; the returned response goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


def _refused(target: Target) -> web.Response:
    text = (
        f"{target.resource}/{target.subresource} does not pass the proxy of scale.faults, which speaks HTTP only: test"
        " what uses exec, attach, port-forward or proxy without faults"
    )
    return web.Response(status=501, body=status(501, "NotImplemented", text), content_type="application/json")


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


async def serve(config: Config) -> None:
    """Serve until SIGTERM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config.cert_file, config.key_file)
    context.set_alpn_protocols(["http/1.1"])
    proxy = Proxy(config)
    await proxy.open()
    server = web.Server(
        proxy.handle, access_log=None, handler_cancellation=True, keepalive_timeout=300.0, read_bufsize=1 << 18
    )
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(server, "127.0.0.1", config.port, ssl=context, backlog=1024)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    _say(f"serving on port {config.port}")
    await ended.wait()
    listener.close()
    await server.shutdown(0.1)
    await proxy.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Config)))
