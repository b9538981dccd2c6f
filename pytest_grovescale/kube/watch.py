"""One watch request as a stream of undecoded events; and any GET with an endless response.

The caller resumes a disconnected watch: callers differ in what they log or list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from http import HTTPStatus
from typing import Literal

import aiohttp
import msgspec

from .client import Client, selectors
from .errors import ApiError, Status, from_response, from_status, no_answer

_CONNECT_S = 10.0
_BLOCK = 1 << 20
_FARTHEST = 24
"""Bytes from the beginning of a watch event's type within which its object begins."""


async def open_stream(
    client: Client, path: str, params: Mapping[str, str], *, accept: str = "application/json"
) -> aiohttp.ClientResponse:
    """Return the response, whatever its status; after a 401, that of a second attempt with new credentials.

    There is no limit to how long it takes, and to the time between two chunks.
    """
    used = client.access
    response = await _asked(client, path, params, accept)
    if response.status != HTTPStatus.UNAUTHORIZED or not used.renewable:
        return response
    response.close()
    await client.renew(used)
    return await _asked(client, path, params, accept)


async def _asked(client: Client, path: str, params: Mapping[str, str], accept: str) -> aiohttp.ClientResponse:
    return await client.session().get(
        path,
        params=params,
        headers={**client.headers(), "Accept": accept},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        read_bufsize=_BLOCK,
        server_hostname=client.access.tls_server_name or None,
    )


INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events (KEP-3157)."""

# Bookmarks come about once a minute; a stream that is silent for longer than two has died without a FIN.
_SILENCE_S = 150.0


class WatchEvent(msgspec.Struct):
    """One event. ``object`` is raw JSON: decode only the fields that you need."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: msgspec.Raw


class _AnyEvent(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


class Bookmark(msgspec.Struct, frozen=True):
    """Content of a BOOKMARK event."""

    resource_version: str
    initial_events_end: bool


_decode_event = msgspec.json.Decoder(_AnyEvent).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode


def bookmark(event: WatchEvent) -> Bookmark:
    """Return the content of a BOOKMARK event."""
    meta = _decode_bookmark(event.object).metadata
    return Bookmark(meta.resource_version, meta.annotations.get(INITIAL_EVENTS_END) == "true")


async def stream(
    client: Client,
    path: str,
    *,
    resource_version: str = "",
    label_selector: str = "",
    field_selector: str = "",
    initial_events: bool = False,
) -> AsyncGenerator[list[WatchEvent], None]:
    """Yield events until the server ends the stream, those that arrive together in one list.

    ``initial_events``: the server sends all existing objects first, then a bookmark
    (``bookmark(event).initial_events_end``); raises Invalid if it does not support that (before 1.32 by default).
    Raises Gone when ``resource_version`` is too old, ServerUnavailable when the connection breaks or stays silent.
    """
    params = {"watch": "true", "allowWatchBookmarks": "true"} | selectors(label_selector, field_selector)
    if resource_version:
        params["resourceVersion"] = resource_version
    if initial_events:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    label = f"WATCH {path}"
    try:
        async with asyncio.timeout(_SILENCE_S):
            response = await open_stream(client, path, params)
            if response.status >= 400:
                async with response:
                    raise from_response(response.status, await response.read(), request=label)
        async with response:
            silence = _Silence(response.content)
            try:
                async for lines in _lines(response.content):
                    silence.broken()
                    events, failure = _decoded(lines, label)
                    if events:
                        yield events
                    if failure is not None:
                        raise failure
            finally:
                silence.over()
                # A stream that is left early must not wait for the peer's close_notify: its loop may close first.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()
    except (aiohttp.ClientError, ConnectionResetError, TimeoutError) as error:
        raise no_answer(label, error) from error


class _Silence:
    """Ends a stream that is silent for too long.

    aiohttp's own limit starts a timer with each chunk that arrives: a tenth of what reading a busy watch costs.
    """

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._timer = self._loop.call_at(self._since + _SILENCE_S, self._look)

    def broken(self) -> None:
        """Note that something has come."""
        self._since = self._loop.time()

    def over(self) -> None:
        """Stop waiting."""
        self._timer.cancel()

    def _look(self) -> None:
        due = self._since + _SILENCE_S
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._look)
        else:
            self._content.set_exception(TimeoutError(f"nothing came for {_SILENCE_S:g} s"))


_BEGIN, _MIDDLE, _END = b'{"type":"', b'","object":', b"}"
_TYPES: dict[bytes, Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]] = {
    b"ADDED": "ADDED",
    b"MODIFIED": "MODIFIED",
    b"DELETED": "DELETED",
    b"BOOKMARK": "BOOKMARK",
}


def _decoded(lines: Iterable[bytes], label: str) -> tuple[list[WatchEvent], ApiError | None]:
    """Return the events of some lines, up to the first that reports an error, and that."""
    events: list[WatchEvent] = []
    for line in lines:
        # As Go encodes a WatchEvent (k8s.io/apimachinery/pkg/apis/meta/v1/watch.go), which has these two fields: to
        # look for its end takes as long as to read what is in it.
        middle = line.find(_MIDDLE, len(_BEGIN), len(_BEGIN) + _FARTHEST)
        kind = _TYPES.get(line[len(_BEGIN) : middle]) if middle > 0 and line.startswith(_BEGIN) else None
        if kind is not None and line.endswith(_END):
            events.append(WatchEvent(kind, msgspec.Raw(line[middle + len(_MIDDLE) : -1])))
            continue
        event = _decode_event(line)
        if event.type == "ERROR":
            return events, from_status(msgspec.json.decode(event.object, type=Status), request=label)
        events.append(WatchEvent(event.type, event.object))
    return events, None


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Yield whole lines of any length (StreamReader.readline rejects long ones), together as they arrive."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            parts.append(chunk)
            continue
        *whole, tail = rest.split(b"\n")
        yield [b"".join((*parts, head)), *whole]
        parts = [tail] if tail else []
