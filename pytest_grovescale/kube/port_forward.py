"""One connection to a port of a pod, through the API server and the kubelet, by WebSocket.

The protocol ``v4.channel.k8s.io``: each message begins with the byte of its channel. With one port, channel 0 carries
its data and channel 1 the reason of a failure, as text; the first message of each contains the port's number (2 bytes).
It has no half-closed connections.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import aiohttp

from ..errors import ClusterError
from .client import Client
from .errors import from_response, no_answer
from .logs import PODS

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
async def opened(client: Client, namespace: str, pod: str, port: int) -> AsyncIterator[PortForward]:
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
