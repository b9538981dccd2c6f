"""One container's log as a stream of lines with the kubelet's timestamps."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

import aiohttp

from .client import Client
from .errors import from_response, no_answer
from .resources import Resource
from .streaming import opened

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)


class Line(NamedTuple):
    """One line of a log."""

    moment: str
    """RFC 3339 with nanoseconds; timestamps of one kubelet compare as strings."""
    text: str


async def follow(
    client: Client, namespace: str, pod: str, container: str, *, since: str = "", previous: bool = False
) -> AsyncGenerator[Line, None]:
    """Yield the lines of a container until it ends, or the server ends the stream.

    ``since``: a timestamp; lines are repeated from the beginning of its second on. ``previous``: of the container that
    ran before the current one and has ended. Raises BadRequest while it has not started, NotFound for a missing pod or
    previous container, ServerUnavailable when the connection breaks.
    """
    path = PODS.path(namespace, pod, "log")
    params = {"container": container, "timestamps": "true", "follow": "true"}
    if previous:
        params["previous"] = "true"
    if since:
        params["sinceTime"] = since
    try:
        # An operator may log nothing for any length of time.
        async with await opened(client, path, params, accept="*/*", silence_s=None) as response:
            if response.status >= 400:
                raise from_response(response.status, await response.read(), request=f"GET {path}")
            try:
                async for line in response.content:
                    moment, _, text = line.decode(errors="replace").rstrip("\n").partition(" ")
                    yield Line(moment, text)
            finally:
                # As with a watch: a stream that is left early must not wait for the peer's close.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()
    except (aiohttp.ClientError, ConnectionResetError, TimeoutError, ValueError) as error:
        # ValueError: a line beyond the length limit; the lines after it are still readable.
        raise no_answer(f"GET {path}", error) from error
