"""A supervisor in a test's hands, with processes that run Python code."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

from pytest_grovescale.cluster import launch, lease, processes, state, supervisor_client
from pytest_grovescale.cluster.processes import ProcessInfo, ProcessSpec


class Supervised:
    """A supervisor with nothing to supervise yet, and this test's lease on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.lease = lease.take(folder, run_id="run-1")
        with launch.supervisor(folder, []):
            pass
        owner = state.owner(folder)
        assert owner is not None
        self.owner = owner

    def spec(self, name: str, code: str, **fields: Any) -> ProcessSpec:
        """Return a process that runs Python code."""
        argv = [sys.executable, "-c", textwrap.dedent(code)]
        return ProcessSpec(name=name, argv=argv, log=str(self.folder / f"{name}.log"), **fields)

    def start(self, spec: ProcessSpec, *, lease: str = "", rank: int = 9) -> ProcessInfo:
        answer = supervisor_client.ask(self.folder, supervisor_client.StartProcess(spec=spec, lease=lease, rank=rank))
        assert answer.process is not None
        return answer.process

    def stop(self, name: str) -> ProcessInfo:
        answer = supervisor_client.ask(self.folder, supervisor_client.StopProcess(name=name))
        assert answer.process is not None
        return answer.process

    def restart(self, name: str) -> ProcessInfo:
        answer = supervisor_client.ask(self.folder, supervisor_client.RestartProcess(name=name))
        assert answer.process is not None
        return answer.process

    def listed(self, name: str) -> ProcessInfo:
        return state.process_list(self.folder)[name]

    def gone(self) -> bool:
        return processes.wait_gone(self.owner.pid, self.owner.started_ticks, 30)
