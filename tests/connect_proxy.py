"""An HTTP proxy that connects its clients to wherever they want, as companies have it before a cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_grovescale.kube.portal import Portal


class _Proxy:
    """Tunnels of one loop."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._tunnels: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        tunnel = asyncio.create_task(self._tunnel(reader, writer))
        self._tunnels.add(tunnel)
        tunnel.add_done_callback(self._tunnels.discard)

    async def close(self) -> None:
        """Break all connections, and return when nobody uses one."""
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tunnels)

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            method, target, _ = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)
            self.asked.append(f"{method} {target}")
            there, back = await asyncio.open_connection(*target.rsplit(":", 1))
            self._open.add(back)
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await asyncio.gather(_pump(reader, back), _pump(there, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # Whichever side breaks off, the other one hears of it.
    with contextlib.closing(writer), contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@contextmanager
def connect_proxy() -> Iterator[tuple[str, list[str]]]:
    """Run a proxy on loopback; yield its URL, and the list of what it was asked for so far."""
    # A loop of its own: a proxy serves while those who use it wait.
    with Portal() as own:
        proxy = _Proxy()
        server = own.run(asyncio.start_server(proxy.serve, "127.0.0.1", 0))
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", proxy.asked
        finally:
            server.close()
            own.run(proxy.close())
