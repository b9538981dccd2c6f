"""Who is slowed on purpose is the one that the phase's table names.

How much of the time that a fault adds turns up in its row is measured by the bench. Here each fault is so strong that
what a loaded machine adds to everybody is small beside it, and a run needs no other to be compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.injections import CORE_WAITS, DATA, phases_of, seconds_of, slow_owner_of
from pytest_grovescale.analysis.bottlenecks.attribution import ACROSS
from pytest_grovescale.analysis.contention import sentence
from pytest_grovescale.analysis.phase_result import PhaseResult, Suspect

pytestmark = pytest.mark.cluster
long = pytest.mark.long

REPLICAS = 20
PODS = 2 * REPLICAS
QPS = 4
OPERATOR_QPS = 12
"""It makes some ten requests for each replica."""
PODS_READY_MS = 8_000
OWNER_LATE_S = 8
HOGS = 4
"""On each core."""


def cluster(folder: Path, of: str, changed: Mapping[str, Any]) -> str:
    """Return the option for one of the clusters of the bench with some fields changed."""
    path = folder / of
    path.write_text(yaml.safe_dump({"name": "changed", "extends": str(DATA / of), **changed}), encoding="utf-8")
    return f"--grovescale-cluster={path}"


def slow_scheduler(folder: Path) -> Sequence[str]:
    return [cluster(folder, "slow-scheduler.yaml", {"scheduler": {"limits": {"qps": QPS, "burst": QPS}}})]


def slow_pods(folder: Path) -> Sequence[str]:
    stage = (DATA / "late-ready.yaml").read_text(encoding="utf-8")
    assert "durationMilliseconds: 3000" in stage
    later = stage.replace("durationMilliseconds: 3000", f"durationMilliseconds: {PODS_READY_MS}")
    (folder / "late-ready.yaml").write_text(later, encoding="utf-8")
    return [
        cluster(folder, "slow-start.yaml", {"stages": ["node-initialize.yaml", "late-ready.yaml", "pod-delete.yaml"]})
    ]


def hogged_pods(folder: Path) -> Sequence[str]:
    """And while they are taken away, other programs want all cores: no time of that is kwok's."""
    return [*slow_pods(folder), f"--grovescale-param=hogs={HOGS}", "--grovescale-param=hogged=delete"]


def slow_operator(folder: Path) -> Sequence[str]:
    return [cluster(folder, "plain.yaml", {}), f"--grovescale-set=qps={OPERATOR_QPS}"]


def slow_collector(folder: Path) -> Sequence[str]:
    limits = {"controller_manager": {"limits": {"qps": QPS, "burst": QPS}}}
    return [cluster(folder, "slow-collector.yaml", limits), "--grovescale-operator=none"]


def slow_owner(folder: Path) -> Sequence[str]:
    """The pods are grandchildren: what is late is the operator's part, not the Deployment controller's."""
    return [*slow_owner_of("Deployment"), f"--grovescale-set=delay={OWNER_LATE_S}"]


def waited_for(phase: PhaseResult) -> Suspect:
    """Return who was waited for longest."""
    rows = [row for row in phase.bottlenecks if row.suspect not in ACROSS]
    return max(rows, key=lambda row: row.seconds).suspect


@pytest.mark.parametrize(
    ("slowed", "test", "phase", "suspect", "least_s"),
    [
        # What a loaded machine takes from kwok meanwhile has a row of its own.
        pytest.param(slow_pods, "test_pods", "deploy", "kwok", 0.9 * PODS_READY_MS / 1000, id="pods"),
        # In CI, the pages of recordings with such a machine: tests/unit/analysis.
        pytest.param(
            hogged_pods, "test_pods", "deploy", "kwok", 0.9 * PODS_READY_MS / 1000, id="pods-hogged", marks=long
        ),
        pytest.param(slow_operator, "test_pods", "deploy", "operator-rate-limit", 8.0, id="operator"),
        # Components of the control plane, as kwok is one, and another operator's delay; tests/unit/analysis has them.
        pytest.param(slow_scheduler, "test_pods", "deploy", "scheduler", PODS / QPS / 2, id="scheduler", marks=long),
        pytest.param(
            slow_collector, "test_collection", "delete", "garbage-collector", PODS / QPS / 2, id="collector", marks=long
        ),
        pytest.param(
            slow_owner, "test_grandchildren", "deploy", "operator-idle", 0.9 * OWNER_LATE_S, id="owner", marks=long
        ),
    ],
)
def test_who_is_slowed_is_named(
    slowed: Callable[[Path], Sequence[str]],
    test: str,
    phase: str,
    suspect: Suspect,
    least_s: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    phases = phases_of(test, slowed(tmp_path), replicas=REPLICAS)
    found = phases[phase]
    assert waited_for(found) == suspect
    # What other programs on this machine add has rows of its own, and takes from that of the suspect.
    rows = {row.suspect for row in found.bottlenecks}
    assert seconds_of(found, [suspect, *(wait for wait in CORE_WAITS if wait in rows)]) >= least_s
    assert found.bottleneck
    if slowed is hogged_pods:
        hogged = phases["delete"]
        assert hogged.contention is not None
        assert hogged.contention.others_share is not None
        assert hogged.contention.others_share >= 0.5
        assert "Other programs used" in sentence(hogged.contention, "delete")
        assert seconds_of(hogged, CORE_WAITS) >= hogged.seconds / 2
        assert seconds_of(hogged, ["kwok"]) <= hogged.seconds / 4
