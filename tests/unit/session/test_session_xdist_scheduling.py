"""xdist deals out the two passes of a profiled test to one worker, the measured one first."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from xdist.remote import Producer

from pytest_grovescale.session.test_config import measured_of_profiled
from pytest_grovescale.session.xdist_scheduling import scheduler

PASSES = [
    f"test_a.py::test_{name}{suffix}"
    for name in "abcdefg"
    for suffix in (("", "[profiled]") if name in "bceg" else ("",))
]


class Worker:
    """What a scheduler needs of a worker: it notes what it is sent."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.sent: list[int] = []
        self.done = 0

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def dealt(
    pytester: pytest.Pytester, nodeids: list[str], *arguments: str, workers: int = 2, grouped: bool = False
) -> list[list[str]]:
    """Return what each worker gets when all of them are equally fast."""
    config = pytester.parseconfig("-p", "xdist", f"--tx={workers}*popen", *arguments)
    groups = pytester.path / "groups"
    groups.write_bytes(msgspec.json.encode({"test_a.py::test_a": "one", "test_a.py::test_c": "one"} if grouped else {}))
    scheduling: Any = scheduler(config, Producer("test", enabled=False), groups)
    nodes = [Worker(f"gw{number}") for number in range(workers)]
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, nodeids)
    scheduling.schedule()
    while any(node.done < len(node.sent) for node in nodes):
        for node in nodes:
            if node.done < len(node.sent):
                node.done += 1
                scheduling.mark_test_complete(node, node.sent[node.done - 1], 0.0)
    return [[nodeids[index] for index in node.sent] for node in nodes]


@pytest.mark.parametrize("dist", ["load", "loadgroup"])
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_passes_stay_together_and_in_order(pytester: pytest.Pytester, dist: str, workers: int) -> None:
    found = dealt(pytester, PASSES, f"--dist={dist}", workers=workers)
    assert sorted(nodeid for sent in found for nodeid in sent) == sorted(PASSES)
    for sent in found:
        for index, nodeid in enumerate(sent):
            if measured := measured_of_profiled(nodeid):
                assert sent[index - 1] == measured


def test_more_than_one_worker_works(pytester: pytest.Pytester) -> None:
    assert all(dealt(pytester, PASSES, "--dist=load"))


@pytest.mark.parametrize("suffix", ["@one", ""])
def test_groups_stay_groups(pytester: pytest.Pytester, suffix: str) -> None:
    """As xdist hands them over up to pytest 9.1, and as our own workers do."""
    names = [f"test_a.py::test_a{suffix}", "test_a.py::test_b", f"test_a.py::test_c{suffix}", "test_a.py::test_d"]
    found = dealt(pytester, names, "--dist=loadgroup", grouped=not suffix)
    assert any({names[0], names[2]} <= set(sent) for sent in found)


@pytest.mark.parametrize("dist", ["loadscope", "loadfile", "worksteal", "each", "no"])
def test_other_modes_are_xdists_own(pytester: pytest.Pytester, dist: str) -> None:
    config = pytester.parseconfig("-p", "xdist", "--tx=2*popen", f"--dist={dist}")
    assert scheduler(config, Producer("test", enabled=False), pytester.path / "groups") is None


@pytest.mark.parametrize(
    ("nodeid", "measured"),
    [
        ("test_a.py::test_x[profiled]", "test_a.py::test_x"),
        ("test_a.py::test_x[1-profiled]", "test_a.py::test_x[1]"),
        ("test_a.py::test_x", ""),
        ("test_profiled.py::test_x[1]", ""),
        ("test_profiled.py::test_x", ""),
    ],
)
def test_which_pass_a_profiled_one_follows(nodeid: str, measured: str) -> None:
    assert measured_of_profiled(nodeid) == measured
