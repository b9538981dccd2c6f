"""A controller's workers as its metrics show them: keys that are all there at once, and a time that each takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_grovescale.recording import records as rec

from .simulated import T0, S


@dataclass(frozen=True, kw_only=True)
class WorkerPool:
    """Workers that take one key after the other; times are seconds from the phase's start."""

    controller: str = "podcliqueset"
    keys: int = 100
    workers: int = 5
    takes_s: float = 20.0
    """Each key."""
    shift_s: float = 0.0
    """By how much each worker begins after the one before it."""
    cores: float = 0.0
    """What a worker that is busy uses of a core."""
    whole: bool = True
    """Whether controller-runtime's families are served, or only the queues'."""

    def started(self, worker: int, at: float) -> int:
        """Return how many keys a worker has taken by a moment."""
        share = self.keys // self.workers + (worker < self.keys % self.workers)
        since = at - worker * self.shift_s
        return 0 if since < 0 else min(share, int(since / self.takes_s) + 1)

    def samples(self, at: float) -> dict[str, float]:
        """Return what /metrics says at a moment."""
        taken = [self.started(worker, at) for worker in range(self.workers)]
        ages = [
            at - worker * self.shift_s - (count - 1) * self.takes_s
            for worker, count in enumerate(taken)
            if count and at - worker * self.shift_s < count * self.takes_s
        ]
        done = sum(taken) - len(ages)
        queue = f'{{controller="{self.controller}",name="{self.controller}"}}'
        found = {
            f'workqueue_depth{{controller="{self.controller}",name="{self.controller}",priority="0"}}': self.keys
            - sum(taken),
            f"workqueue_unfinished_work_seconds{queue}": sum(ages),
            f"workqueue_longest_running_processor_seconds{queue}": max(ages, default=0.0),
            f"workqueue_work_duration_seconds_sum{queue}": done * self.takes_s,
            f"workqueue_work_duration_seconds_count{queue}": done,
        }
        if self.whole:
            label = f'{{controller="{self.controller}"}}'
            found[f"controller_runtime_active_workers{label}"] = len(ages)
            found[f"controller_runtime_max_concurrent_reconciles{label}"] = self.workers
        return {series: float(value) for series, value in found.items()}

    def cpu(self, at: float) -> float:
        """Return the CPU seconds that the operator has used by a moment."""
        busy = sum(
            min(max(0.0, at - worker * self.shift_s), self.started(worker, 1e9) * self.takes_s)
            for worker in range(self.workers)
        )
        return 0.015 * at + self.cores * busy


def moment(at: float) -> int:
    """Return a moment of the phase on the recorder's clock."""
    return T0 + round(at * S)


def recording(*pools: WorkerPool, seconds: float = 60.0, every: float = 5.0, clock: bool = True) -> list[rec.AnyRecord]:
    """Return the records of one phase, ``deploy``: scrapes at its edges and between them, CPU reads each second."""
    records: list[rec.AnyRecord] = [
        _scrape(pools, 0.0, "start:deploy"),
        rec.PhaseStarted(at=moment(0.0), phase="deploy", timeout_ns=600 * S),
        *_between(pools, seconds, every, clock),
        _scrape(pools, seconds, "end:deploy"),
        rec.PhaseEnded(at=moment(seconds), phase="deploy", outcome="passed"),
    ]
    return records


def _between(pools: tuple[WorkerPool, ...], seconds: float, every: float, clock: bool) -> Iterator[rec.AnyRecord]:
    reads = [float(at) for at in range(int(seconds) + 1)] if clock else []
    scrapes = [number * every for number in range(1, 10_000) if number * every < seconds]
    for at, kind in sorted([*((at, 0) for at in reads), *((at, 1) for at in scrapes)]):
        if kind:
            yield _scrape(pools, at, "")
        else:
            used = round(sum(pool.cpu(at) for pool in pools) * S)
            yield rec.CpuRead(at=moment(at), process="operator", pid=7, cpu_ns=used, rss_bytes=1)


def _scrape(pools: tuple[WorkerPool, ...], at: float, edge: str) -> rec.Scraped:
    samples = {series: value for pool in pools for series, value in pool.samples(at).items()}
    return rec.Scraped(at=moment(at), target="operator", edge=edge, samples=samples)
