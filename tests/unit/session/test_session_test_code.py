"""What is found in a test's code without running it: whether it calls ``scale.faults``, which controllers it names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_grovescale.session import misspelt_names, test_code

ROOT = Path(__file__).parents[3]

TESTS = """
import pytest

faults = {"a": 1}

def with_faults(scale):
    return scale.faults(error=0.1)

@pytest.fixture
def outage(scale):
    with scale.faults(error=1.0):
        yield

def test_itself(scale):
    scale.faults(error=0.1)

def test_by_a_function(scale):
    with with_faults(scale):
        pass

def test_by_a_fixture(scale, outage):
    pass

def test_of_another_name(scale):
    assert faults and "faults"

def test_without(scale):
    scale.phase("deploy")
"""


def test_a_call_is_seen_wherever_the_tests_code_is(pytester: pytest.Pytester) -> None:
    items = [item for item in pytester.getitems(TESTS) if isinstance(item, pytest.Function)]
    assert {item.name: test_code.calls(item, "faults") for item in items} == {
        "test_itself": True,
        "test_by_a_function": True,
        "test_by_a_fixture": True,
        "test_of_another_name": False,
        "test_without": False,
    }


NAMING = """
from pytest_grovescale import checks
from pytest_grovescale.checks import Reconciles

SHOP = "shop"

def judged(scale, name):
    scale.check(checks.NoopReconciles(controller=name, per_trigger=1))

def test_named(scale, other):
    judged(scale, "computed")
    scale.check(checks.NoopReconciles(controller=SHOP, per_trigger=1))
    scale.check(checks.NoopReconciles(per_trigger={"order": 1, "item": 2}))
    scale.check(Reconciles("deploy", "cart", max=5), checks.Cpu("deploy", max="4s"))
    with scale.phase("steady") as steady:
        pass
    assert steady.reconciles("till", result="error") < 3
    other(controller="no check")
"""


def test_controllers_that_a_tests_code_names(pytester: pytest.Pytester) -> None:
    item = pytester.getitem(NAMING, "test_named")
    assert isinstance(item, pytest.Function)
    found = [(one.name, one.where.rpartition(":")[2]) for one in test_code.controllers(item)]
    assert sorted(found) == [("cart", "13"), ("item", "12"), ("order", "12"), ("shop", "11"), ("till", "16")]


LATE = """
def test_late(scale):
    pods = scale.workload("pods.yaml.j2")
    with scale.phase("deploy") as deploy:
        deploy.milestone("first", 1)
        pods.apply()
        deploy.milestone("second", 2)

def test_behind_a_hold(scale):
    with scale.phase("steady") as steady:
        steady.hold("1s")
        steady.milestone("second", 2)

def test_in_time(scale, other):
    pods = scale.workload("pods.yaml.j2")
    with scale.phase("deploy") as deploy:
        other.apply()
        deploy.milestone("first", 1)
        if other:
            pods.apply()
        else:
            deploy.milestone("second", 2)
    with scale.phase("delete") as delete:
        delete.milestone("gone", 1)
        pods.delete()
"""


def test_milestones_behind_the_first_action_of_their_phase(pytester: pytest.Pytester) -> None:
    found = {}
    for item in pytester.getitems(LATE):
        assert isinstance(item, pytest.Function)
        late = test_code.late_milestones(item)
        found[item.name] = [(one.where.rpartition(":")[2], one.action, one.action_line) for one in late]
    assert found == {
        "test_late": [("6", "pods.apply()", 5)],
        "test_behind_a_hold": [("11", "steady.hold('1s')", 10)],
        "test_in_time": [],
    }


MISSPELT = """
from pytest_grovescale import checks, conditions

def test_it(scale):
    pods = scale.workload("pods.yaml.j2", replicas=1)
    scale.workloads("pods.yaml.j2")
    with scale.phase("deploy", timeot="1m") as deploy:
        deploy.milestone("ready", conditions.count("pods", 1, selectr="a=b"))
        deploy.milestones("gone", conditions.cont("pods", 0))
        pods.aply()
        pods.objects
    scale.check(checks.NoopWrite(max=0))

def test_right(scale, conditions):
    scale = conditions
    scale.anything()
    conditions.cont("its own")
    pods = scale.workload("pods.yaml.j2")
    pods = {}
    pods.items()

