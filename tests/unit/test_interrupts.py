"""Signals that are held back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from pytest_grovescale import interrupts


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_during_the_message_of_the_last_one_does_not_nest() -> None:
    said: list[str] = []

    def say(name: str) -> None:
        said.append(name)
        for _ in range(2000):
            os.kill(os.getpid(), signal.SIGINT)

    interrupts.hold(say)
    os.kill(os.getpid(), signal.SIGINT)
    assert said == ["SIGINT"]
    interrupts.hold(said.append)
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    assert said == ["SIGINT"] * 3


def test_held_once_the_next_one_interrupts() -> None:
    said: list[str] = []
    interrupts.hold(said.append, once=True)
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert said == ["SIGINT"]
