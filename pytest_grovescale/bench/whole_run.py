"""One run of the whole test: deploy, delete, and its other phases, with a fresh operator and fresh objects."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..analysis.comparison import VariantRun
from ..analysis.result import TestResult
from ..cluster.handle import Cluster
from . import child, measured
from .bench import Bench
from .child import Child
from .schedule import Slot

# Within some multiple of the hold, a profiled no-op phase repeats its triggers until it has enough samples.
_PROFILED_HOLD_S = 10.0


class WholeRun(NamedTuple):
    """A started run."""

    slot: Slot
    process: Child
    reports: Path


@contextlib.contextmanager
def started(
    bench: Bench, slot: Slot, cluster: Cluster, *, profile: str = "off", barrier: socket.socket | None = None
) -> Iterator[WholeRun]:
    """Start a slot's run on a cluster; it has ended when the block ends.

    ``profile``: a profiling pass follows. ``barrier``: its end of a socket, see ``scenario.barrier``.
    """
    reports = bench.store.run_folder(slot.name)
    # Left by a killed attempt: this run must not be judged by it.
    (reports / measured.LATEST).unlink(missing_ok=True)
    hold_s = bench.plan.hold_s if profile == "off" else _PROFILED_HOLD_S
    arguments = [
        *bench.arguments(slot.arm, reports, hold_s=hold_s, profile=profile),
        f"--grovescale-cluster={cluster.name}",
    ]
    with child.running(arguments, log=reports / "pytest.log", lock=bench.lock.descriptor, barrier=barrier) as process:
        yield WholeRun(slot, process, reports)


def follow(bench: Bench, run: WholeRun, line: str) -> None:
    """Show the last line of a run's output."""
    bench.screen.now(f"{run.slot.name}: {line}")


def result(bench: Bench, run: WholeRun, *, noop: bool = False) -> tuple[TestResult, VariantRun]:
    """Return the result of a run that has ended; ``noop``: its no-op phases count too.

    Raises NothingMeasured when it ended before its first phase.
    """
    test, found = measured.whole_run(run.reports, bench.plan.subject, run.process, base=bench.store.folder)
    if not noop:
        found = msgspec.structs.replace(found, metrics=measured.deploy_run(test, found))
    return test, found
