"""Why an object is late, from what it says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.recording.conditions import Count, FieldTest, Predicate, WatchSpec
from pytest_grovescale.recording.evaluation import Shortfall
from pytest_grovescale.recording.timeout_diagnosis import explain, failing


@pytest.mark.parametrize(
    ("obj", "reported"),
    [
        ({}, []),
        (
            {"metadata": {"finalizers": ["a/b"], "deletionTimestamp": "T"}},
            ["deletion was requested at T", "finalizers a/b"],
        ),
        ({"spec": {"schedulingGates": [{"name": "g1"}, {"name": "g2"}]}}, ["scheduling gates g1, g2"]),
        (
            {
                "status": {
                    "phase": "Pending",
                    "conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}],
                }
            },
            ["phase Pending", "B=False"],
        ),
        (
            {"status": {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "R", "message": "M"}}}]}},
            ["container c waits: R: M"],
        ),
        (
            {"kind": "Pod", "spec": {"schedulerName": "volcano"}, "status": {"phase": "Pending"}},
            ["phase Pending", "no scheduler has looked at it: spec.schedulerName is volcano"],
        ),
        ({"kind": "Pod", "spec": {"schedulerName": "volcano", "nodeName": "n"}, "status": {}}, []),
        ({"kind": "Job", "spec": {"schedulerName": "volcano"}, "status": {}}, []),
        (
            {
                "status": {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "message": "0/5 nodes are available: 5 Insufficient cpu. no new claims to deallocate,"
                            " preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.",
                        }
                    ]
                }
            },
            ["PodScheduled=False (0/5 nodes are available: 5 Insufficient cpu)"],
        ),
        # Custom resources may hold anything under these names.
        ({"metadata": None, "spec": [], "status": {"conditions": "none", "phase": 3}}, []),
        ({"status": {"conditions": [None, "x", {}]}}, ["None=None"]),
    ],
)
def test_what_an_object_reports(obj: dict[str, Any], reported: list[str]) -> None:
    assert explain(obj, leaving=False) == reported


def test_an_object_that_no_one_deletes(snapshot: SnapshotAssertion) -> None:
    assert "\n".join(explain({}, leaving=True)) == snapshot
    assert explain({"metadata": {"deletionTimestamp": "T"}}, leaving=True) == ["deletion was requested at T"]


def test_failing_tests_in_words(snapshot: SnapshotAssertion) -> None:
    tests = (
        FieldTest(path="status.phase", value="Running"),
        FieldTest(path="status.replicas", op=">=", value=3),
        FieldTest(path="status.note", op="!=", value="x"),
    )
    watch = WatchSpec(resource="things", path="/x", fields=("status.note", "status.phase", "status.replicas"))
    shortfall = Shortfall("m", Count(watch=watch, where=Predicate(tests=tests), n=1), 0, False, [])
    assert failing({"status": {"phase": "Running", "replicas": 3}}, shortfall) == []
    phase, replicas = failing({"status": {"replicas": "three"}}, shortfall)
    assert phase.startswith("status.phase ")
    assert replicas.startswith("status.replicas ")
    assert f"{phase}\n{replicas}" == snapshot


@pytest.mark.parametrize(
    ("path", "has"),
    [
        ("status.availableReplcas", "availableReplicas"),
        ("staus.phase", "status"),
        ("status.conditions[type=Redy].status", "Ready"),
        ("status.conditions[type=Ready].stats", "status"),
        ("status.readyReplicas", ""),
        ("status.unavailableReplicas", ""),
        ("status.phase[0].x", ""),
        ("metadata.name.x", ""),
    ],
)
def test_a_misspelt_field_is_held_against_those_that_the_object_has(path: str, has: str) -> None:
    status = {"availableReplicas": 3, "replicas": 3, "phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}
    watch = WatchSpec(resource="things", path="/x", fields=(path,))
    test = FieldTest(path=path, value="x")
    shortfall = Shortfall("m", Count(watch=watch, where=Predicate(tests=(test,)), n=1), 0, False, [])
    (said,) = failing({"metadata": {"name": "a"}, "status": status}, shortfall)
    assert said.partition(",")[0] == f"{path} is absent{f' (it has {has})' if has else ''}"
