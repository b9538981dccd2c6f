"""Label values that are names of functions: by profile, by source, or by their looks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_grovescale.checks.metrics.shape import FunctionNameLabels
from pytest_grovescale.exposition.families import Family
from tests.unit.analysis.endpoint import Endpoint

from .metrics_run import judged, said

STEPS = Family(name="my_step_seconds_total", type="counter", help="Times.")
CHECK = FunctionNameLabels()
SNAKE = ("ensure_finalizer", "sync_pods", "update_observed_generation")


def served(*values: str, label: str = "operation") -> Endpoint:
    found = Endpoint(families=(STEPS,))
    found.answers(0, {f'my_step_seconds_total{{{label}="{value}"}}': 1.0 for value in values})
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "sync.py").write_text("class R:\n    async def sync_pods(self) -> None: ...\n", "utf-8")
    (tmp_path / "pkg" / "main.go").write_text(
        "package pkg\n\nfunc (r *R) EnsureFinalizer(ctx context.Context) error {\n\treturn nil\n}\n", "utf-8"
    )
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "other.go").write_text("func UpdateObservedGeneration() {}\n", "utf-8")
    return tmp_path


def test_what_the_profile_has_is_a_function() -> None:
    functions = ("sync_pods (podclique/pods.py)", "pkg.(*Reconciler).ensureFinalizer", "get (api.py)")
    found = judged(CHECK, served(*SNAKE), functions=functions)
    assert (found.verdict, found.figure) == ("fail", 1)
    assert found.text == "labels whose values are names of functions: 1, at most 0"
    assert found.evidence[0].startswith(
        'my_step_seconds_total{operation="ensure_finalizer"}: values of operation are names of functions'
        " (ensure_finalizer, sync_pods); ensure_finalizer is a function in the profile of deploy,"
    )


def test_what_the_source_has_is_a_function(source: Path) -> None:
    found = judged(FunctionNameLabels(source=str(source)), served(*SNAKE[:2]))
    assert found.verdict == "fail"
    assert f"ensure_finalizer is {Path('pkg/main.go')}:3, sync_pods is {Path('pkg/sync.py')}:2" in found.evidence[0]


def test_what_the_source_lacks_is_none(source: Path) -> None:
    check = FunctionNameLabels(source=str(source))
    assert said(check, served("create_pod", "delete_pod")).startswith("pass: ")
    assert said(check, served(SNAKE[2], "delete_pod")).startswith("pass: ")


@pytest.mark.parametrize(
    ("values", "label", "expected"),
    [
        (SNAKE, "operation", "inconclusive: .*look like names of functions"),
        (("ensureFinalizer", "syncPods"), "step", "inconclusive: "),
        (SNAKE[:1], "operation", "pass: "),
        (("(*Reconciler).EnsureFinalizer", "(*Reconciler).SyncPods"), "operation", "fail: "),
        (("controllers.SyncPods", "controllers.EnsureFinalizer"), "operation", "fail: "),
        (("v1.Pod", "v1.Service"), "kind", "pass: "),
        (("Deployment.apps", "StatefulSet.apps"), "kind", "pass: "),
        (("SetReconciler.sync_pods", "SetReconciler._ensure_finalizer"), "step", "fail: "),
        (("SetReconciler.reconcile", "main.<locals>.wait"), "function", "fail: "),
        (("reconcile",), "function", "fail: "),
        (("PodClique", "PodCliqueSet"), "target_kind", "pass: "),
        (("get", "list", "create", "delete"), "verb", "pass: "),
        (("not_found", "already_exists", "rate_limited", "conflict"), "error_type", "pass: "),
        (("spec", "status"), "phase", "pass: "),
        (("success", "requeue", "requeue_after", "error"), "result", "pass: "),
        (("",), "operation", "pass: "),
    ],
)
def test_looks_alone_are_no_proof(values: tuple[str, ...], label: str, expected: str) -> None:
    assert re.match(expected, said(CHECK, served(*values, label=label)))


def test_ignored_families_missing_sources_and_missing_scrapes(tmp_path: Path) -> None:
    bad = served("reconcile", label="function")
    assert said(FunctionNameLabels(ignore=["my_*"]), bad) == "inconclusive: operator serves no family of its own"
    assert "cannot be read" in said(FunctionNameLabels(source=str(tmp_path / "nowhere")), bad)
    assert "no source in Python or Go" in said(FunctionNameLabels(source=str(tmp_path)), bad)
    assert said(CHECK, None).startswith("inconclusive: ")
