"""Replicas up and down, of sets, of cliques and of scaling groups; autoscalers; the order of starting."""

from __future__ import annotations

import pytest

from .operator_process import OperatorProcess
from .workbench import CLIQUE, GANG, GROUP, SET, Workbench, alive, clique, pod_clique_set, ready

pytestmark = pytest.mark.cluster


def test_a_set_up_and_down(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=1, pods=2)
    bench.wait_deployed(1, 2)
    bench.scale(SET, "pcs", 3)
    bench.wait_deployed(3, 2)
    assert len(bench.find(GANG)) == 3
    bench.scale(SET, "pcs", 1)
    bench.wait_deployed(1, 2)
    for kind in ("services", CLIQUE, GANG):
        bench.wait(kind, lambda found: len(found) == 1)
    assert {pod["metadata"]["labels"]["grove.io/podcliqueset-replica-index"] for pod in bench.find("pods")} == {"0"}


def test_a_clique_is_its_scalers_until_the_template_changes(bench: Workbench, operator: OperatorProcess) -> None:
    bench.create(pod_clique_set([clique("a", 1)]))
    bench.wait_deployed(1, 1)
    bench.scale(CLIQUE, "pcs-0-a", 3)
    bench.wait("pods", lambda pods: sum(map(ready, pods)) == 3)
    bench.trigger("does not scale back")
    bench.settle(operator)
    assert len(alive(bench.find("pods"))) == 3
    bench.wait(GANG, lambda gangs: len(gangs[0]["spec"]["podgroups"][0]["podReferences"]) == 3)
    bench.patch(SET, "pcs", {"spec": {"template": {"cliques": [clique("a", 2)]}}})
    bench.wait_deployed(1, 2)
    assert bench.get(CLIQUE, "pcs-0-a")["spec"]["minAvailable"] == 2


def test_a_scaling_group(bench: Workbench, operator: OperatorProcess) -> None:
    group = {"name": "g", "cliqueNames": ["a", "b"], "replicas": 2, "minAvailable": 1}
    bench.create(pod_clique_set([clique("a"), clique("b"), clique("c")], podCliqueScalingGroups=[group]))
    bench.wait_deployed(1, 5)
    names = sorted(c["metadata"]["name"] for c in bench.find(CLIQUE))
    assert names == ["pcs-0-c", "pcs-0-g-0-a", "pcs-0-g-0-b", "pcs-0-g-1-a", "pcs-0-g-1-b"]
    assert len(bench.find(GANG)) == 1
    bench.scale(GROUP, "pcs-0-g", 1)
    bench.wait("pods", lambda pods: len(pods) == 3)
    bench.wait(GROUP, lambda groups: groups[0]["status"]["replicas"] == groups[0]["status"]["availableReplicas"] == 1)
    bench.delete(SET, "pcs")
    bench.wait_empty()


def test_autoscalers_where_asked_for(bench: Workbench, operator: OperatorProcess) -> None:
    kind = "horizontalpodautoscalers.autoscaling"
    group = {"name": "g", "cliqueNames": ["b"], "scaleConfig": {"maxReplicas": 4}}
    scaled = clique("a", autoScalingConfig={"minReplicas": 1, "maxReplicas": 3})
    bench.create(pod_clique_set([scaled, clique("b")], podCliqueScalingGroups=[group]))
    bench.wait_deployed(1, 2)
    found = {o["metadata"]["name"]: o["spec"] for o in bench.find(kind)}
    assert {name: spec["maxReplicas"] for name, spec in found.items()} == {"pcs-0-a": 3, "pcs-0-g": 4}
    assert {spec["scaleTargetRef"]["kind"] for spec in found.values()} == {"PodClique", "PodCliqueScalingGroup"}
    bench.patch(SET, "pcs", {"spec": {"template": {"cliques": [clique("a"), clique("b")]}}})
    bench.wait(kind, lambda left: [o["metadata"]["name"] for o in left] == ["pcs-0-g"])


def test_a_clique_starts_after_the_one_before(bench: Workbench, operator: OperatorProcess) -> None:
    """The later clique's pods stay behind their gate while the earlier one cannot be scheduled."""
    nowhere = {"containers": [{"name": "x", "image": "x"}], "nodeSelector": {"is": "nowhere"}}
    bench.create(
        pod_clique_set([clique("a", podSpec=nowhere), clique("b")], cliqueStartupType="CliqueStartupTypeInOrder")
    )
    pods = bench.wait("pods", lambda found: len(found) == 2 and any("schedulingGates" not in p["spec"] for p in found))
    assert {pod["metadata"]["labels"]["grove.io/podclique"]: "schedulingGates" in pod["spec"] for pod in pods} == {
        "pcs-0-a": False,
        "pcs-0-b": True,
    }
    bench.patch(SET, "pcs", {"spec": {"template": {"cliques": [clique("a"), clique("b")]}}})
    bench.wait_deployed(1, 2)
