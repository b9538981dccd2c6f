"""What holds for every check and every run: missing figures never pass, and a looser bound never fails what passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_grovescale import checks
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks.check import Check
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run

from .noop_run import NoopRun

BOUNDED: dict[str, Callable[[float], Check]] = {
    "noop_writes": lambda bound: checks.NoopWrites(max=int(bound)),
    "noop_reads": lambda bound: checks.NoopReads(max=int(bound)),
    "noop_reconciles": lambda bound: checks.NoopReconciles(max=bound),
    "per_reconcile": lambda bound: checks.NoopCpu(per_reconcile=bound),
    "times_idle": lambda bound: checks.NoopCpu(times_idle=bound),
    "vs": lambda bound: checks.NoopCpu(vs="main", tolerance=bound),
    "idle_per_second": lambda bound: checks.HotLoop(idle_per_second=bound),
    "passes": lambda bound: checks.HotLoop(passes=bound),
    "api_requests": lambda bound: checks.ApiRequests("deploy", max=bound),
    "cpu": lambda bound: checks.Cpu("deploy", max=bound),
    "rss": lambda bound: checks.Rss(max=int(bound * 1e7)),
    "milestone": lambda bound: checks.Milestone("pods-created", max=bound),
    "times_floor": lambda bound: checks.Milestone("pods-created", times_floor=bound, floor="200ms"),
}
RUNS = st.builds(
    NoopRun,
    triggers=st.integers(0, 3),
    writes=st.integers(0, 3),
    reads=st.integers(0, 3),
    reconciles=st.fixed_dictionaries({"podcliqueset": st.integers(0, 30)}),
    idle_reconciles=st.integers(0, 100),
    steady_cpu=st.sampled_from([None, 0.0, 0.1, 0.3]),
    idle_cpu=st.sampled_from([None, 0.0, 0.1, 0.2]),
    trigger_logged=st.booleans(),
    audit_gap=st.booleans(),
    restarted=st.booleans(),
    profiled=st.booleans(),
    twin=st.booleans(),
    steady_outcome=st.sampled_from(["passed", "failed", "timeout"]),
)
BOUNDS = st.sampled_from([0.0, 0.05, 0.5, 1.0, 1.5, 2.0, 3.0, 9.0, 30.0, 100.0])
RANK = {"fail": 0, "inconclusive": 1, "pass": 2}


def main(name: str, /) -> list[dict[str, float]]:
    return [{"noop_cpu": 0.1}]


@pytest.mark.parametrize("kind", BOUNDED)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(run=RUNS, bounds=st.tuples(BOUNDS, BOUNDS))
def test_a_looser_bound_is_never_worse_and_a_pass_is_within_its_bound(
    kind: str, run: NoopRun, bounds: tuple[float, float]
) -> None:
    test = run.result()
    tight, loose = (judge(BOUNDED[kind](bound), Run(test, baselines=main)) for bound in sorted(bounds))
    assert RANK[tight.verdict] <= RANK[loose.verdict], (tight.text, loose.text)
    for found in (tight, loose):
        if found.verdict == "pass":
            assert found.figure is not None
            assert found.bound is not None
            assert found.figure <= found.bound


EMPTY: dict[str, Any] = {
    "cpu": (),
    "api": (),
    "reconciles": (),
    "milestones": (),
    "missing": {"reconciles": "no scrape"},
}


def without(test: TestResult, *, audit: bool) -> TestResult:
    """Return a result in which nothing was measured; ``audit``: the log at least has no hole."""
    phases = tuple(
        msgspec.structs.replace(phase, **EMPTY, audit_complete=audit, identities_seen=()) for phase in test.phases
    )
    return msgspec.structs.replace(test, phases=phases, objects=None)


@pytest.mark.parametrize("kind", BOUNDED)
@pytest.mark.parametrize("audit", [True, False])
def test_what_was_not_measured_never_passes(kind: str, audit: bool) -> None:
    found = judge(BOUNDED[kind](1e6), Run(without(NoopRun().result(), audit=audit), baselines=main))
    assert found.verdict == "inconclusive"
    assert found.figure is None
    assert found.text


@pytest.mark.parametrize("kind", BOUNDED)
def test_a_run_without_phases_is_inconclusive(kind: str) -> None:
    test = msgspec.structs.replace(NoopRun().result(), phases=())
    assert judge(BOUNDED[kind](1e6), Run(test)).verdict == "inconclusive"
