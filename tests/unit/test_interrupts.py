"""Signals that are held back."""

from __future__ import annotations

import os
import signal
import types
from collections.abc import Callable, Iterator

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


def test_an_interrupt_between_two_lines_can_be_shown() -> None:
    def strikes() -> None:
        raise KeyboardInterrupt

    def ends() -> None:
        try:
            _without_lines(strikes)()
        finally:
            _without_lines(strikes)()

    with pytest.raises(KeyboardInterrupt) as interrupted:
        ends()
    with pytest.raises(TypeError):
        interrupted.getrepr(funcargs=True)
    interrupts.number_lines(interrupted.value)
    again = pytest.ExceptionInfo.from_exc_info((KeyboardInterrupt, interrupted.value, interrupted.tb))
    shown = str(again.getrepr(funcargs=True)).splitlines()
    assert sum(line.startswith(">") and "def strikes" in line for line in shown) == 2


def _without_lines(function: Callable[[], None]) -> Callable[[], None]:
    """Return a function whose code has no lines, as the place has where a generator is resumed.

    A table of locations without any: Objects/locations.md of CPython.
    """
    code = function.__code__
    length, rest = divmod(len(code.co_code) // 2, 8)
    table = bytes([0xF8 | 7] * length + ([0xF8 | (rest - 1)] if rest else []))
    return types.FunctionType(code.replace(co_linetable=table), {})
