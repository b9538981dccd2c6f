"""The recorder's clock: never steps, and notices when the wall clock does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.recording.record_writer import STEP_NS, RecorderClock


class Times:
    """A wall clock and a monotonic clock under the test's hand."""

    def __init__(self, start: int = 10**18) -> None:
        self.monotonic_ns = 5_000
        self.offset = start
        self.lag = 0
        """How long the process is off the CPU at each read."""

    def wall(self) -> int:
        return self.monotonic_ns + self.offset

    def monotonic(self) -> int:
        self.monotonic_ns += self.lag
        return self.monotonic_ns


def test_it_starts_at_the_wall_clock_and_runs_with_monotonic_time() -> None:
    times = Times()
    clock = RecorderClock(times.wall, times.monotonic)
    assert clock.now() == times.wall()
    times.monotonic_ns += 42
    assert clock.now() == times.wall()


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(-(10**12), 10**12)), max_size=20))
def test_steps_are_noticed_and_leave_it_alone(moves: list[tuple[int, int]]) -> None:
    times = Times()
    clock = RecorderClock(times.wall, times.monotonic)
    base, reported = times.offset, 0
    last = clock.now()
    for passed, step in moves:
        times.monotonic_ns += passed
        times.offset += step
        found = clock.step()
        offset = times.offset - base
        if abs(offset - reported) >= STEP_NS:
            assert found == offset
            reported = offset
        else:
            assert found is None
        assert clock.now() == last + passed
        last = clock.now()


def test_an_interrupted_read_says_nothing_and_the_next_one_does() -> None:
    times = Times()
    clock = RecorderClock(times.wall, times.monotonic)
    times.offset -= 3600 * 10**9
    times.lag = 10**9
    assert clock.step() is None
    times.lag = 0
    assert clock.step() == -3600 * 10**9
    assert clock.step() is None
