"""``budgets.yaml``: which checks it holds a test to, where they stand, and what is wrong in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import checks
from pytest_grovescale.checks.budgets import FILE, declared_for, read
from pytest_grovescale.checks.check import text_of
from pytest_grovescale.errors import DefinitionError, UsageError
from tests.golden import masked

SOUND = """\
tests:
  test_big:
    - noop_writes: {max: 0}
    - cpu: {phase: deploy, max: 4s}
    - hot_loop
  "test_*":
    - hot_loop:
    - {rss: {max: 200Mi}, noop_reads: {max: 1}}
  test_big[500]:
    - milestone: {name: ready, max: 12s}
  test_it.py::test_small:
    - noop_reads: {max: 2}
    - scales: {metric: "cpu:deploy"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "scale"
    made.mkdir()
    (made / "test_it.py").write_text("def test_big(): ...\n\nclass TestA:\n    async def test_small(self): ...\n")
    return made


def sources(folder: Path, *names: str) -> list[tuple[str, str]]:
    """Return each check as it is written, and where."""
    declared = declared_for(folder, names, (), root=folder.parent)
    return [(text_of(check), source) for check, source in declared]


def test_all_keys_that_fit_hold(folder: Path) -> None:
    (folder / FILE).write_text(SOUND)
    by_pattern = [
        ("hot_loop()", "scale/budgets.yaml:7"),
        ('rss(max="200Mi")', "scale/budgets.yaml:8"),
        ("noop_reads(max=1)", "scale/budgets.yaml:8"),
    ]
    big = [
        ("noop_writes(max=0)", "scale/budgets.yaml:3"),
        ('cpu("deploy", max="4s")', "scale/budgets.yaml:4"),
        ("hot_loop()", "scale/budgets.yaml:5"),
    ]
    assert sources(folder, "test_big[7]", "test_big", "test_it.py::test_big[7]") == [*big, *by_pattern]
    assert sources(folder, "test_big[500]", "test_big")[-1] == (
        'milestone("ready", max="12s")',
        "scale/budgets.yaml:10",
    )
    assert sources(folder, "test_small", "test_it.py::test_small") == [
        *by_pattern,
        ("noop_reads(max=2)", "scale/budgets.yaml:12"),
        ('scales("cpu:deploy", exponent_max=1.15)', "scale/budgets.yaml:13"),
    ]
    assert sources(folder, "other") == []


@pytest.mark.parametrize("name", ["budgets.yml", "budget.yaml"])
def test_a_file_that_is_not_read_is_no_silence(folder: Path, name: str) -> None:
    (folder / name).write_text(SOUND)
    with pytest.raises(DefinitionError, match=name):
        declared_for(folder, ["test_big"], (), root=folder.parent)
    (folder / FILE).write_text(SOUND)
    assert declared_for(folder, ["test_big"], (), root=folder.parent)


def test_without_a_file_only_the_marker_holds(folder: Path) -> None:
    found = declared_for(folder, ["test_big"], [checks.NoopWrites()], root=folder)
    assert found == ((checks.NoopWrites(), "marker"),)


def test_a_changed_file_is_read_again(folder: Path) -> None:
    path = folder / FILE
    for number, bound in enumerate((1, 2)):
        path.write_text(f"tests: {{test_big: [noop_reads: {{max: {bound}}}]}}")
        os.utime(path, ns=(number, number))
        assert sources(folder, "test_big") == [(f"noop_reads(max={bound})", "scale/budgets.yaml:1")]


@pytest.mark.parametrize(
    "argument", ["noop_writes", checks.NoopWrites, 3, None], ids=["text", "class", "number", "none"]
)
def test_what_is_no_check_is_refused(folder: Path, argument: object, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as caught:
        declared_for(folder, ["test_big"], [argument], root=folder)
    assert masked(str(caught.value), {repr(argument): "argument"}) == snapshot


@pytest.mark.parametrize(
    ("old", "new", "line", "named"),
    [
        ("noop_writes", "noop_write", 3, "noop_writes"),
        ("- hot_loop\n", "- hot_lop\n", 5, "hot_loop"),
        ("phase: deploy", "phas: deploy", 4, "cpu.phas: "),
        ("phase: deploy, ", "", 4, "tests.test_big[1].cpu: "),
        ("max: 4s", "max: 4x", 4, "'4x'"),
        ("max: 0", "max: none", 3, "int"),
        ("noop_writes: {max: 0}", "conflict_rate: {max: 20}", 3, "max=20"),
        ("- hot_loop\n", "- hot_loop: {passes: .inf}\n", 5, "passes=inf"),
        ("test_big:", "test_bigg:", 2, "tests.test_bigg: "),
        ("tests:", "test:", 1, "test: "),
        ("- hot_loop\n", "- 3\n", 5, "tests.test_big[2]: "),
        ("{max: 0}", "0", 3, "noop_writes: "),
        ("noop_writes: {max: 0}", 'series: 3', 3, "{max: 3}"),
        ("noop_writes: {max: 0}", 'invariant: "sum(a) == 1"', 3, '{expression: "sum(a) == 1"}'),
        ("noop_writes: {max: 0}", "labels: [pod]", 3, '{forbidden: ["pod"]}'),
        ("noop_writes: {max: 0}", "error_ratio: 0.1", 3, "{max: 0.1}"),
        ("test_big[500]:", "test_big:", 9, "tests.test_big: "),
        (SOUND, "", 1, ""),
    ],
    ids=lambda value: str(value).partition("\n")[0].strip(" -") or "empty",
)  # fmt: skip
def test_mistakes_are_reported_with_file_and_line(
    folder: Path, old: str, new: str, line: int, named: str, snapshot: SnapshotAssertion
) -> None:
    path = folder / FILE
    assert old in SOUND
    path.write_text(SOUND.replace(old, new, 1))
    with pytest.raises(DefinitionError) as caught:
        read(path, folder)
    text = masked(str(caught.value), {folder: "folder"})
    assert f"budgets.yaml:{line}: " in text
    assert named in text
    assert text == snapshot
