"""The recorder process: reads its configuration from the socket, records until stopped, closes the journal."""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import os
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path

from .. import redaction
from ..errors import GrovescaleError, UsageError
from ..json_lines import AsyncChannel
from ..kube.client import Client
from . import protocol
from .journal import Writer
from .protocol import Configure, Done, RecorderConfig, Refused
from .session import Reason, Session

_MOST_FILES = 65_536

Harness = AsyncChannel[protocol.AnyRequest]


class _Ending:
    """Why the recording ends; the first cause counts."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.reason: Reason = "stopped"
        self.answer: int | None = None
        self.message = ""

    def because(self, reason: Reason, *, answer: int | None = None, message: str = "") -> None:
        if not self.event.is_set():
            self.reason, self.answer, self.message = reason, answer, redaction.text(message)
            self.event.set()


async def _serve(connection: socket.socket) -> RecorderConfig | None:
    """Record one recording; return its configuration when the controller has vanished, for the cleanup after it."""
    channel: Harness = await AsyncChannel.over(connection, protocol.AnyRequest)
    configure = await channel.hear()
    if configure is None:
        return None
    assert isinstance(configure, Configure)  # the protocol's first message
    redaction.conceal(*configure.config.concealed)
    sys.path.extend(entry for entry in configure.import_path if entry not in sys.path)
    try:
        journal = Writer(Path(configure.config.journal))
    except GrovescaleError as error:
        channel.say(_refusal(configure.id, error))
        await channel.close()
        return None
    ending = _Ending()
    _listen_for_the_end(ending, configure.controller)
    # Each watch keeps a connection: with a limit, probes would wait for one behind them, and the API server be blamed.
    async with Client(configure.config.access, user_agent="grovescale-recorder", connections=0) as client:
        session = Session(configure.config, client, journal, channel.say)
        session.start(lambda: ending.because("failed"))
        channel.say(Done(id=configure.id))
        commands = asyncio.create_task(_commands(channel, session, ending))
        await ending.event.wait()
        commands.cancel()
        await asyncio.wait({commands})
        await session.close(ending.reason, ending.message)
    if ending.answer is not None:
        channel.say(Done(id=ending.answer))
    await channel.close()
    return configure.config if ending.reason == "controller-gone" else None


def _listen_for_the_end(ending: _Ending, controller: int) -> None:
    loop = asyncio.get_running_loop()
    ended = functools.partial(ending.because, "interrupted", message="SIGTERM ended the recorder")
    loop.add_signal_handler(signal.SIGTERM, ended)
    # A child left behind by the harness may hold its end of the socket open: the harness' own exit counts too.
    try:
        pidfd = os.pidfd_open(controller)
    except ProcessLookupError:
        ending.because("controller-gone")
    else:
        loop.add_reader(pidfd, _controller_gone, ending, pidfd)


def _controller_gone(ending: _Ending, pidfd: int) -> None:
    asyncio.get_running_loop().remove_reader(pidfd)
    os.close(pidfd)
    ending.because("controller-gone")


async def _commands(channel: Harness, session: Session, ending: _Ending) -> None:
    """Dispatch commands one after another, until a stop or until the harness has gone."""
    waiting: asyncio.Queue[protocol.Command] = asyncio.Queue()
    worker = asyncio.create_task(_obey(waiting, session, channel, ending))
    try:
        while (command := await channel.hear()) is not None:
            assert not isinstance(command, Configure)  # only the first message is one
            if isinstance(command, protocol.Stop):
                # Also while a phase begins or ends: after Ctrl-C, no caller waits for it.
                ending.because(command.reason, answer=command.id)
                return
            waiting.put_nowait(command)
        ending.because("controller-gone")
    except Exception as error:  # noqa: BLE001 - any defect of ours must end the recording, journaled
        _fault(error, ending)
    finally:
        worker.cancel()
        await asyncio.wait({worker})


async def _obey(commands: asyncio.Queue[protocol.Command], session: Session, channel: Harness, ending: _Ending) -> None:
    while True:
        command = await commands.get()
        try:
            channel.say(Done(id=command.id, late=await session.obey(command)))
        except GrovescaleError as error:
            channel.say(_refusal(command.id, error))
        except Exception as error:  # noqa: BLE001 - any defect of ours must end the recording, journaled
            _fault(error, ending)
            return


def _fault(error: Exception, ending: _Ending) -> None:
    """End the recording because of an internal error; the trace goes to the recorder's log."""
    traceback.print_exception(error)
    ending.because("failed", message=f"{type(error).__name__}: {error}")


def _refusal(number: int, error: GrovescaleError) -> Refused:
    usage = isinstance(error, UsageError)
    return Refused(id=number, usage=usage, message=redaction.text(error.message), next_step=error.next_step)


def _allow_sockets() -> None:
    """Raise the soft limit of open files, so that a thousand targets can have a connection each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def main(arguments: list[str]) -> int:
    """Run the recorder process; ``--control-fd`` names the inherited socket."""
    parser = argparse.ArgumentParser(prog="python -m pytest_grovescale.recording")
    parser.add_argument("--control-fd", type=int, required=True)
    options = parser.parse_args(arguments)
    # Ctrl-C is for the harness, which decides what is still to be recorded.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _allow_sockets()
    # What it keeps of objects lives as long as they do: frequent garbage collection would free almost nothing.
    gc.set_threshold(50_000, 20, 50)
    with socket.socket(fileno=options.control_fd) as connection:
        connection.set_inheritable(False)
        connection.setblocking(False)
        orphaned = asyncio.run(_serve(connection))
    if orphaned is not None and orphaned.after_close:
        sys.stdout.flush()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execvp(orphaned.after_close[0], orphaned.after_close)
    return 0
