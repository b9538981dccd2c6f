"""The barrier of two tests side by side: a phase begins when both are as far; nobody waits for one that has ended."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from pytest_grovescale.bench.deploy_runs import Barrier
from pytest_grovescale.scenario import driver_protocol as tests_side

LONG_S = 10.0


class Waiting:
    """A test that waits at a barrier, in a thread."""

    def __init__(self, end: tests_side.Barrier) -> None:
        self._thread = threading.Thread(target=end.wait, daemon=True)
        self._thread.start()

    def waits(self) -> bool:
        return self._thread.is_alive()

    def goes_on(self) -> bool:
        self._thread.join(LONG_S)
        return not self._thread.is_alive()


@pytest.fixture
def barrier() -> Iterator[Barrier]:
    with Barrier() as driver:
        yield driver


def test_a_phase_begins_when_both_wait(barrier: Barrier) -> None:
    with barrier.line() as a, barrier.line() as b:
        first, second = tests_side.Barrier(a), tests_side.Barrier(b)
        for _ in range(3):
            one = Waiting(first)
            # It has said so when this returns, and is not let go.
            barrier.look(LONG_S)
            assert one.waits()
            other = Waiting(second)
            barrier.look(LONG_S)
            assert one.goes_on()
            assert other.goes_on()


def test_no_one_waits_for_one_that_has_ended(barrier: Barrier) -> None:
    with contextlib.ExitStack() as ends:
        a, b = ends.enter_context(barrier.line()), barrier.line()
        one = Waiting(tests_side.Barrier(a))
        barrier.look(LONG_S)
        assert one.waits()
        b.close()
        barrier.look(LONG_S)
        assert one.goes_on()
        # And from then on it goes alone.
        again = Waiting(tests_side.Barrier(a))
        barrier.look(LONG_S)
        assert again.goes_on()


def test_one_that_died_with_bytes_unread_has_ended(barrier: Barrier) -> None:
    with barrier.line() as a:
        b = barrier.line()
        for end in (a, b):
            end.sendall(b".")
        barrier.look(LONG_S)
        barrier.look(0)
        # Its answer is never read: the socket is reset, not shut down.
        b.close()
        barrier.look(LONG_S)
        assert a.recv(1) == b"."
        one = Waiting(tests_side.Barrier(a))
        barrier.look(LONG_S)
        assert one.goes_on()


def test_a_driver_that_is_gone_keeps_no_one() -> None:
    with Barrier() as driver:
        a = driver.line()
    with a:
        tests_side.Barrier(a).wait()


def test_a_test_without_a_driver_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tests_side.BARRIER, raising=False)
    tests_side.inherited_barrier().wait()
    for nonsense in ("", "none", "99999"):
        monkeypatch.setenv(tests_side.BARRIER, nonsense)
        tests_side.inherited_barrier().wait()


def test_a_line_is_inherited_once(barrier: Barrier, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = barrier.line(), barrier.line()
    with b:
        monkeypatch.setenv(tests_side.BARRIER, str(a.detach()))
        end = tests_side.inherited_barrier()
        one = Waiting(end)
        barrier.look(LONG_S)
        assert one.waits()
        tests_side.inherited_barrier().wait()
    barrier.look(LONG_S)
    assert one.goes_on()
    end.leave()


def test_no_one_waits_for_one_that_has_left(barrier: Barrier) -> None:
    with barrier.line() as a:
        left = tests_side.Barrier(barrier.line())
        one = Waiting(tests_side.Barrier(a))
        barrier.look(LONG_S)
        assert one.waits()
        left.leave()
        left.leave()
        barrier.look(LONG_S)
        assert one.goes_on()
        left.wait()
