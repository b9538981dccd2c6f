"""Processes of containers, found in /proc by the paths of their cgroups."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.procfs import Identity, first_of_containers

FIRST, SECOND = "a" * 64, "b" * 64
NODE = "docker/" + "c" * 64


def process(proc: Path, pid: int, parent: int, cgroup: str, *, ticks: int = 100, state: str = "S") -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(cgroup)
    # The name may hold anything; the start time is the 22nd field.
    (folder / "stat").write_text(f"{pid} (a) ({pid}) {state} {parent} " + "0 " * 17 + f"{ticks} 0\n")


def v1(container: str) -> str:
    path = f"/{NODE}/kubelet/kubepods/besteffort/pod1/{container}"
    return f"4:memory:{path}\n1:name=systemd:{path}\n0::/system.slice/docker.service\n"


def v2(container: str) -> str:
    return f"0::/system.slice/{NODE}.scope/kubelet.slice/kubepods.slice/pod1.slice/cri-containerd-{container}.scope\n"


def test_first_process_of_each_container(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, "0::/\n")
    process(tmp_path, 50, 1, v2("d" * 64))
    process(tmp_path, 60, 50, v2(FIRST), ticks=600)
    process(tmp_path, 61, 60, v2(FIRST))
    process(tmp_path, 62, 61, v2(FIRST))
    process(tmp_path, 40, 50, v1(SECOND), ticks=400)
    (tmp_path / "meminfo").write_text("no process")
    assert first_of_containers([FIRST, SECOND, "e" * 64], tmp_path) == {
        FIRST: Identity(60, 600),
        SECOND: Identity(40, 400),
    }


def test_one_that_has_ended_is_none(tmp_path: Path) -> None:
    process(tmp_path, 60, 50, v2(FIRST), state="Z")
    assert first_of_containers([FIRST], tmp_path) == {}


def test_processes_that_vanish_while_they_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "60").mkdir()
    process(tmp_path, 61, 50, v1(FIRST))
    (tmp_path / "61" / "stat").unlink()
    assert first_of_containers([FIRST], tmp_path) == {}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=10))
def test_the_root_of_any_tree_is_found(parents: list[int]) -> None:
    """Whatever the tree below it looks like, and in whatever order pids were given."""
    with tempfile.TemporaryDirectory() as folder:
        proc = Path(folder)
        # Pids fall while the tree grows, so that the root has the highest.
        process(proc, 1000, 7, v2(FIRST), ticks=1)
        for number, parent in enumerate(parents, start=1):
            process(proc, 1000 - number, 1000 - min(parent, number - 1), v2(FIRST), ticks=number)
        assert first_of_containers([FIRST], proc) == {FIRST: Identity(1000, 1)}
