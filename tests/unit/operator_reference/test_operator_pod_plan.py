"""Which pods of a clique are made and which deleted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.reference_operator import naming
from pytest_grovescale.reference_operator.objects import (
    CliqueSpec,
    Metadata,
    NarrowPodSpec,
    Pod,
    PodClique,
    PodCliqueSet,
    PodCondition,
    PodStatus,
)
from pytest_grovescale.reference_operator.podclique.pods import plan, pod_body


def clique(replicas: int) -> PodClique:
    labels = {naming.TEMPLATE_HASH: "new", naming.PODGANG: "s-0"}
    spec = CliqueSpec(replicas=replicas, pod_spec={"containers": [], "schedulingGates": [{"name": "users"}]})
    return PodClique(Metadata(name="c", namespace="n", uid="c", labels=labels), spec=spec)


def pod(index: int, *, ready: bool = True, template: str = "new", phase: str = "Running") -> Pod:
    labels = {naming.POD_INDEX: str(index), naming.TEMPLATE_HASH: template}
    return Pod(
        Metadata(name=f"c-{index}-{template}", namespace="n", uid=f"{index}{template}", labels=labels),
        spec=NarrowPodSpec(node_name="node"),
        status=PodStatus(phase=phase, conditions=[PodCondition(type="Ready", status=str(ready))]),
    )


def test_missing_pods_get_the_free_indexes() -> None:
    found = plan(clique(4), [pod(1), pod(3)])
    assert found.create == [0, 2]
    assert found.delete == []


def test_surplus_is_what_is_missed_least() -> None:
    found = plan(clique(2), [pod(0), pod(1, ready=False), pod(2), pod(3)])
    assert [p.name for p in found.delete] == ["c-1-new", "c-3-new"]
    assert found.create == []


def test_a_finished_pod_is_replaced() -> None:
    found = plan(clique(2), [pod(0, phase="Failed"), pod(1)])
    assert [p.name for p in found.delete] == ["c-0-new"]
    assert found.create == [0]


def test_outdated_pods_go_one_at_a_time_while_all_are_ready() -> None:
    old = [pod(0, template="old"), pod(1, template="old")]
    found = plan(clique(2), old)
    assert [p.name for p in found.delete] == ["c-0-old"]
    assert found.create == [0]
    assert plan(clique(2), [pod(0, ready=False), old[1]]).delete == []


def test_outdated_pods_that_serve_no_one_go_at_once() -> None:
    found = plan(clique(2), [pod(0, template="old", ready=False), pod(1, template="old", ready=False)])
    assert len(found.delete) == 2
    assert found.create == [0, 1]


POD = st.builds(pod, st.integers(0, 5), ready=st.booleans(), template=st.sampled_from(["old", "new"]))


@given(st.integers(0, 4), st.lists(POD, max_size=6, unique_by=lambda p: p.uid))
def test_a_plan_leaves_exactly_the_replicas(replicas: int, pods: list[Pod]) -> None:
    found = plan(clique(replicas), pods)
    kept = [p for p in pods if p not in found.delete]
    assert len(kept) + len(found.create) == replicas
    assert len({p.uid for p in found.delete}) == len(found.delete)


def test_a_pod_carries_the_gate_beside_the_users_own() -> None:
    body = pod_body(clique(1), PodCliqueSet(Metadata(name="s")), 3)
    assert [gate["name"] for gate in body["spec"]["schedulingGates"]] == [naming.GATE, "users"]
    assert body["spec"]["hostname"] == "c-3"
    assert body["spec"]["subdomain"] == "s-0"
    assert body["spec"]["serviceAccountName"] == "s"
    assert body["metadata"]["generateName"] == "c-"
