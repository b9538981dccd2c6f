"""Stacks that a process tells itself, next to those that are taken from outside; with a real Python process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_grovescale.analysis.blocked_workers import read_dump, waiting_workers
from pytest_grovescale.endpoints import Address
from pytest_grovescale.operator import command
from pytest_grovescale.operator.definition import load
from pytest_grovescale.operator.placeholders import PROVIDED
from pytest_grovescale.procfs import Identity, identity
from pytest_grovescale.recording.profiling import stacks
from pytest_grovescale.recording.profiling.capture import ProfileFailed
from pytest_grovescale.recording.profiling.captures import plan
from pytest_grovescale.recording.protocol import ProfileTarget
from pytest_grovescale.recording.records import CpuRead, Scraped

PROGRAM = """
import asyncio, sys, time
from aiohttp import web
from pytest_grovescale.reference_operator import task_stacks

async def reconcile():
    await asyncio.sleep(3600)

async def _work():
    await reconcile()

async def main():
    workers = [asyncio.create_task(_work(), name=f"worker-{n}") for n in range(3)]
    async def tasks(_):
        return web.Response(text=task_stacks.text())
    app = web.Application()
    app.add_routes([web.get("/debug/tasks", tasks)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    if "stuck" in sys.argv:
        time.sleep(3600)
    await asyncio.gather(*workers)

asyncio.run(main())
"""


@contextmanager
def operator(*arguments: str) -> Iterator[tuple[ProfileTarget, Identity]]:
    """A process with three asyncio workers that wait, and how to look into it; ``stuck``: its loop stands still."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port
        found = identity(process.pid)
        assert found is not None
        address = Address(url=f"http://127.0.0.1:{port}/debug/tasks")
        yield ProfileTarget(process="operator", profiler="pyspy", stacks=address), found
    finally:
        process.kill()
        process.communicate()


def dumped(target: ProfileTarget, process: Identity) -> list[str]:
    return asyncio.run(stacks.stacks(target, process, captured=False))


def test_tasks_come_from_the_process_itself_and_threads_from_outside() -> None:
    with operator() as (target, process):
        lines = dumped(target, process)
    names = [stack.name for stack in read_dump(lines)]
    assert {"Task worker-0", "Task worker-1", "Task worker-2", "MainThread"} <= set(names)
    (group,) = waiting_workers(read_dump(lines))
    assert group.count == 3
    assert [frame.function for frame in group.frames] == ["sleep", "reconcile", "_work"]


def test_a_loop_that_stands_still_is_seen_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_SERVED_S", 0.3)
    with operator("stuck") as (target, process):
        lines = dumped(target, process)
    assert lines[0].startswith("# http://127.0.0.1:")
    assert "event loop stands still" in lines[0]
    (main,) = (stack for stack in read_dump(lines) if stack.name == "MainThread")
    assert main.frames[0].function == "main"


def test_nothing_at_all_is_a_failure() -> None:
    with operator() as (target, process):
        gone = Identity(2**22 + 1, process.started_ticks)
        nowhere = ProfileTarget(process="operator", profiler="pyspy", stacks=Address(url="http://127.0.0.1:1/tasks"))
        assert dumped(target, gone)[-2].startswith("# py-spy")
        with pytest.raises(ProfileFailed, match="py-spy"):
            dumped(nowhere, gone)
        assert "stacks.url in its definition" in dumped(nowhere, process)[0]


def test_the_reference_operator_reports_its_tasks() -> None:
    made = command.launch(load("reference"), {name: f"<{name}>" for name in PROVIDED}, environ={})
    assert made.stacks == Address(url="http://127.0.0.1:<health_port>/debug/tasks")


def test_those_that_it_serves_alone() -> None:
    with operator() as (target, process):
        lines = asyncio.run(stacks.stacks(target, process, captured=False, served_only=True))
        without = ProfileTarget(process="operator", profiler="pyspy")
        with pytest.raises(ProfileFailed):
            asyncio.run(stacks.stacks(without, process, captured=False, served_only=True))
    assert sum(line.startswith("Task worker-") for line in lines) == 3
    assert not any(line.startswith(("Thread", "Process", "#")) for line in lines)


def test_the_plan_keeps_where_stacks_are_reported() -> None:
    with operator() as (target, process):
        chosen = plan("auto", process="operator", pid=process.pid, pprof=None, stacks=target.stacks)
    assert chosen == target


@pytest.mark.parametrize(
    ("counts", "there"),
    [
        # Connections, and a pool.
        ({"threads": [8, 20, 20], "go_goroutines": [30, 49, 40]}, False),
        ({"threads": [8, 60, 60], "go_goroutines": []}, True),
        ({"threads": [8, 8, 8], "go_goroutines": [30, 130, 90]}, True),
        # They have ended.
        ({"threads": [8, 60, 9], "go_goroutines": [30, 130, 31]}, False),
    ],
)
def test_stacks_are_worth_a_dump_at_the_end_where_many_are_left(counts: dict[str, list[int]], there: bool) -> None:
    left = stacks.Leftovers()
    for at, threads in enumerate(counts["threads"]):
        left.feed(CpuRead(at=at, process="operator", pid=1, cpu_ns=1, rss_bytes=1, threads=threads))
        left.feed(CpuRead(at=at, process="recorder", pid=2, cpu_ns=1, rss_bytes=1, threads=100 * at))
    for at, number in enumerate(counts["go_goroutines"]):
        left.feed(Scraped(at=at, target="operator", samples={"go_goroutines": float(number), "other": 1.0}))
    # Only what changed is in a scrape.
    left.feed(Scraped(at=9, target="operator", samples={"other": 2.0}))
    assert left.there == there
