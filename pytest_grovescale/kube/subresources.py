"""Subresources of pods and Services through the API server: log, portforward, proxy.

The protocol ``v4.channel.k8s.io``: each message begins with the byte of its channel. With one port, channel 0 carries
its data and channel 1 the reason of a failure, as text; the first message of each contains the port's number (2 bytes).
It has no half-closed connections.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Literal, NamedTuple
from urllib.parse import quote

import aiohttp

from ..errors import ClusterError
from .client import Client
from .errors import from_response, no_answer
from .resources import Resource
from .watch import open_stream


def path(
    plural: Literal["pods", "services"], namespace: str, name: str, port: int | str, *, scheme: str, path: str
) -> str:
    """Return the API server's proxy path for ``path`` of a pod or Service. ``port``: number, or a Service's port name.

    https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/#manually-constructing-apiserver-proxy-urls
    """
    secure = "https:" if scheme == "https" else ""
    target = f"{secure}{quote(name, safe='')}:{quote(str(port), safe='')}"
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/{plural}/{target}/proxy{path}"


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
        async with await open_stream(client, path, params, accept="*/*") as response:
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


_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_CONNECT_S = 10.0


class PortForwardBroke(ClusterError):
    """The other end reports why the connection ended: no listener, for example."""


class PortForward:
    """An open connection; made by `opened`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, data: bytes) -> None:
        """Send bytes to the pod. Raises ConnectionError when the connection is closed."""
        await self._socket.send_bytes(bytes((_DATA,)) + data)

    async def received(self) -> AsyncIterator[bytes]:
        """Yield the pod's bytes until it closes the connection. Raises PortForwardBroke."""
        begun: set[int] = set()
        async for message in self._socket:
            if message.type != aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel not in begun:
                # The number of the requested port.
                begun.add(channel)
            elif channel == _DATA:
                yield data
            elif channel == _ERROR and data:
                raise PortForwardBroke(data.decode(errors="replace").strip())


@asynccontextmanager
async def port_connection(client: Client, namespace: str, pod: str, port: int) -> AsyncIterator[PortForward]:
    """Yield a connection to a pod's port, closed at the end. Raises ApiError if it fails."""
    path = PODS.path(namespace, pod, "portforward")
    label = f"GET {path}"
    try:
        async with await _connected(client, path, port) as socket:
            yield PortForward(socket)
    except aiohttp.WSServerHandshakeError as error:
        # aiohttp drops the body of the server's response.
        raise from_response(error.status, f"HTTP {error.status}".encode(), request=label) from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise no_answer(label, error) from error


async def _connected(client: Client, path: str, port: int) -> aiohttp.ClientWebSocketResponse:
    """Return an open WebSocket; after a 401, that of a second attempt with new credentials."""
    used = client.access
    try:
        return await _asked(client, path, port)
    except aiohttp.WSServerHandshakeError as error:
        if error.status != HTTPStatus.UNAUTHORIZED or not used.renewable:
            raise
    await client.renew(used)
    return await _asked(client, path, port)


async def _asked(client: Client, path: str, port: int) -> aiohttp.ClientWebSocketResponse:
    return await client.session().ws_connect(
        path,
        params={"ports": str(port)},
        protocols=(_PROTOCOL,),
        headers={**client.headers(), "Accept": "*/*"},
        timeout=aiohttp.ClientWSTimeout(ws_close=_CONNECT_S),
        server_hostname=client.access.tls_server_name or None,
        # A message is as large as the kubelet's buffer.
        max_msg_size=0,
    )
