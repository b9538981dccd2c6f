"""A process that several leases own: it runs until the last of them has ended, however each one ends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from pytest_grovescale.cluster import processes, supervisor_client
from pytest_grovescale.cluster.processes import ProcessInfo
from pytest_grovescale.errors import ClusterError

from .supervised import Supervised

Eventually = Callable[[Callable[[], object], str], None]
Python = Callable[..., subprocess.Popen[str]]

WAIT = "import signal; signal.pause()"
HOLDER = """
    import sys
    from pathlib import Path
    from pytest_grovescale.cluster import lease
    held = lease.take(Path(sys.argv[1]), run_id="run-1")
    print(held.id, flush=True)
    sys.stdin.read()
"""


def alive(info: ProcessInfo) -> bool:
    return processes.alive(info.pid, info.started_ticks)


def share(supervised: Supervised, name: str, lease_id: str) -> ProcessInfo:
    answer = supervisor_client.ask(supervised.folder, supervisor_client.ShareProcess(name=name, lease=lease_id))
    assert answer.process is not None
    return answer.process


def held_elsewhere(supervised: Supervised, python: Python) -> tuple[subprocess.Popen[str], str]:
    holder = python(HOLDER, supervised.folder)
    assert holder.stdout is not None
    lease_id = holder.stdout.readline().strip()
    supervisor_client.ask(supervised.folder, supervisor_client.Hello(lease=lease_id))
    return holder, lease_id


def kill(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.communicate()


def leases(supervised: Supervised) -> list[str]:
    status = supervisor_client.ask(supervised.folder, supervisor_client.StatusWanted()).status
    assert status is not None
    return [str(one["lease"]) for one in status.leases]


def test_its_starters_death_leaves_it_to_those_who_share_it(
    supervised: Supervised, python: Python, eventually: Eventually
) -> None:
    starter, starters = held_elsewhere(supervised, python)
    info = supervised.start(supervised.spec("operator", WAIT), lease=starters)
    assert share(supervised, "operator", supervised.lease.id) == info
    kill(starter)
    eventually(lambda: starters not in leases(supervised), "the end of the starter's lease")
    assert share(supervised, "operator", supervised.lease.id) == info
    assert alive(info)


def test_it_ends_with_the_last_of_its_owners(supervised: Supervised, python: Python, eventually: Eventually) -> None:
    starter, starters = held_elsewhere(supervised, python)
    sharer, sharers = held_elsewhere(supervised, python)
    info = supervised.start(supervised.spec("operator", WAIT), lease=starters)
    share(supervised, "operator", sharers)
    kill(sharer)
    eventually(lambda: sharers not in leases(supervised), "the end of the sharer's lease")
    assert alive(info)
    kill(starter)
    eventually(lambda: not alive(info), "its end with its last owner")


def test_the_clusters_own_process_is_not_taken_over(
    supervised: Supervised, python: Python, eventually: Eventually
) -> None:
    info = supervised.start(supervised.spec("etcd", WAIT))
    sharer, sharers = held_elsewhere(supervised, python)
    share(supervised, "etcd", sharers)
    kill(sharer)
    eventually(lambda: sharers not in leases(supervised), "the end of the sharer's lease")
    assert alive(info)


def test_what_does_not_run_cannot_be_shared(supervised: Supervised) -> None:
    with pytest.raises(ClusterError, match="no process 'operator' runs"):
        share(supervised, "operator", supervised.lease.id)
    supervised.start(supervised.spec("operator", WAIT))
    supervised.stop("operator")
    with pytest.raises(ClusterError, match="no process 'operator' runs"):
        share(supervised, "operator", supervised.lease.id)


def test_only_a_lease_shares(supervised: Supervised) -> None:
    supervised.start(supervised.spec("operator", WAIT), lease=supervised.lease.id)
    with pytest.raises(ClusterError, match="the lease nobody is gone"):
        share(supervised, "operator", "nobody")
