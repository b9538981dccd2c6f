"""A socket that leads to another one as long as this runs: ``python -m tests.kind.unix_forward WAY TO``."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import wait_until

_CHUNK = 1 << 16


@contextlib.contextmanager
def forwarding(way: Path, to: str) -> Iterator[None]:
    """Let a socket lead to another for the length of a block; afterwards nobody answers there."""
    program = subprocess.Popen([sys.executable, "-m", __name__, str(way), to], cwd=Path(__file__).parents[2])
    try:
        wait_until(way.exists, "a socket that leads to the engine")
        yield
    finally:
        program.terminate()
        program.wait()
        way.unlink()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _serve(way: str, to: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(to)
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        far_writer.close()
        writer.close()

    server = await asyncio.start_unix_server(connected, way)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2]))
