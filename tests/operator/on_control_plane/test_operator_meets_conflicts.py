"""409s and AlreadyExists on the way."""

from __future__ import annotations

import pytest

from .operator_process import OperatorProcess
from .workbench import CLIQUE, SET, Workbench

pytestmark = pytest.mark.cluster


def _sum(metrics: dict[str, float], family: str, *having: str) -> int:
    return round(sum(v for s, v in metrics.items() if s.startswith(family) and all(h in s for h in having)))


def test_others_write_to_the_same_objects(bench: Workbench, operator: OperatorProcess) -> None:
    """Annotations by a second writer while statuses are written: some writes conflict, the result does not."""
    bench.deploy(replicas=5, pods=2)
    for n in range(40):
        bench.patch(SET, "pcs", {"metadata": {"annotations": {"other/writer": str(n)}}})
        for pclq in bench.find(CLIQUE):
            bench.patch(CLIQUE, pclq["metadata"]["name"], {"metadata": {"annotations": {"other/writer": str(n)}}})
    bench.wait_deployed(5, 2)
    metrics = operator.metrics()
    conflicts = _sum(metrics, "grove_operator_status_update_conflict_total")
    answers = sum(_sum(metrics, "rest_client_requests_total", 'code="409"', f'method="{m}"') for m in ("PUT", "PATCH"))
    assert conflicts <= answers
    assert _sum(metrics, "grove_operator_reconcile_errors_total") == _sum(
        metrics, "controller_runtime_reconcile_errors_total"
    )
    bench.delete(SET, "pcs")
    bench.wait_empty()


def test_a_name_that_someone_else_has(bench: Workbench, operator: OperatorProcess) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "pcs-0"}, "spec": {"clusterIP": "None"}}
    bench.create(service)
    bench.deploy(replicas=1, pods=1)
    found = bench.wait(SET, lambda sets: bool(sets[0].get("status", {}).get("lastErrors")) if sets else False)
    error = found[0]["status"]["lastErrors"][0]
    assert error["code"] == "ERR_ALREADY_EXISTS"
    assert "pcs-0" in error["description"]
    bench.delete("services", "pcs-0")
    bench.wait_deployed(1, 1)
    bench.wait(SET, lambda sets: not sets[0]["status"].get("lastErrors"))


def test_a_child_that_the_cache_does_not_hold(bench: Workbench, operator: OperatorProcess) -> None:
    """Without its label a child is outside of the watch: the create meets it, and takes it back."""
    bench.deploy(replicas=1, pods=1)
    bench.wait_deployed(1, 1)
    uid = bench.get("services", "pcs-0")["metadata"]["uid"]
    bench.patch("services", "pcs-0", {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})
    found = bench.wait("services", lambda all_: "app.kubernetes.io/managed-by" in all_[0]["metadata"]["labels"])
    assert found[0]["metadata"]["uid"] == uid
    metrics = operator.metrics()
    assert _sum(metrics, "rest_client_requests_total", 'code="409"', 'method="POST"') == 1
    assert _sum(metrics, "controller_runtime_reconcile_errors_total") == 0
    bench.delete(SET, "pcs")
    bench.wait_empty()
