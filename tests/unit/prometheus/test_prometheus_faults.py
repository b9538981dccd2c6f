"""What a Prometheus lost or did not see, told from its own metrics and targets."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.prometheus.api import ScrapedTarget
from pytest_grovescale.prometheus.opening import lost, unseen

METRICS = """\
# TYPE prometheus_tsdb_wal_writes_failed_total counter
prometheus_tsdb_wal_writes_failed_total {writes}
prometheus_tsdb_compactions_failed_total 0
other_prometheus_tsdb_compactions_failed_total 9
"""


def target(health: str, error: str = "") -> ScrapedTarget:
    return ScrapedTarget({"job": "operator"}, "http://127.0.0.1:1/metrics", health, error)


def test_failed_writes_are_lost_samples(snapshot: SnapshotAssertion) -> None:
    assert lost(METRICS.format(writes=0)) == []
    (line,) = lost(METRICS.format(writes="1.2e+01"))
    assert "12 times" in line
    assert line == snapshot


def test_each_state_of_a_target_is_reported(snapshot: SnapshotAssertion) -> None:
    assert unseen([target("up")], {}) == []
    assert unseen([target("up")], {"operator": 0}) == []
    (down,) = unseen([target("down", "context deadline exceeded")], {"operator": 3})
    assert "target operator is down" in down
    assert down == snapshot(name="down")
    (up,) = unseen([target("up")], {"operator": 3})
    assert up.startswith("3 scrapes of target operator")
    assert up == snapshot(name="up again")
    (unknown,) = unseen([target("unknown")], {})
    assert unknown == snapshot(name="unknown")


def test_no_targets_at_all_is_reported() -> None:
    assert unseen([], {}) == ["it has no targets"]