def test_sound(scale):
    pods = scale.workload("pods.yaml.j2", any_parameter=1)
    with scale.phase("deploy", timeout="1m") as deploy:
        deploy.milestone("ready", conditions.count("pods", 1, selector="a=b"))
        pods.apply()
    assert deploy.cpu("operator").seconds < 1
    assert pods.applied and scale.client
    scale.check(checks.NoopWrites(max=0))
"""


def test_misspelt_names_of_the_api_are_found_without_a_run(pytester: pytest.Pytester) -> None:
    items = {item.name: item for item in pytester.getitems(MISSPELT) if isinstance(item, pytest.Function)}
    found = misspelt_names.misspelt(items["test_it"])
    assert sorted(one.name for one in found) == [
        "NoopWrite", "aply", "cont", "milestones", "selectr", "timeot", "workloads",
    ]  # fmt: skip
    assert {one.name: one.where.rpartition(":")[2] for one in found}["selectr"] == "7"
    (cont,) = [one for one in found if one.name == "cont"]
    # What a module imports is none of its names.
    assert {"count", "matching", "gone"} <= {*cont.known}
    assert {"Any", "Mapping", "msgspec"}.isdisjoint(cont.known)
    assert misspelt_names.misspelt(items["test_right"]) == []
    assert misspelt_names.misspelt(items["test_sound"]) == []


GIVEN = """
PODS = 3

def test_it(scale):
    sets = scale.parameter("sets", 5)
    twice = scale.parameter("twice", 2)
    twice *= 2
    scale.workload("a.yaml", sets=sets, pods=PODS, twice=twice, some=sets + 1, own=scale.parameter("own", "x"))
    scale.workload("b.yaml", **{"sets": 1})
"""


def test_values_of_a_workloads_parameters_that_a_tests_code_says(pytester: pytest.Pytester) -> None:
    (item,) = (item for item in pytester.getitems(GIVEN) if isinstance(item, pytest.Function))
    found = {call.name: call for call in test_code.read(item).calls if call.method == "workload"}
    assert dict(zip(found["a.yaml"].keywords, found["a.yaml"].values, strict=True)) == {
        "sets": test_code.Parameter("sets", 5),
        "pods": 3,
        "own": test_code.Parameter("own", "x"),
        "twice": None,
        "some": None,
    }
    assert found["b.yaml"].keywords == ()


PERHAPS_NOT_REACHED = """
import pytest

def helper(scale):
    scale.workload("helper.yaml", replicas=0)

@pytest.fixture
def pods(scale):
    return scale.workload("fixture.yaml", replicas=0)

def test_it(scale, pods):
    sets = scale.parameter("sets", 0)
    with scale.phase("deploy", timeout="1m"):
        scale.workload("always.yaml", replicas=sets)
    slow = scale.workload("either.yaml", replicas=sets) if sets else None
    sets and scale.workload("and.yaml", replicas=sets)
    if sets:
        scale.workload("if.yaml", replicas=sets)
    for _ in range(sets):
        scale.workload("loop.yaml", replicas=sets)
    try:
        scale.workload("try.yaml", replicas=sets)
    except ValueError:
        pass
    with pytest.raises(ValueError):
        scale.workload("raises.yaml", replicas=sets)
    if sets:
        helper(scale)
    [scale.workload("list.yaml", replicas=sets) for _ in range(sets)]
    if not sets:
        pytest.skip("nothing to do")
    scale.workload("after.yaml", replicas=sets)
"""


def test_no_value_counts_in_a_workload_that_may_not_be_reached(pytester: pytest.Pytester) -> None:
    (item,) = (item for item in pytester.getitems(PERHAPS_NOT_REACHED) if isinstance(item, pytest.Function))
    found = {call.name: call.values for call in test_code.read(item).calls if call.method == "workload"}
    assert found.pop("always.yaml") == (test_code.Parameter("sets", 0),)
    assert found.pop("fixture.yaml") == (0,)
    assert set(found) == {
        f"{name}.yaml" for name in ["either", "and", "if", "loop", "try", "raises", "list", "after", "helper"]
    }
    assert set(found.values()) == {(None,)}


@pytest.mark.parametrize("suite", ["fixtures/scenarios", "tests/scale", "benchmarks"])
def test_nothing_is_wrong_with_this_repositorys_own_suites_before_they_run(suite: str) -> None:
    command = [sys.executable, "-m", "pytest", "--grovescale", "--collect-only", "-q", suite]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
