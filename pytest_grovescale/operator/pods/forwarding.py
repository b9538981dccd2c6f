"""Local ports that forward to a port of the leader pod, for readers that cannot use the API server's proxy.

The proxy does not pass credentials on; endpoints that require them are reached through a forward.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from ...errors import GrovescaleError
from ...kube import port_forward
from ...kube.client import Client
from ...kube.port_forward import PortForward

_BLOCK = 1 << 16


class Forwarder:
    """Listens on loopback; forwards each connection to the pod that is leader at that time.

    ``told`` is called with the text of each error.
    """

    def __init__(
        self, client: Client, namespace: str, port: int, leader: Callable[[], str], told: Callable[[str], None]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._port = port
        self._leader = leader
        self._told = told
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        """Listen, and return the allocated port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    def close(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if pod := self._leader():
                async with port_forward.opened(self._client, self._namespace, pod, self._port) as connection:
                    await _exchange(reader, writer, connection)
        except (GrovescaleError, OSError) as error:
            self._told(f"port {self._port}: {error}")
        finally:
            # No leader, or the exchange has ended: the reader sees its connection close.
            writer.close()


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: PortForward) -> None:
    """Copy bytes in both directions until one side closes."""
    ways = [asyncio.create_task(_up(reader, connection)), asyncio.create_task(_down(writer, connection))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            if way.done():
                way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _up(reader: asyncio.StreamReader, connection: PortForward) -> None:
    with contextlib.suppress(ConnectionResetError):
        while data := await reader.read(_BLOCK):
            await connection.send(data)


async def _down(writer: asyncio.StreamWriter, connection: PortForward) -> None:
    async for data in connection.received():
        writer.write(data)
        await writer.drain()
