"""CPU clocks of other processes: exact, children included, and never somebody else's."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pytest_grovescale.procfs import Identity, descendants, family, identity, started_ticks
from pytest_grovescale.recording.process_table import CoreWait, ProcessesFile, open_pidfd, usage

# Burns CPU on request: one line in, one line out with its own figure.
BURNER = """
import os, sys, time, subprocess
BURN = "import sys, time\\nwhile time.process_time() < 0.3: pass\\n"
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
for line in sys.stdin:
    what = line.strip()
    if what == "burn":
        burn(0.2)
    elif what == "reaped":
        subprocess.run([sys.executable, "-c", BURN], check=True)
    elif what == "child":
        child = subprocess.Popen(
            [sys.executable, "-c", BURN + "print(flush=True)\\nsys.stdin.read()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdout.readline()
    elif what == "exit":
        burn(0.2)
        break
    print(time.process_time_ns(), flush=True)
"""


class Burner:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", BURNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        found = identity(self.process.pid)
        assert found is not None
        self.identity = found

    def do(self, what: str) -> int:
        """Return the process' own CPU time, ns, when it is done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return int(line) if line else 0


@pytest.fixture
def burner() -> Iterator[Burner]:
    burner = Burner()
    with burner.process:
        yield burner
        assert burner.process.stdin is not None
        burner.process.stdin.close()
        burner.process.wait()


def cpu(process: Identity) -> int:
    used = usage(process)
    assert used is not None
    return used.cpu_ns


def test_the_clock_is_the_process_own(burner: Burner) -> None:
    before = cpu(burner.identity)
    own = burner.do("burn")
    after = cpu(burner.identity)
    assert before <= own <= after
    assert after - before >= 200_000_000


def test_memory_is_reported(burner: Burner) -> None:
    burner.do("burn")
    used = usage(burner.identity)
    assert used is not None
    assert 1 << 20 < used.rss_bytes <= used.peak_rss_bytes


def test_threads_are_counted_with_those_of_children(burner: Burner) -> None:
    alone = usage(burner.identity)
    burner.do("child")
    together = usage(burner.identity)
    assert alone is not None
    assert together is not None
    assert (alone.threads, together.threads) == (1, 2)


def test_children_count_while_they_live_and_when_they_were_reaped(burner: Burner) -> None:
    burner.do("burn")
    before = cpu(burner.identity)
    burner.do("reaped")
    reaped = cpu(burner.identity)
    # Reaped children are counted in ticks of 10 ms, their user and system time apart.
    assert reaped - before >= 300_000_000 - 20_000_000
    burner.do("child")
    assert cpu(burner.identity) - reaped >= 300_000_000


def test_a_child_that_is_measured_in_its_own_right_does_not_count_twice(burner: Burner) -> None:
    burner.do("child")
    [child] = descendants(burner.identity.pid)
    apart = usage(burner.identity, apart={child})
    assert apart is not None
    assert cpu(burner.identity) - apart.cpu_ns >= 300_000_000


def test_a_process_that_exited_still_reports_its_cpu_until_it_is_reaped(burner: Burner) -> None:
    burner.do("burn")
    before = cpu(burner.identity)
    pidfd = open_pidfd(burner.identity)
    assert pidfd is not None
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    assert poller.poll(0) == []
    burner.do("exit")
    assert poller.poll(10_000)
    os.close(pidfd)
    assert cpu(burner.identity) - before >= 200_000_000
    burner.process.wait()
    assert usage(burner.identity) is None
    assert identity(burner.identity.pid) != burner.identity
    assert open_pidfd(burner.identity) is None


def test_a_pid_that_another_user_has_is_refused(burner: Burner) -> None:
    other = Identity(burner.identity.pid, burner.identity.started_ticks + 1)
    assert usage(other) is None
    assert open_pidfd(other) is None


def test_started_ticks() -> None:
    assert started_ticks(os.getpid()) > 0
    assert started_ticks(2**22 + 1) == 0


def test_a_name_full_of_parentheses_confuses_no_one(tmp_path: Path) -> None:
    script = tmp_path / ") R (1 2"
    script.symlink_to("/bin/sleep")
    with subprocess.Popen([script, "60"]) as process:
        found = identity(process.pid)
        process.kill()
    assert found is not None
    assert abs(found.started_ticks / os.sysconf("SC_CLK_TCK") - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


def listing(**processes: tuple[int, int, bool]) -> bytes:
    return msgspec.json.encode(
        {
            name: {"name": name, "pid": pid, "started_ticks": ticks, "running": running, "log": "", "exit_code": None}
            for name, (pid, ticks, running) in processes.items()
        }
    )


def replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def test_the_processes_file_is_read_when_it_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    file = ProcessesFile(path)
    assert file.changed() is None
    replace(path, listing(etcd=(1, 2, True), kwok=(3, 4, False)))
    assert file.changed() == {"etcd": Identity(1, 2)}
    assert file.changed() is None
    replace(path, listing(etcd=(5, 6, True)))
    assert file.changed() == {"etcd": Identity(5, 6)}
    replace(path, b"no JSON")
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's words
        file.changed()


# Two threads besides the main one, which only waits; each burns when it gets a line and ends after two.
THREADS = """
import sys, threading, time
def work(go):
    for _ in range(2):
        go.acquire()
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass
        done.release()
go, done = threading.Semaphore(0), threading.Semaphore(0)
threads = [threading.Thread(target=work, args=[go]) for _ in range(2)]
for thread in threads:
    thread.start()
for rounds in range(2):
    print(flush=True)
    sys.stdin.readline()
    go.release(2)
    done.acquire(), done.acquire()
for thread in threads:
    thread.join()
print(flush=True)
sys.stdin.readline()
"""


def test_all_threads_count_that_wait_for_a_core_also_when_they_have_ended() -> None:
    core = min(os.sched_getaffinity(0))
    program = subprocess.Popen([sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert program.stdin is not None
        assert program.stdout is not None
        os.sched_setaffinity(program.pid, {core})
        wait = CoreWait()
        sums = []
        main_alone = []
        for _ in range(3):
            program.stdout.readline()
            sums.append(wait.read(family(program.pid)))
            main_alone.append(int(Path(f"/proc/{program.pid}/schedstat").read_bytes().split()[1]))
            program.stdin.write(b"\n")
            program.stdin.flush()
    finally:
        program.kill()
        program.communicate()
    if None in sums:
        pytest.skip("this kernel does not count it (CONFIG_SCHED_INFO)")
    started, burned, ended = map(float, filter(None, sums))
    # Two threads of one core: each waits while the other one has it. Those that ended keep what they had waited.
    assert burned - started > main_alone[1] - main_alone[0]
    assert ended >= burned
    assert ended > main_alone[-1]


def test_a_thread_that_was_given_the_id_of_another_does_not_take_its_wait_away() -> None:
    shown = iter([b"10 500 3\n", b"10 20 1\n", b""])
    wait = CoreWait()
    assert [wait.read([(7, ["7"])], lambda path: next(shown)) for _ in range(3)] == [500, 520, 520]


def test_a_kernel_that_does_not_count_it_is_not_taken_for_no_wait() -> None:
    assert CoreWait().read([(7, ["7", "8"])], lambda path: b"0 0 0\n") is None
