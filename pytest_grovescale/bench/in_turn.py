"""Sequential runs of the whole test on one cluster: each has the machine to itself."""

from __future__ import annotations

import contextlib
import functools
import time

from ..cluster.handle import Cluster
from . import measured, whole_run
from .bench import Bench, shared_cluster
from .schedule import Slot


class InTurn:
    """Makes sequential runs, on one cluster that lives until ``stack`` is closed."""

    def __init__(self, bench: Bench, stack: contextlib.ExitStack, *, noop: bool = False, profile: str = "off") -> None:
        """``noop``: no-op phases count too. ``profile``: each run has a second pass, with a profiler."""
        self._bench = bench
        self._stack = stack
        self._noop = noop
        self._profile = profile
        self._cluster: Cluster | None = None

    def __call__(self, slot: Slot) -> None:
        """Make one run, and save its sample."""
        if self._cluster is None:
            self._cluster = shared_cluster(self._bench)
            self._stack.callback(self._cluster.release)
        began = time.monotonic()
        with whole_run.started(self._bench, slot, self._cluster, profile=self._profile) as run:
            run.process.wait(functools.partial(whole_run.follow, self._bench, run))
            test, found = whole_run.result(self._bench, run, noop=self._noop)
        (found,) = measured.with_contention([(found, measured.deploy_phases(test))], base=self._bench.store.folder)
        self._bench.keep(slot, began, test, found)

    def finish(self) -> None:
        """Nothing to do: only the cluster still runs, which ends with the stack."""
