"""Conditions as a test writes them, resolved into what the recorder evaluates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_grovescale.errors import UsageError
from pytest_grovescale.kube.resources import Resource
from pytest_grovescale.recording.conditions import (
    AVAILABLE_PATH,
    READY_PATH,
    AllOf,
    AnyOf,
    Condition,
    Count,
    FieldTest,
    Timer,
)
from pytest_grovescale.scenario.conditions import (
    Declared,
    ObjectName,
    all_of,
    any_of,
    count,
    each_of,
    field,
    gone,
    kinds,
    matching,
    resolve,
    timer,
)
from pytest_grovescale.scenario.workloads import with_status

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
NODES = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
DEPLOYMENTS = Resource(group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True)
RESOURCES = {("pods", ""): PODS, ("nodes", ""): NODES, ("deployments", ""): DEPLOYMENTS, ("Pod", "v1"): PODS}


def resolved(condition: Declared) -> Condition:
    return resolve(condition, RESOURCES, namespace="test-ns")


def counted(condition: Declared) -> Count:
    found = resolved(condition)
    assert isinstance(found, Count)
    return found


def test_count_is_of_the_tests_own_namespace() -> None:
    assert counted(count("pods", 3)).watch.path == "/api/v1/namespaces/test-ns/pods"


def test_count_of_all_namespaces_and_of_cluster_objects() -> None:
    assert counted(count("pods", 3, namespace="*")).watch.path == "/api/v1/pods"
    assert counted(count("nodes", 100)).watch.path == "/api/v1/nodes"


@pytest.mark.parametrize(("ready", "op"), [(True, "=="), (False, "!=")])
def test_ready_reads_the_condition(ready: bool, op: str) -> None:
    (test,) = counted(count("pods", 3, ready=ready)).where.tests
    assert (test.path, test.op, test.value) == (READY_PATH, op, "True")


def test_ready_of_a_deployment_is_available() -> None:
    (test,) = counted(count("deployments", 3, ready=True)).where.tests
    assert test.path == AVAILABLE_PATH


def test_two_conditions_on_one_kind_share_a_watch() -> None:
    assert counted(count("pods", 3)).watch == counted(count("pods", 9, ready=True)).watch


def test_selectors_and_operators_are_kept() -> None:
    found = counted(count("pods", 3, op=">=", selector="a=b", field_selector="spec.nodeName=n"))
    assert (found.op, found.watch.label_selector, found.watch.field_selector) == (">=", "a=b", "spec.nodeName=n")


def test_where_fields_are_watched() -> None:
    found = counted(count("pods", 1, where={"spec.hostname": "x"}))
    assert found.where.tests == (FieldTest(path="spec.hostname", value="x"),)
    assert "spec.hostname" in found.watch.fields


def test_field_and_gone_name_one_object() -> None:
    target = ObjectName(kind="Pod", api_version="v1", name="p", namespace="other")
    found = counted(field(target, "status.phase", "Running"))
    assert (found.name, found.n, found.watch.path) == ("p", 1, "/api/v1/namespaces/other/pods")
    absent = counted(gone(target))
    assert (absent.name, absent.n) == ("p", 0)


class Three:
    """Two pods and a Deployment, as a workload names them."""

    def names(self) -> list[ObjectName]:
        pods = [ObjectName(kind="Pod", api_version="v1", name=name) for name in ("a", "b")]
        return [*pods, ObjectName(kind="deployments", name="c")]


def test_several_objects_of_a_kind_are_one_count_of_their_names() -> None:
    found = resolved(gone(Three()))
    assert isinstance(found, AllOf)
    assert [(part.names, part.n) for part in found.of if isinstance(part, Count)] == [(("a", "b"), 0), (("c",), 0)]
    found = resolved(each_of(Three().names(), (FieldTest(path="status.phase", value="Running"),)))
    assert isinstance(found, AllOf)
    assert [(part.names, part.n) for part in found.of if isinstance(part, Count)] == [(("a", "b"), 2), (("c",), 1)]


def test_combinations() -> None:
    found = resolved(any_of(timer("2m"), all_of(count("pods", 1), count("nodes", 1))))
    assert isinstance(found, AnyOf)
    assert found.of[0] == Timer(seconds=120)
    assert isinstance(found.of[1], AllOf)
    assert kinds(any_of(count("pods", 1), count("nodes", 1))) == {("pods", ""), ("nodes", "")}


def is_big(fields: Mapping[str, Any]) -> bool:
    return int(fields["spec.replicas"]) > 3


def test_a_function_is_named_so_that_the_recorder_can_import_it() -> None:
    found = counted(matching("pods", 1, is_big, fields=["spec.replicas"]))
    assert found.where.function == f"{__name__}:is_big"
    assert "spec.replicas" in found.watch.fields


def test_an_expression_is_kept_as_text() -> None:
    assert counted(matching("pods", 1, "fields['a'] > 1", fields=["a"])).where.expression == "fields['a'] > 1"


@pytest.mark.parametrize("what", ["lambda", "closure"])
def test_what_cannot_be_imported_is_refused(what: str) -> None:
    limit = 3

    def closure(fields: Mapping[str, Any]) -> bool:
        return int(fields["a"]) > limit

    function = closure if what == "closure" else (lambda fields: True)
    with pytest.raises(UsageError, match="process of its own"):
        matching("pods", 1, function, fields=["a"])


def test_undeclared_fields_negative_counts_and_empty_combinations_are_refused() -> None:
    with pytest.raises(UsageError, match="declares no fields"):
        matching("pods", 1, "True", fields=[])
    with pytest.raises(UsageError, match="negative"):
        count("pods", -1)
    with pytest.raises(UsageError, match="at least one"):
        all_of()


def test_a_secret_beside_a_custom_resource_has_no_status_to_wait_for() -> None:
    fleet = ObjectName(kind="Fleet", api_version="compute.example.org/v1", namespace="t", name="fleet-0")
    secret = ObjectName(kind="Secret", api_version="v1", namespace="t", name="fleet-0-token")
    other = ObjectName(kind="Secret", api_version="compute.example.org/v1", namespace="t", name="mine")
    assert with_status([fleet, secret, other]) == [fleet, other]
    with pytest.raises(UsageError, match="has a status"):
        with_status([secret])
