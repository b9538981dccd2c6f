"""When an operator is at rest, told by its CPU clock alone. The process is a real one; how it works is the test's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_grovescale.cluster.handle import ProcessInfo
from pytest_grovescale.errors import OperatorError
from pytest_grovescale.procfs import started_ticks
from pytest_grovescale.scenario.quiescence import Work, cpu_ns, idle_cores, resting, until_done, until_rest

# Burns as many ms of CPU as it is told, and says when that is done.
WORKER = """
import sys, time
for line in sys.stdin:
    ends = time.process_time() + float(line) / 1000
    while time.process_time() < ends:
        pass
    print(flush=True)
"""


class Worker:
    """A process that works on request."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.work(1)

    def info(self) -> ProcessInfo | None:
        pid = self.process.pid
        return ProcessInfo(name="operator", pid=pid, started_ticks=started_ticks(pid), log="", running=True)

    def served_cpu_s(self) -> float | None:
        return None

    def check(self) -> None:
        if self.process.poll() is not None:
            raise OperatorError("it has died")

    def work(self, milliseconds: float) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{milliseconds}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        # What it does after its answer, until it asks for more, is work as well.
        while not self._asks():
            os.sched_yield()

    def _asks(self) -> bool:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] in "SZ"

    def process_time(self) -> float:
        return cpu_ns(self) / 1e9

    def works(self, *milliseconds: float) -> Callable[[float], None]:
        """Return a wait in which it works so much, each time it is called; nothing when the list is at its end."""
        left = list(milliseconds)

        def wait(seconds: float) -> None:
            if left:
                self.work(left.pop(0))
            # The share of an interval is what counts: it need not be a second.
            time.sleep(0.05)

        return wait


@pytest.fixture
def worker() -> Iterator[Worker]:
    found = Worker()
    yield found
    found.process.kill()
    found.process.communicate()


def test_rest_comes_when_the_work_is_done(worker: Worker) -> None:
    rest = until_rest(worker, 0.0, limit_s=30, wait=worker.works(200, 200, 200))
    assert rest.reached
    assert rest.cores <= 0.01


def test_one_that_works_for_ever_is_given_up(worker: Worker) -> None:
    rest = until_rest(worker, 0.0, limit_s=0.3, wait=worker.works(*[200.0] * 50))
    assert not rest.reached
    assert rest.cores > 0.02


def test_idle_is_measured_after_the_work(worker: Worker) -> None:
    assert idle_cores(worker, wait=worker.works(300, 300, 300, 300)) < 0.02


# Of an idle operator in Java that renews its Lease every two seconds, by the kernel's clock.
RENEWS = (0.002, 0.036, 0.002, 0.024, 0.023, 0.037, 0.002, 0.029)


@pytest.mark.parametrize(
    ("seen", "number"),
    [
        ((0.3, 0.001, 0.002, 0.001), 3),
        ((0.3, 0.001, 0.002), 0),
        ((0.8, 0.8, 0.8), 0),
        (RENEWS, 8),
        (RENEWS[:7], 0),
        ((*RENEWS[:4], 0.126, *RENEWS[5:]), 0),
        ((0.08, 0.06, 0.09, 0.05, 0.03, 0.0, 0.02, 0.0), 0),  # the end of work
    ],
)
def test_idle_is_what_does_not_change(seen: tuple[float, ...], number: int) -> None:
    assert tuple(resting(seen)) == (seen[-number:] if number else ())


def test_a_loop_answers_with_the_least_that_was_seen(worker: Worker) -> None:
    assert idle_cores(worker, wait=worker.works(*[200.0] * 50), limit_s=4) > 0.1


def test_done_when_the_work_is_done(worker: Worker) -> None:
    before = worker.process_time()
    done = until_done(worker, 0.0, cpu_ns(worker), limit_s=30, wait=worker.works(0, 60, 60))
    assert done.reached
    assert worker.process_time() - before > 0.11


def test_work_that_was_done_while_it_was_asked_for_counts(worker: Worker) -> None:
    before = cpu_ns(worker)
    worker.work(30)
    assert until_done(worker, 0.0, before, limit_s=30, wait=worker.works()).seconds < 0.3


def test_done_when_there_is_no_work(worker: Worker) -> None:
    done = until_done(worker, 0.0, cpu_ns(worker), limit_s=30, wait=worker.works())
    assert done.reached
    assert done.seconds > 0.3


def test_one_that_is_never_done_is_given_up(worker: Worker) -> None:
    assert not until_done(worker, 0.0, cpu_ns(worker), limit_s=0.3, wait=worker.works(*[200.0] * 50)).reached


def test_what_passes_after_a_pause_is_no_longer_waited_for(worker: Worker) -> None:
    work = Work(worker, 0.0, cpu_ns(worker))
    assert work.until_pause(limit_s=30, wait=worker.works(60)).reached
    # Time in which others are triggered.
    time.sleep(0.2)
    assert work.until_done(limit_s=30, wait=worker.works()).seconds < 0.05


def test_work_after_a_pause_is_waited_for(worker: Worker) -> None:
    work = Work(worker, 0.0, cpu_ns(worker))
    work.until_pause(limit_s=30, wait=worker.works(60))
    worker.work(30)
    done = work.until_done(limit_s=30, wait=worker.works(60))
    assert done.reached
    assert done.seconds > 0.15


def test_a_death_is_reported(worker: Worker) -> None:
    def wait(seconds: float) -> None:
        worker.process.kill()
        worker.process.wait()

    with pytest.raises(OperatorError, match="has died"):
        until_rest(worker, 0.0, limit_s=30, wait=wait)
