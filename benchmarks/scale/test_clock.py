"""Accuracy of the server clock: 1000 writes by a separate client, which notes when it sent and completed each."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.rows import at_least, reported
from benchmarks.scale.conftest import Rows
from pytest_grovescale import Scale, conditions
from pytest_grovescale.kube.access import to_kubeconfig
from pytest_grovescale.recording.records import ObjectSeen, Request

WRITES = 1000
# The audit log's timestamps are cut to whole microseconds.
RESOLUTION_NS = 1000


@pytest.mark.grovescale(nodes=1, operator="none")
def test_server_intervals_lie_between_send_and_receive(scale: Scale, rows: Rows, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(to_kubeconfig(scale.cluster.access_as("harness"), name="clock"), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.writer", str(kubeconfig), scale.namespace, str(WRITES)]

    with scale.phase("writes", timeout="2m") as writes:
        writes.milestone("written", conditions.count("configmaps", WRITES, selector="bench=clock"))
        done = scale.run(asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.PIPE))

    times = msgspec.json.decode(done.stdout, type=dict[str, tuple[int, int]])
    records = scale.recording()
    intervals = {
        record.name: (record.received_wall, record.completed_wall)
        for record in records
        if isinstance(record, Request) and record.verb == "create" and record.resource == "configmaps"
    }
    observed = {r.name: r.at for r in records if isinstance(r, ObjectSeen) and r.change == "added"}
    inside = [
        sent - RESOLUTION_NS <= intervals[name][0] <= intervals[name][1] <= received
        for name, (sent, received) in times.items()
    ]
    lags = sorted((observed[name] - intervals[name][1]) / 1e6 for name in times)
    assert len(inside) == WRITES
    rows(at_least("clock_between_share", sum(inside) / WRITES, "", 0.999, how=f"{WRITES} named writes"))
    rows(reported("watch_lag_p50_ms", lags[len(lags) // 2], "ms", how=f"{WRITES} creates by 10 clients"))
