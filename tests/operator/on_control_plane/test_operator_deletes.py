"""Whatever is deleted, and in whatever order: in the end nothing is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .operator_process import OperatorProcess
from .workbench import CLIQUE, GANG, GROUP, SET, Workbench, clique, pod_clique_set

pytestmark = pytest.mark.cluster

ORDERS = {
    "the set": (SET,),
    "pods first": ("pods", SET),
    "cliques first": (CLIQUE, SET),
    "gangs and services first": (GANG, "services", SET),
    "groups first": (GROUP, "serviceaccounts", SET),
    "the set first": (SET, CLIQUE, GROUP, "pods"),
}


@pytest.mark.parametrize("order", ORDERS)
def test_in_any_order(order: str, bench: Workbench, operator: OperatorProcess) -> None:
    group = {"name": "g", "cliqueNames": ["b"], "replicas": 2}
    bench.create(pod_clique_set([clique("a", 2), clique("b")], replicas=2, podCliqueScalingGroups=[group]))
    bench.wait_deployed(2, 4)
    for kind in ORDERS[order]:
        bench.delete_all(kind)
    bench.wait_empty()


def test_in_the_middle_of_the_deployment(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=10, pods=2)
    bench.wait("pods", lambda pods: len(pods) >= 4)
    bench.delete(SET, "pcs")
    bench.wait_empty()


def test_a_child_that_is_deleted_comes_back(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=2, pods=1)
    bench.wait_deployed(2, 1)
    for kind in ("services", GANG, CLIQUE, "serviceaccounts", "roles.rbac.authorization.k8s.io"):
        before = {o["metadata"]["uid"] for o in bench.find(kind)}
        bench.delete_all(kind)
        bench.wait(
            kind,
            lambda found, before=before: (
                len(found) == len(before)  # type: ignore[misc]
                and not before & {o["metadata"]["uid"] for o in found}
            ),
        )
    bench.wait_deployed(2, 1)


def test_with_its_namespace(bench: Workbench, operator: OperatorProcess) -> None:
    bench.deploy(replicas=2, pods=2)
    bench.wait_deployed(2, 2)
    bench.delete_namespace(wait=False)
    bench.wait_empty()


@pytest.mark.parametrize("switch", ["parallel-groups=off", "narrow-selector=off", "memoise=off"])
def test_with_each_switch_off(switch: str, bench: Workbench, start: Callable[..., OperatorProcess]) -> None:
    start("--switch", switch)
    bench.deploy(replicas=5, pods=1)
    bench.wait_deployed(5, 1)
    bench.delete(SET, "pcs")
    bench.wait_empty()
