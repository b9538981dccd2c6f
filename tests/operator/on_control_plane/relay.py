"""A TCP relay between the operator and the API server, to cut its connections as a network would."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from pytest_grovescale.kube.portal import Portal


class Relay:
    """Listens on a port of its own on loopback; every connection goes on to the server."""

    def __init__(self, portal: Portal, server: str) -> None:
        self._portal = portal
        self._target = urlsplit(server)
        self._open: set[asyncio.StreamWriter] = set()
        self._server = portal.run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        pair = {writer, there_writer}
        self._open |= pair
        try:
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        finally:
            self._open -= pair

    def cut(self) -> None:
        """Break all connections; new ones are taken."""

        async def run() -> None:
            for writer in self._open:
                writer.transport.abort()

        self._portal.run(run())

    def close(self) -> None:
        async def run() -> None:
            self._server.close()
            for writer in self._open:
                writer.transport.abort()

        self._portal.run(run())


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
