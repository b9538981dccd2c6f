"""From a PodCliqueSet to ready pods, and back to nothing to do."""

from __future__ import annotations

import pytest

from pytest_grovescale.kube.errors import ApiError

from .operator_process import OperatorProcess
from .workbench import CLIQUE, GANG, KINDS, SET, Object, Workbench, clique, pod_clique_set, pod_spec, ready

pytestmark = pytest.mark.cluster

GATE = "grove.io/podgang-pending-creation"


def test_everything_is_there_and_says_so(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=2, pods=2)
    pcs = bench.wait_deployed(2, 2)
    assert pcs["metadata"]["finalizers"] == ["grove.io/podcliqueset.grove.io"]
    assert pcs["status"]["replicas"] == 2
    assert pcs["status"]["conditions"][0]["type"] == "Available"
    assert pcs["status"]["conditions"][0]["status"] == "True"
    names = {kind: sorted(o["metadata"]["name"] for o in bench.find(kind)) for kind in KINDS}
    assert names["services"] == names[GANG] == ["pcs-0", "pcs-1"]
    assert names[CLIQUE] == ["pcs-0-expert-worker", "pcs-1-expert-worker"]
    assert names["serviceaccounts"] == names["roles.rbac.authorization.k8s.io"] == ["pcs"]
    for pclq in bench.find(CLIQUE):
        assert pclq["metadata"]["finalizers"] == ["grove.io/podclique.grove.io"]
        status = pclq["status"]
        assert [status[f] for f in ("replicas", "readyReplicas", "scheduledReplicas", "updatedReplicas")] == [2] * 4
        assert status["scheduleGatedReplicas"] == 0
        assert status["observedGeneration"] == 1
        assert status["currentPodCliqueSetGenerationHash"] == pcs["status"]["currentGenerationHash"]
    _gangs_list_the_pods(bench)


def _gangs_list_the_pods(bench: Workbench) -> None:
    pods = bench.find("pods")
    listed = {
        reference["name"]
        for gang in bench.find(GANG)
        for group in gang["spec"]["podgroups"]
        for reference in group["podReferences"]
    }
    assert listed == {pod["metadata"]["name"] for pod in pods}
    for pod in pods:
        labels = pod["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "grove-operator"
        assert labels["app.kubernetes.io/part-of"] == "pcs"
        assert labels["grove.io/podgang"] == f"pcs-{labels['grove.io/podcliqueset-replica-index']}"
        assert pod["spec"]["hostname"] == f"{labels['grove.io/podclique']}-{labels['grove.io/podclique-pod-index']}"


def test_pods_wait_for_their_gang(bench: Workbench, operator: OperatorProcess) -> None:
    """A gang is complete only with all cliques: until the second has its pod, the first's stay behind the gate."""
    bad = clique("second", podSpec={**pod_spec(), "restartPolicy": "Sometimes"})
    bench.create(pod_clique_set([clique("first"), bad]))
    found = bench.wait(CLIQUE, lambda all_: any(c.get("status", {}).get("lastErrors") for c in all_))
    errors = [e for c in found for e in c.get("status", {}).get("lastErrors", [])]
    assert errors[0]["code"] == "ERR_INVALID"
    assert "restartPolicy" in errors[0]["description"]
    pods = bench.wait("pods", lambda all_: len(all_) == 1)
    assert [gate["name"] for gate in pods[0]["spec"]["schedulingGates"]] == [GATE]
    assert bench.find(GANG) == []
    template = [clique("first"), clique("second")]
    bench.patch(SET, "pcs", {"spec": {"template": {"cliques": template}}})
    bench.wait_deployed(1, 2)
    assert all("schedulingGates" not in pod["spec"] for pod in bench.find("pods"))


def test_a_trigger_is_one_reconcile_and_no_write(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=2, pods=2)
    bench.wait_deployed(2, 2)
    bench.settle(operator)
    writes, sets, cliques = operator.writes(), operator.reconciles("podcliqueset"), operator.reconciles("podclique")
    bench.trigger("once")
    bench.settle(operator, more_than=sets)
    assert operator.reconciles("podcliqueset") == sets + 1
    assert operator.reconciles("podclique") == cliques + 2
    assert operator.writes() == writes


def test_pods_that_a_user_labelled_alike_are_left_alone(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=1, pods=1)
    bench.wait_deployed(1, 1)
    labels = bench.find("pods")[0]["metadata"]["labels"]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "labels": labels},
        "spec": pod_spec(),
    }
    bench.create(body)
    bench.wait("pods", lambda pods: len(pods) == 2 and all(map(ready, pods)))
    bench.delete(SET, "pcs")
    bench.wait(SET, lambda found: not found)
    assert [pod["metadata"]["name"] for pod in bench.find("pods")] == ["stranger"]


REFUSED: dict[str, tuple[Object, str]] = {
    "no cliques": (pod_clique_set([]), "spec.template.cliques"),
    "no containers": (pod_clique_set([clique("a", podSpec={})]), "containers"),
    "container without image": (
        pod_clique_set([clique("a", podSpec={"containers": [{"name": "x"}]})]),
        "image",
    ),
    "minAvailable above replicas": (pod_clique_set([clique("a", 1, minAvailable=2)]), "minAvailable"),
    "negative replicas": (pod_clique_set([clique("a")], replicas=-1), "spec.replicas"),
    "replicas as text": (pod_clique_set([clique("a", replicas="two")]), "replicas"),  # type: ignore[arg-type]
    "twice the same name": (pod_clique_set([clique("a"), clique("a")]), "Duplicate"),
    "name in capitals": (pod_clique_set([clique("A")]), "name"),
    "unknown field": (pod_clique_set([clique("a")], color="red"), "color"),
    "bad duration": (pod_clique_set([clique("a")], terminationDelay="soon"), "terminationDelay"),
    "group of unknown clique": (
        pod_clique_set([clique("a")], podCliqueScalingGroups=[{"name": "g", "cliqueNames": ["b"]}]),
        "does not have",
    ),
    "startsAfter without Explicit": (pod_clique_set([clique("a"), clique("b", startsAfter=["a"])]), "Explicit"),
    "startsAfter itself": (
        pod_clique_set([clique("a", startsAfter=["a"])], cliqueStartupType="CliqueStartupTypeExplicit"),
        "itself",
    ),
    "names too long": (pod_clique_set([clique("a" * 30)], name="b" * 30), "45 characters"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_api_server_refuses_a_bad_workload(case: str, bench: Workbench) -> None:
    body, said = REFUSED[case]
    with pytest.raises(ApiError) as refusal:
        bench.create(body)
    assert refusal.value.code in (400, 422)
    assert said in f"{refusal.value} {refusal.value.causes}"


def test_defaults_are_filled_in(bench: Workbench) -> None:
    made = bench.create(pod_clique_set([clique("a")]))
    template = made["spec"]["template"]
    assert template["cliqueStartupType"] == "CliqueStartupTypeAnyOrder"
    assert template["terminationDelay"] == "4h"
    assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
    bench.delete(SET, "pcs")
