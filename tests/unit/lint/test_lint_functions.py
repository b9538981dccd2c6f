"""Names of functions in all the ways in which code and people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks.metrics.function_names import bare, does_something, functions_in, qualified, words

from .surfaces import family, problems, rules


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("ensure_finalizer", ("ensure", "finalizer")),
        ("ensureFinalizer", ("ensure", "finalizer")),
        ("EnsureFinalizer", ("ensure", "finalizer")),
        ("_ensure_finalizer", ("ensure", "finalizer")),
        ("getHTTPStatus", ("get", "http", "status")),
        ("sync2", ("sync", "2")),
        ("a b", ()),
        ("a-b", ()),
        ("", ()),
        ("10", ()),
    ],
)
def test_one_name_however_it_is_written(written: str, name: tuple[str, ...]) -> None:
    assert words(written) == name


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("reconcile (podclique/reconciler.py)", "reconcile"),
        ("pkg.(*Reconciler).EnsureFinalizer", "EnsureFinalizer"),
        ("sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller[...]).Reconcile.func1", "Reconcile"),
        ("main.main", "main"),
        ("<lambda> (a.py)", ""),
    ],
)
def test_the_bare_name_of_a_profiles_function(function: str, name: str) -> None:
    assert bare(function) == name


@given(st.text(max_size=40))
def test_any_text_is_taken_apart(text: str) -> None:
    assert all(word == word.lower() for word in words(text))
    assert isinstance(qualified(text), str)
    assert isinstance(bare(text), str)
    assert does_something(words(text)) in (True, False)


def test_looks_are_said_to_be_looks(snapshot: SnapshotAssertion) -> None:
    found = problems(family("x_steps_total", "counter", '{step="ensure_finalizer"}', '{step="sync_pods"}'))
    assert [problem.rule for problem in found] == ["function-name"]
    assert "(ensure_finalizer, sync_pods)" in found[0].says
    assert found[0].says == snapshot
    assert rules(family("x_steps_total", "counter", '{step="spec"}', '{step="status"}', '{step="sync_pods"}')) == []


def test_functions_of_a_source_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.go").write_text("func Plain() {}\nfunc (r *T[K]) OnIt() {}\nfunc Generic[T any](t T) {}\n", "utf-8")
    (tmp_path / "b.py").write_text("def one(): ...\n\nclass C:\n    def two[T](self): ...\n", "utf-8")
    (tmp_path / "broken.py").write_bytes(b"def still_found(:\n\xff\xfe")
    (tmp_path / "c.txt").write_text("def three(): ...", "utf-8")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert functions_in(tmp_path) == {
        ("plain",): "a.go:1",
        ("on", "it"): "a.go:2",
        ("generic",): "a.go:3",
        ("one",): "b.py:1",
        ("two",): "b.py:4",
        ("still", "found"): "broken.py:1",
    }


@pytest.mark.parametrize("label", ["statement", "command", "api"])
def test_what_another_program_is_asked_for_is_no_function(label: str) -> None:
    assert rules(family("x_calls_total", "counter", f'{{{label}="load_topics"}}', f'{{{label}="save_offset"}}')) == []


def test_requests_have_names_as_functions_do() -> None:
    labels = ('{name="add_account"}', '{name="remove_account"}')
    assert "function-name" not in rules(family("x_replication_requests", "gauge", *labels))
