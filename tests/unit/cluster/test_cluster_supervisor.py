"""The supervisor: what it starts, it owns; it ends with the last lease, and nothing outlives it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import procfs
from pytest_grovescale.cluster import lease, processes, state, supervisor_client
from pytest_grovescale.cluster.processes import OVER_MEMORY, ProcessInfo, ProcessSpec
from pytest_grovescale.errors import ClusterError
from tests.golden import masked

from .supervised import Supervised

Eventually = Callable[[Callable[[], object], str], None]
Python = Callable[..., subprocess.Popen[str]]

WAIT = "import signal; signal.pause()"
HOLDER = """
    import sys
    from pathlib import Path
    from pytest_grovescale.cluster import lease
    held = lease.take(Path(sys.argv[1]), run_id="run-2")
    print(held.id, flush=True)
    sys.stdin.read()
"""


def alive(info: ProcessInfo) -> bool:
    return processes.alive(info.pid, info.started_ticks)


def dead(info: ProcessInfo) -> bool:
    return not alive(info)


def says_ready(info: ProcessInfo) -> bool:
    return "ready" in log_of(info)


def log_of(info: ProcessInfo) -> str:
    return Path(info.log).read_text()


def test_process_runs_with_the_given_environment_folder_and_log(supervised: Supervised, eventually: Eventually) -> None:
    code = "import os; print(os.getcwd(), os.environ['A'], 'HOME' in os.environ)"
    info = supervised.start(supervised.spec("one", code, env={"A": "b"}, cwd=str(supervised.folder.parent)))
    assert info.running
    eventually(lambda: not supervised.listed("one").running, "its end")
    assert supervised.listed("one").exit_code == 0
    assert log_of(info) == f"{supervised.folder.parent} b False\n"


def test_processes_file_follows_every_change(supervised: Supervised) -> None:
    info = supervised.start(supervised.spec("one", WAIT))
    assert json.loads((supervised.folder / "processes.json").read_text())["one"]["pid"] == info.pid
    assert supervised.listed("one") == info
    ended = supervised.stop("one")
    assert supervised.listed("one") == ended
    assert (ended.running, ended.exit_code) == (False, -signal.SIGTERM)
    assert not alive(info)


def test_what_cannot_be_started_is_named_with_the_reason(supervised: Supervised, snapshot: SnapshotAssertion) -> None:
    spec = supervised.spec("one", WAIT, cwd=str(supervised.folder / "none"))
    with pytest.raises(ClusterError) as caught:
        supervised.start(spec)
    assert masked(str(caught.value), {supervised.folder: "folder"}) == snapshot
    assert "No such file or directory" in caught.value.message
    assert supervised.start(supervised.spec("one", WAIT)).running


def test_what_the_machine_refuses_it_comes_with_a_next_step(
    supervised: Supervised, snapshot: SnapshotAssertion
) -> None:
    resource.prlimit(supervised.owner.pid, resource.RLIMIT_NOFILE, (12, 12))
    with pytest.raises(ClusterError, match="Too many open files") as raised:
        for number in range(12):
            supervised.start(supervised.spec(f"{number}", WAIT))
    assert "ulimit -n" in raised.value.next_step
    assert raised.value.next_step == snapshot


def test_stop_is_idempotent_and_knows_the_names(supervised: Supervised) -> None:
    supervised.start(supervised.spec("one", WAIT))
    assert supervised.stop("one") == supervised.stop("one")
    with pytest.raises(ClusterError, match="no process 'two'"):
        supervised.stop("two")


def test_restart_is_the_same_process_with_another_pid(supervised: Supervised) -> None:
    first = supervised.start(supervised.spec("one", WAIT, restart=True))
    second = supervised.restart("one")
    assert dead(first)
    assert alive(second)
    assert (second.name, second.restarts) == ("one", 0)
    assert supervised.listed("one").pid == second.pid != first.pid
    with pytest.raises(ClusterError, match="two"):
        supervised.restart("two")


def test_a_name_runs_once_at_a_time_and_again_afterwards(supervised: Supervised) -> None:
    first = supervised.start(supervised.spec("one", WAIT))
    with pytest.raises(ClusterError, match=f"'one' runs already .pid {first.pid}"):
        supervised.start(supervised.spec("one", WAIT))
    supervised.stop("one")
    assert supervised.start(supervised.spec("one", WAIT)).pid != first.pid


def test_a_program_that_is_not_there_says_so_in_the_log(
    supervised: Supervised, eventually: Eventually, snapshot: SnapshotAssertion
) -> None:
    info = supervised.start(ProcessSpec(name="one", argv=["/no/such"], log=str(supervised.folder / "one.log")))
    eventually(lambda: not supervised.listed("one").running, "its end")
    assert supervised.listed("one").exit_code == 127
    assert "/no/such" in log_of(info)
    assert log_of(info) == snapshot


def test_a_folder_that_is_not_there_is_refused_and_the_supervisor_lives(supervised: Supervised) -> None:
    with pytest.raises(ClusterError, match="No such file"):
        supervised.start(supervised.spec("one", WAIT, cwd="/no/such"))
    assert supervised.start(supervised.spec("one", WAIT)).running


def test_what_ignores_sigterm_is_killed_after_its_grace(supervised: Supervised, eventually: Eventually) -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    info = supervised.start(supervised.spec("one", code, stop_grace_s=0.1))
    eventually(lambda: "ready" in log_of(info), "its first line")
    assert supervised.stop("one").exit_code == -signal.SIGKILL


def test_children_of_a_process_end_with_it(supervised: Supervised, eventually: Eventually) -> None:
    code = """
        import os, signal
        child = os.fork()
        if not child:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        else:
            print(child, flush=True)
        signal.pause()
    """
    info = supervised.start(supervised.spec("one", code))
    eventually(lambda: "\n" in log_of(info), "its first line")
    child = int(log_of(info))
    ticks = procfs.started_ticks(child)
    supervised.stop("one")
    eventually(lambda: not processes.alive(child, ticks), "its child's end")


def test_crashed_process_is_started_again(supervised: Supervised, eventually: Eventually) -> None:
    first = supervised.start(supervised.spec("one", WAIT, restart=True))
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: supervised.listed("one").restarts == 1 and supervised.listed("one").running, "its restart")
    second = supervised.listed("one")
    assert second.pid != first.pid
    assert alive(second)
    assert supervised.stop("one").restarts == 1
    assert not supervised.listed("one").running


def test_memory_over_its_limit_ends_a_process_and_is_said(
    supervised: Supervised, eventually: Eventually, snapshot: SnapshotAssertion
) -> None:
    code = "import signal; held = bytes(80_000_000).replace(b'\\0', b'x'); signal.pause()"
    info = supervised.start(supervised.spec("one", code, memory_bytes=60_000_000))
    eventually(lambda: not supervised.listed("one").running, "its end")
    assert supervised.listed("one").exit_code == -signal.SIGKILL
    assert log_of(info).startswith(OVER_MEMORY)
    assert "60 MB" in log_of(info)
    assert masked(log_of(info), numbers=True) == snapshot


def test_sudden_memory_is_refused_by_the_kernel(supervised: Supervised, eventually: Eventually) -> None:
    info = supervised.start(supervised.spec("one", "bytearray(2_000_000_000)", memory_bytes=60_000_000))
    eventually(lambda: not supervised.listed("one").running, "its end")
    assert "MemoryError" in log_of(info)


def test_process_is_pinned_to_its_cores(supervised: Supervised, eventually: Eventually) -> None:
    core = min(os.sched_getaffinity(0))
    info = supervised.start(supervised.spec("one", "import os; print(os.sched_getaffinity(0))", cores=[core]))
    eventually(lambda: not supervised.listed("one").running, "its end")
    assert log_of(info) == f"{{{core}}}\n"


def test_death_of_the_last_holder_ends_all(python: Python, supervised: Supervised) -> None:
    holder = python(HOLDER, supervised.folder)
    assert holder.stdout is not None
    name = holder.stdout.readline().strip()
    supervisor_client.ask(supervised.folder, supervisor_client.Hello(lease=name))
    supervised.lease.release()
    mine = supervised.start(supervised.spec("one", WAIT))
    assert alive(mine)
    holder.kill()
    assert supervised.gone()
    assert not alive(mine)
    assert not supervised.folder.exists()


def test_second_holder_keeps_the_cluster(python: Python, supervised: Supervised, eventually: Eventually) -> None:
    holder = python(HOLDER, supervised.folder)
    assert holder.stdout is not None
    name = holder.stdout.readline().strip()
    supervisor_client.ask(supervised.folder, supervisor_client.Hello(lease=name))
    theirs = supervised.start(supervised.spec("theirs", WAIT), lease=name)
    mine = supervised.start(supervised.spec("mine", WAIT), lease=supervised.lease.id)
    holder.kill()
    eventually(lambda: not supervised.listed("theirs").running, "the end of what the dead one started")
    assert not alive(theirs)
    assert alive(mine)
    assert lease.names(supervised.folder) == [supervised.lease.id]


def test_last_release_ends_the_supervisor_and_its_folder(supervised: Supervised) -> None:
    info = supervised.start(supervised.spec("one", WAIT))
    supervised.lease.release()
    supervisor_client.ask(supervised.folder, supervisor_client.Bye(lease=supervised.lease.id))
    assert supervised.gone()
    assert not alive(info)
    assert not supervised.folder.exists()


def test_kept_cluster_stays_without_a_lease(supervised: Supervised) -> None:
    supervisor_client.ask(supervised.folder, supervisor_client.Keep(on=True))
    supervised.lease.release()
    answer = supervisor_client.ask(supervised.folder, supervisor_client.Bye(lease=supervised.lease.id))
    assert not answer.ending
    status = supervisor_client.ask(supervised.folder, supervisor_client.StatusWanted()).status
    assert status is not None
    assert (status.kept, status.leases) == (True, [])
    supervisor_client.ask(supervised.folder, supervisor_client.Down())
    assert supervised.gone()
    assert not supervised.folder.exists()


def test_processes_stop_in_order_of_rank(supervised: Supervised, eventually: Eventually, tmp_path: Path) -> None:
    order = tmp_path / "order"
    code = """
        import signal, sys
        def ended(*_):
            with open(NAME_OF_FILE, "a") as file:
                file.write(NAME)
            sys.exit()
        signal.signal(signal.SIGTERM, ended)
        print("ready", flush=True)
        while True:
            signal.pause()
    """
    for name, rank in (("a", 0), ("c", 2), ("b", 1)):
        text = code.replace("NAME_OF_FILE", repr(str(order))).replace("NAME", repr(name))
        info = supervised.start(supervised.spec(name, text), rank=rank)
        eventually(partial(says_ready, info), "its first line")
    supervisor_client.ask(supervised.folder, supervisor_client.Down())
    assert supervised.gone()
    assert order.read_text() == "cba"


def test_nothing_outlives_a_killed_supervisor(supervised: Supervised, eventually: Eventually) -> None:
    infos = [supervised.start(supervised.spec(name, WAIT, restart=True)) for name in ("one", "two")]
    os.kill(supervised.owner.pid, signal.SIGKILL)
    for info in infos:
        eventually(partial(dead, info), "the end of what it started")
    assert state.owner(supervised.folder) is None
    with pytest.raises(supervisor_client.SupervisorGone, match="does not answer"):
        supervisor_client.ask(supervised.folder, supervisor_client.StatusWanted())


def test_sigterm_ends_the_supervisor_in_order(supervised: Supervised) -> None:
    info = supervised.start(supervised.spec("one", WAIT))
    os.kill(supervised.owner.pid, signal.SIGTERM)
    assert supervised.gone()
    assert not alive(info)
    assert not supervised.folder.exists()


def test_an_ending_supervisor_takes_no_one_in(supervised: Supervised, eventually: Eventually) -> None:
    code = """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        while True:
            signal.pause()
    """
    info = supervised.start(supervised.spec("slow", code, stop_grace_s=1))
    eventually(lambda: "ready" in log_of(info), "its first line")
    supervisor_client.ask(supervised.folder, supervisor_client.Down())
    late = lease.take(supervised.folder)
    with pytest.raises(ClusterError):
        supervisor_client.ask(supervised.folder, supervisor_client.Hello(lease=late.id))
    late.release()
    assert supervised.gone()


def test_a_lease_that_is_not_there_owns_nothing(supervised: Supervised) -> None:
    with pytest.raises(ClusterError, match="there is no lease nobody"):
        supervisor_client.ask(supervised.folder, supervisor_client.Hello(lease="nobody"))
    with pytest.raises(ClusterError, match="the lease nobody is gone"):
        supervised.start(supervised.spec("one", WAIT), lease="nobody")


def test_nonsense_on_the_socket_is_refused_and_survived(supervised: Supervised) -> None:
    with supervisor_client._connect(supervised.folder, 10) as connection:
        connection.sendall(b'{"type": "explode"}\n')
        assert b"explode" in connection.makefile("rb").readline()
    assert supervisor_client.ask(supervised.folder, supervisor_client.StatusWanted()).status is not None
