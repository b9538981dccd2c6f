"""Each defect, proven by its own count of requests, series or versions."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from .operator_process import OperatorProcess
from .workbench import CLIQUE, PODS, REPLICAS, SET, Object, Workbench

pytestmark = pytest.mark.cluster

Start = Callable[..., OperatorProcess]


def _sum(metrics: dict[str, float], family: str, *having: str) -> float:
    return sum(v for s, v in metrics.items() if s.startswith(family) and all(text in s for text in having))


def _delete(bench: Workbench) -> None:
    bench.delete(SET, "pcs")
    bench.wait_empty()


# ---- what it asks of the API server


def test_relist(bench: Workbench, deployed: Start) -> None:
    cost = bench.cost_of_trigger(deployed("--defect", "relist"))
    assert cost["GET"] == REPLICAS
    assert cost["PATCH"] == cost["POST"] == cost["DELETE"] == 0


def test_conflict_storm(bench: Workbench, deployed: Start) -> None:
    operator = deployed("--defect", "conflict-storm")
    metrics = operator.metrics()
    conflicts = _sum(metrics, "grove_operator_status_update_conflict_total")
    assert conflicts >= REPLICAS
    assert conflicts <= _sum(metrics, "rest_client_requests_total", 'code="409"', 'method="PATCH"')
    assert _sum(metrics, "grove_operator_reconcile_errors_total", "conflict") >= conflicts
    # Where nothing changes no status is written, hence no heartbeat either.
    assert bench.cost_of_trigger(operator)["PATCH"] == 0


def test_missing_right(bench: Workbench, start: Start) -> None:
    operator = start("--defect", "missing-right")
    bench.deploy(replicas=1, pods=1)
    # All else is done, but a pass that ends in an error has not observed its generation.
    found = bench.wait(SET, lambda sets: bool(sets) and sets[0].get("status", {}).get("availableReplicas") == 1)
    assert found[0]["status"]["lastErrors"][0]["code"] == "ERR_FORBIDDEN"
    assert found[0]["status"]["observedGeneration"] == 0
    refused = _sum(operator.metrics(), "rest_client_requests_total", 'code="403"', 'method="POST"')
    errors = _sum(operator.metrics(), "grove_operator_reconcile_errors_total", 'error_type="forbidden"')
    assert refused >= 1
    assert errors >= 1
    _delete(bench)


def test_slow_delete(bench: Workbench, deployed: Start) -> None:
    operator = deployed("--defect", "slow-delete")
    before = operator.requests("DELETE")
    at_once: set[int] = set()

    def gone(cliques: list[Object]) -> bool:
        at_once.add(sum("deletionTimestamp" in clique["metadata"] for clique in cliques))
        return not cliques

    bench.delete(SET, "pcs")
    bench.wait(CLIQUE, gone)
    assert max(at_once) == 1
    assert operator.requests("DELETE") - before >= REPLICAS
    bench.wait_empty()


def test_event_drop_after_the_watch_that_it_asked_for(bench: Workbench, start: Start) -> None:
    operator = start("--defect", "event-drop=1")
    counts = operator.wait_counts(lambda c: c["watch_cuts"] == c["watch_starts"])
    bench.deploy(replicas=1, pods=1)
    bench.wait(SET, lambda sets: len(sets) == 1)
    operator.settle()
    assert operator.counts()["watch_starts"] == counts["watch_starts"]
    assert operator.reconciles("podcliqueset") == 0


def test_leak(bench: Workbench, deployed: Start) -> None:
    operator = deployed("--defect", "leak")
    _delete(bench)
    metrics, counts = operator.metrics(), operator.counts()
    kept = {series for series in metrics if series.startswith("grove_operator_object_versions")}
    assert len([series for series in kept if 'kind="Pod"' in series]) == REPLICAS * PODS
    assert _sum(metrics, "grove_operator_object_versions") == counts["versions_kept"] > len(kept)


# ---- what it serves at /metrics


def test_metrics_stall(start: Start) -> None:
    operator = start("--defect", "metrics-stall")
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(operator.metrics_url, timeout=0.3)
    assert operator.counts()["watch_starts"] > 0


def test_port_move(bench: Workbench, start: Start) -> None:
    operator = start("--defect", "port-move")
    before = operator.metrics()
    bench.deploy(replicas=1, pods=1)
    bench.wait_deployed(1, 1)
    with pytest.raises(urllib.error.URLError):
        operator.metrics()
    moved = re.search(r"metrics are at port (\d+) now", operator.log.read_text())
    assert moved
    operator.metrics_url = f"http://127.0.0.1:{moved[1]}/metrics"
    assert operator.metrics().keys() >= before.keys()
    assert operator.reconciles("podcliqueset") > 0


def test_labels_that_name_objects(bench: Workbench, deployed: Start) -> None:
    arguments = [("--defect", name) for name in ("namespace-label", "name-label", "run-id-metric")]
    operator = deployed(*(part for pair in arguments for part in pair))
    text = "\n".join(operator.metrics())
    assert f'grove_operator_podcliquesets{{namespace="{bench.namespace}"}}' in text
    assert '_run="operator-tests"' in text
    assert text.count("grove_operator_podclique_ready_replicas{") == REPLICAS
    _delete(bench)
    assert not any("pcs" in series for series in operator.metrics())


def test_families_that_say_too_little(bench: Workbench, deployed: Start) -> None:
    names = ("builtin-duplicate", "function-name-label", "coarse-buckets", "reset-on-scrape", "error-miscount")
    operator = deployed(*(part for name in names for part in ("--defect", name)))
    metrics = operator.metrics()
    assert _sum(metrics, "grove_operator_reconciliations_total") == _sum(metrics, "controller_runtime_reconcile_total")
    assert _sum(metrics, "grove_operator_step_duration_seconds_count", 'function="Cliques.sync"') > 0
    assert metrics["grove_operator_podclique_startup_time_seconds_count"] == REPLICAS
    later = _sum(metrics, "controller_runtime_reconcile_total", "requeue_after")
    assert _sum(metrics, "grove_operator_reconcile_errors_total") == later > 0
    assert _sum(metrics, "controller_runtime_reconcile_errors_total") == 0
    assert operator.metrics()["grove_operator_pods_created_total"] == 0
