"""One container's log as a stream of lines, each with the moment at which the kubelet got it."""

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
    """RFC 3339 with nanoseconds; of one kubelet they compare as texts."""
    text: str


async def follow(
    client: Client, namespace: str, pod: str, container: str, *, since: str = "", previous: bool = False
) -> AsyncGenerator[Line, None]:
    """Yield the lines of a container until it ends, or the server ends the stream.

    ``since``: a moment; lines are repeated from the begin of its second on. ``previous``: of the container that ran
    before the present one, which has ended. Raises BadRequest while it has not started, NotFound for a pod or a
    previous container that is not there, ServerUnavailable when the connection breaks.
    """
    path = PODS.path(namespace, pod, "log")
    params = {"container": container, "timestamps": "true", "follow": "true"}
    if previous:
        params["previous"] = "true"
    if since:
        params["sinceTime"] = since
    try:
        # An operator may be silent for as long as it likes.
        async with await opened(client, path, params, accept="*/*", silence_s=None) as response:
            if response.status >= 400:
                raise from_response(response.status, await response.read(), request=f"GET {path}")
            try:
                async for line in response.content:
                    moment, _, text = line.decode(errors="replace").rstrip("\n").partition(" ")
                    yield Line(moment, text)
            finally:
                # As with a watch: one that is left early must not wait for the peer's goodbye.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()
    except (aiohttp.ClientError, ConnectionResetError, TimeoutError, ValueError) as error:
        # ValueError: a line beyond any measure; what follows it is still to be had.
        raise no_answer(f"GET {path}", error) from error
