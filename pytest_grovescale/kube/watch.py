"""One watch request as a stream of undecoded events; and any GET with an endless response.

The caller resumes a disconnected watch: callers differ in what they log or list again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Literal

import aiohttp
import msgspec

from .client import Client, selectors
from .errors import Status, from_response, from_status, no_answer

_CONNECT_S = 10.0
_BLOCK = 1 << 20


async def open_stream(
    client: Client, path: str, params: Mapping[str, str], *, accept: str = "application/json", silence_s: float | None
) -> aiohttp.ClientResponse:
    """Return the response, whatever its status; after a 401, that of a second attempt with new credentials.

    ``silence_s``: longest time between two chunks, s; None: unlimited.
    """
    used = client.access
    response = await _asked(client, path, params, accept, silence_s)
    if response.status != HTTPStatus.UNAUTHORIZED or not used.renewable:
        return response
    response.close()
    await client.renew(used)
    return await _asked(client, path, params, accept, silence_s)


async def _asked(
    client: Client, path: str, params: Mapping[str, str], accept: str, silence_s: float | None
) -> aiohttp.ClientResponse:
    return await client.session().get(
        path,
        params=params,
        headers={**client.headers(), "Accept": accept},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s),
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
) -> AsyncIterator[WatchEvent]:
    """Yield events until the server ends the stream.

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
        async with await open_stream(client, path, params, silence_s=_SILENCE_S) as response:
            if response.status >= 400:
                raise from_response(response.status, await response.read(), request=label)
            try:
                async for line in _lines(response.content):
                    event = _decode_event(line)
                    if event.type == "ERROR":
                        status = msgspec.json.decode(event.object, type=Status)
                        raise from_status(status, request=label)
                    yield WatchEvent(event.type, event.object)
            finally:
                # A stream that is left early must not wait for the peer's close_notify: its loop may close first.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()
    except (aiohttp.ClientError, ConnectionResetError, TimeoutError) as error:
        raise no_answer(label, error) from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield whole lines of any length (StreamReader.readline rejects long ones)."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            parts.append(chunk)
            continue
        yield b"".join((*parts, head))
        *whole, tail = rest.split(b"\n")
        for line in whole:
            yield line
        parts = [tail] if tail else []
