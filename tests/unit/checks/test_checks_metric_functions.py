"""Label values that are names of functions: by profile, by source, or by their looks."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.phase_result import ProfileResult
from pytest_grovescale.analysis.profiles.phase_profiles import profiles_in
from pytest_grovescale.checks import FunctionNameLabels
from pytest_grovescale.exposition.families import Family
from pytest_grovescale.recording import records as rec
from tests.golden import masked
from tests.unit.analysis.endpoint import Endpoint, at

from .metrics_run import judged, said
from .noop_run import in_words

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


def profile(folder: Path, *functions: str, process: str = "operator") -> ProfileResult:
    """Return a profile whose raw file has a sample in each of these functions, and hundreds in others."""
    others = [f"run (loop.py:{line});work_{line} (work.py:{line}) 9" for line in range(200)]
    (folder / "p.txt").write_text("\n".join([*others, *(f"{name} 1" for name in functions)]) + "\n", "utf-8")
    return ProfileResult(process=process, kind="pyspy", file="p.txt")


def test_what_the_profile_has_is_a_function(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    functions = ("sync_pods (podclique/pods.py:7)", "Reconciler.ensure_finalizer (set.py:9)", "get (api.py:1)")
    found = judged(CHECK, served(*SNAKE), profiled=[profile(tmp_path, *functions)], profiles=profiles_in(tmp_path))
    assert (found.verdict, found.figure) == ("fail", 1)
    assert found.text == snapshot(name="text")
    assert found.evidence[0].startswith('my_step_seconds_total{operation="ensure_finalizer"}: ')
    assert "\n".join(found.evidence) == snapshot(name="evidence")


def test_of_another_process_it_proves_nothing(tmp_path: Path) -> None:
    other = profile(tmp_path, *(f"{name} (m.py:1)" for name in SNAKE), process="kwok")
    assert judged(CHECK, served(*SNAKE), profiled=[other], profiles=profiles_in(tmp_path)).verdict == "inconclusive"


def test_a_profile_that_cannot_be_read_leaves_a_doubt(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    lost = ProfileResult(process="operator", kind="pyspy", file="lost.txt")
    found = judged(CHECK, served("create_pod"), profiled=[lost], profiles=profiles_in(tmp_path))
    assert found.verdict == "inconclusive"
    assert "lost.txt: " in found.text
    assert masked(found.text, {tmp_path: "folder"}) == snapshot


def test_what_is_on_a_dumped_stack_is_a_function(snapshot: SnapshotAssertion) -> None:
    lines = ['Thread 7 (idle): "worker"', "    sync_pods (pods.py:7)", "    ensure_finalizer (set.py:9)"]
    dumped: list[rec.AnyRecord] = [
        rec.PhaseStarted(at=at(-1), phase="deploy", timeout_ns=1),
        rec.Lines(at=at(0.5), source="stacks:operator", lines=lines),
    ]
    found = judged(CHECK, served(*SNAKE[:2]), objects=dumped)
    assert found.verdict == "fail"
    assert "\n".join(found.evidence) == snapshot


def test_what_the_source_has_is_a_function(source: Path, snapshot: SnapshotAssertion) -> None:
    found = judged(FunctionNameLabels(source=str(source)), served(*SNAKE[:2]))
    assert found.verdict == "fail"
    assert f"ensure_finalizer is {Path('pkg/main.go')}:3, " in found.evidence[0]
    assert f"sync_pods is {Path('pkg/sync.py')}:2" in found.evidence[0]
    assert masked("\n".join(found.evidence), {source: "source"}) == snapshot


def test_what_the_source_lacks_is_none(source: Path) -> None:
    check = FunctionNameLabels(source=str(source))
    assert said(check, served("create_pod", "delete_pod")).startswith("pass: ")
    assert said(check, served(SNAKE[2], "delete_pod")).startswith("pass: ")


@pytest.mark.parametrize(
    ("values", "label", "expected"),
    [
        (SNAKE, "operation", "inconclusive: "),
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
    ids=in_words,
)
def test_looks_alone_are_no_proof(
    values: tuple[str, ...], label: str, expected: str, snapshot: SnapshotAssertion
) -> None:
    found = said(CHECK, served(*values, label=label))
    assert found.startswith(expected)
    assert found == snapshot


def test_ignored_families_missing_sources_and_missing_scrapes(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    bad = served("reconcile", label="function")
    for name, found in {
        "ignored": said(FunctionNameLabels(ignore=["my_*"]), bad),
        "nowhere": said(FunctionNameLabels(source=str(tmp_path / "nowhere")), bad),
        "empty": said(FunctionNameLabels(source=str(tmp_path)), bad),
        "no scrape": said(CHECK, None),
    }.items():
        assert masked(found, {tmp_path: "folder"}) == snapshot(name=name)
