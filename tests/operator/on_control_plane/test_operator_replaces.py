"""Pods that are replaced: deleted, evicted, outdated, or too few for too long."""

from __future__ import annotations

import pytest

from .operator_process import OperatorProcess
from .workbench import CLIQUE, GANG, SET, Object, Workbench, alive, clique, pod_clique_set, pod_spec, ready

pytestmark = pytest.mark.cluster


def _names(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def test_a_deleted_pod(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=1, pods=2)
    bench.wait_deployed(1, 2)
    before = _names(bench.find("pods"))
    gone = min(before)
    bench.delete("pods", gone)
    after = _names(bench.wait("pods", lambda pods: gone not in _names(pods) and sum(map(ready, pods)) == 2))
    assert len(after - before) == 1
    bench.wait(GANG, lambda gangs: {r["name"] for r in gangs[0]["spec"]["podgroups"][0]["podReferences"]} == after)


def test_a_failed_pod(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=1, pods=1)
    bench.wait_deployed(1, 1)
    name = min(_names(bench.find("pods")))
    bench.patch("pods", name, {"status": {"phase": "Failed", "reason": "Evicted"}}, subresource="status")
    bench.wait("pods", lambda pods: name not in _names(pods) and sum(map(ready, pods)) == 1)


def test_a_new_pod_spec_replaces_one_replica_at_a_time(bench: Workbench, operator: OperatorProcess) -> None:
    bench.create(pod_clique_set([clique("a", 2)], replicas=2))
    before = bench.wait_deployed(2, 2)
    old = _names(bench.find("pods"))
    unavailable: list[int] = []

    def updated(cliques: list[Object]) -> bool:
        fresh = [c for c in cliques if c["spec"]["podSpec"]["containers"][0]["image"] == "other:1"]
        current = [c for c in fresh if c["status"]["observedGeneration"] == c["metadata"]["generation"]]
        done = [c for c in current if c["status"]["updatedReplicas"] == c["status"]["readyReplicas"] == 2]
        unavailable.append(len(fresh) - len(done))
        return len(done) == 2

    bench.patch(SET, "pcs", {"spec": {"template": {"cliques": [clique("a", 2, podSpec=pod_spec("other:1"))]}}})
    bench.wait(CLIQUE, updated)
    after = bench.wait_deployed(2, 2)
    assert max(unavailable) == 1
    pods = bench.find("pods")
    assert not _names(pods) & old
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"other:1"}
    assert after["status"]["currentGenerationHash"] != before["status"]["currentGenerationHash"]
    hashes = {c["status"]["currentPodCliqueSetGenerationHash"] for c in bench.find(CLIQUE)}
    assert hashes == {after["status"]["currentGenerationHash"]}


def test_a_key_that_leaves_the_pod_spec_leaves_the_pods(bench: Workbench, operator: OperatorProcess) -> None:
    extra = {**pod_spec(), "nodeSelector": {"type": "kwok"}, "securityContext": {"runAsUser": 1, "runAsGroup": 2}}
    bench.create(pod_clique_set([clique("a", podSpec=extra)]))
    bench.wait_deployed(1, 1)
    plain = [
        {
            "op": "replace",
            "path": "/spec/template/cliques/0/spec/podSpec",
            "value": {**pod_spec(), "securityContext": {"runAsGroup": 2}},
        }
    ]
    bench.patch(SET, "pcs", plain, how="json")
    bench.wait_deployed(1, 1)
    pod = alive(bench.find("pods"))[0]
    assert "nodeSelector" not in pod["spec"]
    assert pod["spec"]["securityContext"] == {"runAsGroup": 2}


def test_too_few_pods_for_too_long_end_the_replica(bench: Workbench, operator: OperatorProcess) -> None:
    bench.create(pod_clique_set([clique("a", 2), clique("b")], terminationDelay="1s"))
    bench.wait_deployed(1, 3)
    cliques = {c["metadata"]["name"]: c["metadata"]["uid"] for c in bench.find(CLIQUE)}
    # Not ready for a reason that replacing the pod would not mend: as a kubelet would report it.
    pod = next(p for p in bench.find("pods") if p["metadata"]["labels"]["grove.io/podclique"] == "pcs-0-a")
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    bench.patch("pods", pod["metadata"]["name"], {"status": {"conditions": [condition]}}, subresource="status")
    bench.wait(
        CLIQUE,
        lambda found: len(found) == 2 and not {c["metadata"]["uid"] for c in found} & set(cliques.values()),
    )
    bench.wait_deployed(1, 3)
