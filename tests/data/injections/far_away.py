"""Becomes another program whose requests to the API server take longer: they go through a relay that holds them.

The relay is a process of its own, so that the program's CPU clock is its own. It ends with the program: both ends
of a pipe tell it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import yaml


async def _serve(listening: socket.socket, server: str, delay_s: float, alive: int) -> None:
    target = urlsplit(server)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(_late(reader, there_writer, delay_s), _late(there_reader, writer, 0.0))

    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(alive, ended.set)
    relay = await asyncio.start_server(connected, sock=listening)
    await ended.wait()
    relay.close()


async def _late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Pass everything on, in order, each piece so much later than it came."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def receive() -> None:
        while data := await reader.read(1 << 16):
            pieces.put_nowait((loop.time() + delay_s, data))
        pieces.put_nowait((loop.time() + delay_s, b""))

    receiving = asyncio.create_task(receive())
    try:
        while True:
            due, data = await pieces.get()
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            if not data:
                break
            writer.write(data)
            await writer.drain()
        await receiving
    except ConnectionError:
        receiving.cancel()
    finally:
        writer.close()


def main() -> None:
    """Start the relay, write a kubeconfig that leads to it, and become the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    config = yaml.safe_load(given.kubeconfig.read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    listening = socket.create_server(("127.0.0.1", 0))
    alive, held = os.pipe()
    # Twice: a child's CPU would count as the program's.
    if (first := os.fork()) == 0:
        if os.fork() == 0:
            os.close(held)
            asyncio.run(_serve(listening, cluster["server"], given.delay_ms / 1000, alive))
        os._exit(0)
    os.waitpid(first, 0)
    os.set_inheritable(held, True)
    cluster["server"] = f"https://127.0.0.1:{listening.getsockname()[1]}"
    far = given.kubeconfig.with_name("kubeconfig.far")
    far.touch(mode=0o600)
    far.write_text(yaml.safe_dump(config), encoding="utf-8")
    program = [argument for argument in given.program if argument != "--"]
    os.execvp(program[0], [*program, "--kubeconfig", str(far)])


if __name__ == "__main__":
    main()
