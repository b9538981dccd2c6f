"""A generated sweep: laws that are known, with noise like that of real runs. Nothing in it was measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pytest_grovescale.analysis.result import CheckResult
from pytest_grovescale.analysis.scaling import SizedRun, Sweep, sweep
from pytest_grovescale.checks import Scales

SIZES = (62, 125, 250, 500, 1000)
REPEATS = 3


class Law(NamedTuple):
    """figure = fixed + factor × size^exponent, times noise."""

    factor: float
    exponent: float
    fixed: float = 0.0
    noise: float = 0.02


LAWS = {
    "cpu:deploy": Law(6.2e-3, 1.04),
    "cpu:steady-state": Law(4.1e-4, 0.97, noise=0.04),
    "cpu:delete": Law(8.5e-6, 1.98),
    "noop_cpu": Law(2.2e-4, 1.0, noise=0.04),
    "wall:deploy": Law(0.012, 0.93, fixed=1.1, noise=0.05),
    "wall:delete": Law(2.6e-5, 1.9, fixed=0.9, noise=0.05),
    "milestone:deploy/pods-created": Law(0.0062, 0.96, fixed=0.2, noise=0.05),
    "milestone:deploy/pods-ready": Law(0.011, 0.93, fixed=0.6, noise=0.05),
    "milestone:deploy/pcs-available": Law(0.012, 0.93, fixed=1.0, noise=0.05),
    "milestone:delete/pods-gone": Law(0.0048, 0.98, fixed=0.1, noise=0.05),
    "milestone:delete/pcs-gone": Law(2.6e-5, 1.9, fixed=0.8, noise=0.05),
    "api:deploy": Law(9.4, 1.0, fixed=6.0, noise=0.005),
    "api:delete": Law(0.019, 2.0, fixed=12.0, noise=0.005),
    "writes:deploy": Law(7.2, 1.0, fixed=4.0, noise=0.0),
    "reconciles:deploy": Law(5.1, 1.02, noise=0.03),
    "reconciles:delete": Law(4.3, 1.0, noise=0.03),
    "noop_reconciles": Law(1.0, 1.0, fixed=1.0, noise=0.0),
    "rss:deploy": Law(5.2e4, 1.0, fixed=4.7e7, noise=0.005),
    "rss:delete": Law(5.4e4, 1.0, fixed=4.8e7, noise=0.005),
    "series:deploy": Law(0.0, 1.0, fixed=451.0, noise=0.001),
    "noop_writes": Law(0.0, 1.0, noise=0.0),
}


def grown(*, parameter: str = "replicas", broken: str = "deploy: timeout after 10m00s") -> Sweep:
    """Return a sweep of which one of the largest runs is broken, and in which no-op requests came at one size only."""
    chance = np.random.default_rng(4)
    runs = []
    for repeat in range(REPEATS):
        for size in SIZES:
            metrics = {
                key: (law.fixed + law.factor * size**law.exponent) * chance.lognormal(0, law.noise)
                for key, law in LAWS.items()
            }
            last = size == max(SIZES)
            if last:
                metrics["noop_requests"] = 1.0
            runs.append(
                SizedRun(
                    size=float(size),
                    metrics=metrics,
                    broken=broken if last and repeat == REPEATS - 1 else "",
                    recording=f"runs/sweep-{repeat:02}-{size}/recordings/test_pcs.jsonl.gz",
                )
            )
    facts = {"test": "fixtures/scenarios/test_pcs.py::test_pcs", "kubernetes": "1.36.3", "nodes": "100"}
    return sweep(parameter, runs, facts=facts)


def judged(found: Sweep) -> tuple[CheckResult, ...]:
    """Return two checks that pass, one that fails, and one whose bound lies in the interval."""
    bounds = {"cpu:deploy": 1.15, "api:delete": 1.15, "milestone:delete/pcs-gone": 1.1, "noop_writes": 1.0}
    return tuple(Scales(key, exponent_max=bound).judge_sweep(found, source="--check") for key, bound in bounds.items())
