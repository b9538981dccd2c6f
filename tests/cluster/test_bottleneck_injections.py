"""Somebody is slowed on purpose, on a real control plane: it is that one's row that grows.

`benchmarks/injections.py` measures how much of the added time the rows take on; here only the direction is asserted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.injections import INJECTIONS, Injection, move, phases_of
from pytest_grovescale.analysis.result import PhaseResult

pytestmark = pytest.mark.cluster

REPLICAS = 40
"""Enough that the slowed one takes seconds longer: more than a loaded machine adds to anybody else."""
ACROSS = {"operator-queue", "api-server", "machine"}
"""Rows that lie across those of who was waited for."""
CHOSEN = {injection.name: injection for injection in INJECTIONS}


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> PhaseResult:
    """The deployment that nobody slows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GROVESCALE_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        injection = CHOSEN["scheduler at 20 qps"]
        return phases_of(injection.test, injection.without, replicas=REPLICAS)[injection.phase]


def grown(before: PhaseResult, after: PhaseResult) -> dict[str, float]:
    """Return by how much each row of who was waited for has grown, seconds."""
    old = {row.suspect: row.seconds for row in before.bottlenecks}
    return {row.suspect: row.seconds - old[row.suspect] for row in after.bottlenecks if row.suspect not in ACROSS}


@pytest.mark.parametrize("name", ["scheduler at 20 qps", "pods ready 3 s later", "operator at 50 qps"])
def test_the_row_of_who_is_slowed_grows_most(
    name: str, without: PhaseResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    injection = CHOSEN[name]
    slowed = phases_of(injection.test, injection.options, replicas=REPLICAS)[injection.phase]
    growth = grown(without, slowed)
    assert max(growth, key=lambda suspect: growth[suspect]) == injection.suspect
    assert slowed.bottleneck
    assert move(injection, without, slowed).moved_s > 0


def test_deletions_wait_for_a_garbage_collector_that_is_slowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROVESCALE_STATE_DIR", str(tmp_path / "state"))
    injection: Injection = CHOSEN["garbage collector at 20 qps"]
    slowed = phases_of(injection.test, injection.options, replicas=REPLICAS)[injection.phase]
    assert slowed.bottlenecks[0].suspect == "garbage-collector"
    assert slowed.bottlenecks[0].share > 0.5
