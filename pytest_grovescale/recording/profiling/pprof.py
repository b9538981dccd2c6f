"""Go's ``net/http/pprof``: a CPU profile of exactly one phase, and heap and goroutine snapshots at its end.

A CPU profile is requested for an hour and ended by closing our half of the connection: it then arrives 0.01 to 0.14 s
later. Through the API server's proxy that would end the whole exchange: there, rounds of some seconds follow one
another.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Self

from ..records import ProfileKind
from .capture import ATTACH_S, FINISH_S, ProfileFailed, Taken
from .profiler_endpoint import AnyAddress, Exchange, Refused

SNAPSHOTS: dict[ProfileKind, str] = {"heap": "/heap", "goroutines": "/goroutine"}
"""Kind → path of the snapshots read at the end of a phase."""

ROUND_S = 5
"""Length of one round where a profile cannot be ended early, s; a round that spans the phase's end is completed."""

_CPU = "/profile?seconds={seconds}"
_WHOLE_S = 3600
_STACKS = "/goroutine?debug=2"
_REFUSED_AT_ONCE_S = 0.1
"""A server that cannot profile answers within this time, s; one that can is silent until the end. Measured: 1 to 4 ms.
"""

_MAX_BYTES = 256 << 20


class Pprof:
    """One CPU profile, or one round of it.

    ``over``: called when a round has ended by itself; given only for profiles in rounds.
    """

    def __init__(self, address: AnyAddress, file: Path, over: Callable[[], None] | None = None) -> None:
        self._address = address
        self._file = file
        self._over = over
        self._path = _CPU.format(seconds=_WHOLE_S if over is None else ROUND_S)
        self._sent = asyncio.Event()
        self._exchange: Exchange | None = None
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def attached(cls, address: AnyAddress, file: Path, over: Callable[[], None] | None = None) -> Self:
        """Return self once the server profiles, or has at least not refused. Raises ProfileFailed."""
        capture = cls(address, file, over)
        await capture._wait_until_it_is_asked()
        if over is not None:
            capture._receiving.add_done_callback(lambda done: None if done.cancelled() else over())
        return capture

    async def _wait_until_it_is_asked(self) -> None:
        sent = asyncio.create_task(self._sent.wait())
        try:
            await asyncio.wait({sent, self._receiving}, timeout=ATTACH_S, return_when=asyncio.FIRST_COMPLETED)
            if not sent.done() and not self._receiving.done():
                raise ProfileFailed(f"{self._address.url} took no connection within {ATTACH_S:g} s")
            done, _ = await asyncio.wait({self._receiving}, timeout=_REFUSED_AT_ONCE_S)
            if done:
                self._receiving.result()
                raise ProfileFailed(
                    f"{self._address.url}{self._path} was over at once",
                    next_step="It is not net/http/pprof: see the definition's pprof.url.",
                )
        except BaseException:
            await self._end()
            raise
        finally:
            sent.cancel()

    def stop(self) -> None:
        """End the profile; a round runs to its own end."""
        if self._exchange is not None and self._over is None:
            self._exchange.half_close()

    async def finish(self) -> Taken:
        """Return when the profile is in its file; the sample count is only in the file."""
        try:
            async with asyncio.timeout(FINISH_S if self._over is None else ROUND_S + FINISH_S):
                await self._receiving
        except TimeoutError:
            raise _late(self._address.url + self._path) from None
        finally:
            await self._end()
        return Taken()

    async def _receive(self) -> None:
        try:
            async with Exchange.opened(self._address, self._path) as self._exchange:
                self._sent.set()
                await _save(self._exchange, self._file)
        except (OSError, ValueError, Refused) as error:
            raise explained(self._address.url + self._path, error) from error

    async def _end(self) -> None:
        self._receiving.cancel()
        await asyncio.wait({self._receiving})


async def snapshot(address: AnyAddress, path: str, file: Path) -> None:
    """Write an endpoint's response into a file. Raises ProfileFailed."""
    try:
        async with asyncio.timeout(FINISH_S), Exchange.opened(address, path) as exchange:
            await _save(exchange, file)
    except TimeoutError:
        raise _late(address.url + path) from None
    except (OSError, ValueError, Refused) as error:
        raise explained(address.url + path, error) from error


async def dump(address: AnyAddress) -> str:
    """Return the stacks of all goroutines. Raises ProfileFailed; the caller sets the time limit."""
    text = bytearray()
    try:
        async with Exchange.opened(address, _STACKS) as exchange:
            async for piece in exchange.answer():
                text += piece
                if len(text) > _MAX_BYTES:
                    break
    except (OSError, ValueError, Refused) as error:
        raise explained(address.url + _STACKS, error) from error
    return text.decode(errors="replace")


def explained(url: str, error: Exception) -> ProfileFailed:
    """Return the error message with its remedy."""
    match error:
        case Refused(status=500, text=text) if "already in use" in text or "already enabled" in text:
            return ProfileFailed(
                f"{url} is busy with another profile",
                next_step="A Go process takes one CPU profile at a time: end the other one.",
            )
        case Refused(status=404):
            remedy = "Serve net/http/pprof in the operator, or see pprof.url in its definition."
        case Refused(status=401 | 403):
            remedy = "Set `token: true` at pprof in the definition, and grant its identity the nonResourceURL."
        case Refused(status=400, text=text) if "WriteTimeout" in text:
            remedy = "Let the operator serve pprof without a WriteTimeout: it cuts every profile short."
        case Refused():
            remedy = "See the operator's log."
        case ssl.SSLError():
            remedy = "Set `ca_file`, or `insecure_skip_verify: true`, at pprof in the definition."
        case ConnectionRefusedError():
            remedy = "No process listens there: see pprof.url in the definition, and the operator's log."
        case ConnectionError():
            remedy = "The process has ended, and its profile with it: a Go process keeps it to the end."
        case _:
            remedy = "See pprof.url in the definition."
    said = error.message if isinstance(error, Refused) else str(error) or type(error).__name__
    return ProfileFailed(f"{url}: {said}", next_step=remedy)


def _late(url: str) -> ProfileFailed:
    return ProfileFailed(
        f"{url} did not send its profile within {FINISH_S:g} s",
        next_step="The endpoint hangs, or a proxy stands before it: give the process's own address.",
    )


async def _save(exchange: Exchange, file: Path) -> None:
    size = 0
    with file.open("wb") as output:
        async for piece in exchange.answer():
            size += len(piece)
            if size > _MAX_BYTES:
                raise ValueError(f"more than {_MAX_BYTES >> 20} MB")
            output.write(piece)
    if not size:
        raise ValueError("an empty answer")
