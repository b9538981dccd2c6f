"""Distribution of scale tests by xdist: the profiling pass follows its measured pass, on the same worker.

The schedulers of xdist's own modes ``loadscope`` and ``loadfile`` keep the two together by themselves, as they share a
scope. A stolen test (``worksteal``) may run on any worker; it is still a valid pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling, LoadScheduling, Scheduling
from xdist.workermanage import WorkerController

from ..atomic_write import replacing
from .test_config import group_of, measured_of_profiled


class PassesTogether(LoadScheduling):
    """``load``, but a batch never ends between the two passes of a test."""

    def _send_tests(self, node: WorkerController, num: int) -> None:
        super()._send_tests(node, num + self._splits(num))

    def _splits(self, num: int) -> bool:
        if self.collection is None or not 0 < num < len(self.pending):
            return False
        last, next_one = (self.collection[self.pending[index]] for index in (num - 1, num))
        return measured_of_profiled(next_one) == last


class PassesInOneGroup(LoadGroupScheduling):
    """``loadgroup``, but the two passes of a test without a group form one.

    Groups are read from ``file``, which the workers write: xdist passes them on in node ids, which pytest 9.2 no longer
    lets it write to (https://github.com/pytest-dev/pytest-xdist/issues/1386).
    """

    def __init__(self, config: pytest.Config, log: Producer, file: Path) -> None:
        super().__init__(config, log)
        self._file = file

    @cached_property
    def _groups(self) -> dict[str, str]:
        return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])

    def _split_scope(self, nodeid: str) -> str:
        scope = self._groups.get(nodeid) or super()._split_scope(nodeid)
        return (measured_of_profiled(nodeid) or nodeid) if scope == nodeid else scope


def scheduler(config: pytest.Config, log: Producer, groups: Path) -> Scheduling | None:
    """Return the scheduler of a run with scale tests; None where xdist's own suffices."""
    match config.getvalue("dist"):
        case "load":
            return PassesTogether(config, log)
        case "loadgroup":
            return PassesInOneGroup(config, log, groups)
        case _:
            return None


def write_groups(items: Sequence[pytest.Item], file: Path) -> None:
    """Write the tests' groups for the scheduler; all workers collect, and write, the same."""
    groups = {item.nodeid: group for item in items if (group := group_of(item))}
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(file) as out:
        out.write(msgspec.json.encode(groups))
