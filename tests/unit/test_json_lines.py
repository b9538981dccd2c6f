"""Messages between processes: whole, in order, whatever the pieces in which they arrive."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.json_lines import AsyncChannel, Channel, encode


class Word(msgspec.Struct, frozen=True, tag="word"):
    text: str


class Number(msgspec.Struct, frozen=True, tag="number"):
    value: int


Message = Word | Number

messages = st.lists(st.one_of(st.builds(Word, st.text(max_size=200)), st.builds(Number, st.integers(-9, 9))))


def heard(sent: bytes, cuts: list[int]) -> list[Message]:
    """Return what a channel hears of bytes that are sent in pieces, until the other end is closed."""
    ours, theirs = socket.socketpair()
    channel: Channel[Message] = Channel(ours, Message)
    edges = [0, *sorted({cut % (len(sent) + 1) for cut in cuts}), len(sent)]

    def send() -> None:
        with theirs:
            for start, end in itertools.pairwise(edges):
                theirs.sendall(sent[start:end])

    sender = threading.Thread(target=send)
    sender.start()
    found: list[Message] = []
    while (message := channel.hear()) is not None:
        found.append(message)
    sender.join()
    channel.close()
    return found


@given(messages, st.lists(st.integers(min_value=0, max_value=10_000), max_size=5))
def test_messages_arrive_whole_and_in_order(sent: list[Message], cuts: list[int]) -> None:
    assert heard(b"".join(map(encode, sent)), cuts) == sent


@given(messages, st.integers(min_value=1, max_value=10))
def test_a_message_that_was_cut_off_is_none(sent: list[Message], missing: int) -> None:
    whole = b"".join(map(encode, [*sent, Word("the last one")]))
    assert heard(whole[:-missing], []) == sent


def test_silence_is_a_timeout_and_loses_nothing() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        channel: Channel[Message] = Channel(ours, Message)
        line = encode(Number(7))
        theirs.sendall(line[:3])
        with pytest.raises(TimeoutError):
            channel.hear(0.01)
        theirs.sendall(line[3:])
        assert channel.hear(5) == Number(7)
        channel.close()


def test_close_ends_a_wait_of_another_thread() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        channel: Channel[Message] = Channel(ours, Message)
        found: list[Message | None] = []

        def wait() -> None:
            try:
                found.append(channel.hear())
            except OSError:
                # Closed before it began to wait.
                found.append(None)

        waiting = threading.Thread(target=wait)
        waiting.start()
        channel.close()
        waiting.join(5)
    assert found == [None]


def test_both_kinds_of_ends_understand_each_other() -> None:
    async def answer(connection: socket.socket) -> None:
        channel: AsyncChannel[Message] = await AsyncChannel.over(connection, Message)
        while (message := await channel.hear()) is not None:
            channel.say(message)
        await channel.close()

    ours, theirs = socket.socketpair()
    echo = threading.Thread(target=lambda: asyncio.run(answer(theirs)))
    echo.start()
    channel: Channel[Message] = Channel(ours, Message)
    for message in (Word("a\nb"), Number(1)):
        channel.say(message)
        assert channel.hear(5) == message
    channel.close()
    echo.join(5)
    assert not echo.is_alive()
