"""The goroutines of a real Go program: which of them are workers that wait, and where."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pytest_grovescale.analysis.blocked_workers import read_dump, waiting_workers
from pytest_grovescale.recording.profiling import pprof
from tests import goprogram
from tests.waiting import wait_until


def test_workers_of_a_go_operator_wait_on_one_line(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    program = goprogram.build(base.parent if base.name.startswith("popen-") else base)
    with goprogram.running(program, "-waiting=5", "-idle=3") as (_, address):
        dump: list[str] = []

        def all_there() -> bool:
            dump[:] = asyncio.run(pprof.dump(address)).splitlines()
            text = "\n".join(dump)
            return text.count("main.ensurePlugins(") == 5 and text.count("main.(*workqueue).Get(") == 3

        wait_until(all_there, "five workers wait inside a reconcile, and three for a key")
    stacks = read_dump(dump)
    (group,) = waiting_workers(stacks)
    assert (group.count, group.line.function) == (5, "main.ensurePlugins")
    assert Path(group.line.file) == goprogram.SOURCES / "goprogram" / "workers.go"
    source = (goprogram.SOURCES / "goprogram" / "workers.go").read_text().splitlines()
    assert source[group.line.line - 1].strip() == "time.Sleep(time.Second)"
    assert group.state.startswith("sleep")
    idle = [stack for stack in stacks if any(frame.function == "main.(*workqueue).Get" for frame in stack.frames)]
    assert len(idle) == 3
