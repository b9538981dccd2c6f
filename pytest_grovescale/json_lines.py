"""Messages between processes over a socket: one JSON document per line.

Each protocol is a module of structs (`recording.protocol`, `scenario.driver_protocol`, `cluster.supervisor_client`);
how they travel is here.
"""

from __future__ import annotations

import asyncio
import select
import socket
from typing import Any, Generic, Self, TypeVar

import msgspec

T = TypeVar("T")

_CHUNK = 1 << 16
_MAX_LINE = 64 << 20


def encode(message: msgspec.Struct) -> bytes:
    """Return a message as one line."""
    return msgspec.json.encode(message) + b"\n"


class Channel(Generic[T]):
    """One end of a socket, whose other end sends messages of type ``T``."""

    def __init__(self, connection: socket.socket, heard: Any) -> None:
        """``heard``: the type ``T`` as an object, which may be a union."""
        self._connection = connection
        self._decode = msgspec.json.Decoder(heard).decode
        self._unread = bytearray()
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)

    def fileno(self) -> int:
        """Return the socket's descriptor, so that `select.select` takes channels."""
        return self._connection.fileno()

    def say(self, message: msgspec.Struct) -> None:
        """Send a message; raises OSError when the other end is closed."""
        self._connection.sendall(encode(message))

    def hear(self, timeout_s: float | None = None) -> T | None:
        """Return the next message; None when the other end has closed or died.

        Raises TimeoutError when nothing arrives for ``timeout_s`` seconds.
        """
        searched = 0
        while (end := self._unread.find(b"\n", searched)) < 0:
            searched = len(self._unread)
            if timeout_s is not None and not self._readable.poll(timeout_s * 1000):
                raise TimeoutError(f"no message within {timeout_s:g} s")
            try:
                part = self._connection.recv(_CHUNK)
            except ConnectionResetError:
                return None
            if not part:
                return None
            self._unread += part
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        message: T = self._decode(line)
        return message

    def close(self) -> None:
        """Close the socket; a thread that waits in `hear` returns."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The other end is closed already.
            pass
        finally:
            self._connection.close()


class AsyncChannel(Generic[T]):
    """As `Channel`, on an event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._decode = msgspec.json.Decoder(heard).decode

    @classmethod
    async def over(cls, connection: socket.socket, heard: Any) -> Self:
        """Return the channel over a connected socket."""
        return cls(*await asyncio.open_connection(sock=connection, limit=_MAX_LINE), heard)

    def say(self, message: msgspec.Struct) -> None:
        """Send a message, unless the channel is closed."""
        if not self._writer.is_closing():
            self._writer.write(encode(message))

    async def hear(self) -> T | None:
        """Return the next message; None when the other end has closed or died.

        Raises msgspec.MsgspecError for a line that is no such message, ValueError for one that is too long.
        """
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return self._decode(line) if line.endswith(b"\n") else None

    async def close(self) -> None:
        """Send what is left, and close the socket."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            # The other end is closed already: there is no receiver.
            return
