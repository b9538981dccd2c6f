"""One run of the whole test: deploy, delete, and whatever else it does, with a fresh operator and fresh objects."""

from __future__ import annotations

import contextlib
import time

import msgspec

from ..cluster.handle import Cluster
from . import child, measured
from .bench import Bench, shared_cluster
from .schedule import Slot
from .store import Sample

# Within some multiple of the hold, a profiled no-op phase repeats its triggers until it has samples enough.
_PROFILED_HOLD_S = 10.0


class Deploys:
    """Runs of the test one after the other, on one cluster that stays until ``stack`` is closed."""

    def __init__(self, bench: Bench, stack: contextlib.ExitStack, *, whole: bool = False, profile: str = "off") -> None:
        self._bench = bench
        self._stack = stack
        self._whole = whole
        self._profile = profile
        self._cluster: Cluster | None = None

    def __call__(self, slot: Slot) -> None:
        """Make one run."""
        if self._cluster is None:
            self._cluster = shared_cluster(self._bench)
            self._stack.callback(self._cluster.release)
        run(self._bench, slot, self._cluster, whole=self._whole, profile=self._profile)

    def finish(self) -> None:
        """Nothing is left running but the cluster, which ends with the stack."""


def run(bench: Bench, slot: Slot, cluster: Cluster, *, whole: bool = False, profile: str = "off") -> Sample:
    """Run the test once on a cluster and keep what it gave.

    ``whole``: its no-op phases count too. ``profile``: a second pass with a profiler follows. Raises NothingMeasured
    when the run ended before its first phase.
    """
    began = time.monotonic()
    reports = bench.store.run_folder(slot.name)
    # Of an attempt that was killed: this run is not to be judged by it.
    (reports / measured.LATEST).unlink(missing_ok=True)
    hold_s = bench.plan.hold_s if profile == "off" else _PROFILED_HOLD_S
    arguments = [
        *bench.arguments(slot.arm, reports, hold_s=hold_s, profile=profile),
        f"--grovescale-cluster={cluster.name}",
    ]
    log = reports / "pytest.log"
    with child.running(arguments, log=log, turn=bench.turn) as process:
        process.wait(lambda line: bench.screen.now(f"{slot.name}: {line}"))
        test, found = measured.whole_run(reports, bench.plan.subject, process, base=bench.store.folder)
    if not whole:
        found = msgspec.structs.replace(found, metrics=measured.deploy_run(test, found))
    return bench.keep(slot, began, test, found)
