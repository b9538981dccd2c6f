"""``budgets.yaml``: which checks it holds a test to, where they stand, and what is wrong in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_grovescale import checks
from pytest_grovescale.checks.budgets import FILE, declared_for, read
from pytest_grovescale.checks.check import text_of
from pytest_grovescale.errors import DefinitionError, UsageError

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


def sources(folder: Path, *names: str) -> list[str]:
    return [f"{text_of(check)} {source}" for check, source in declared_for(folder, names, (), root=folder.parent)]


def test_all_keys_that_fit_hold(folder: Path) -> None:
    (folder / FILE).write_text(SOUND)
    by_pattern = [
        "hot_loop() scale/budgets.yaml:7",
        'rss(max="200Mi") scale/budgets.yaml:8',
        "noop_reads(max=1) scale/budgets.yaml:8",
    ]
    big = [
        "noop_writes(max=0) scale/budgets.yaml:3",
        'cpu("deploy", max="4s") scale/budgets.yaml:4',
        "hot_loop() scale/budgets.yaml:5",
    ]
    assert sources(folder, "test_big[7]", "test_big", "test_it.py::test_big[7]") == [*big, *by_pattern]
    assert sources(folder, "test_big[500]", "test_big")[-1] == 'milestone("ready", max="12s") scale/budgets.yaml:10'
    assert sources(folder, "test_small", "test_it.py::test_small") == [
        *by_pattern,
        "noop_reads(max=2) scale/budgets.yaml:12",
        'scales("cpu:deploy", exponent_max=1.15) scale/budgets.yaml:13',
    ]
    assert sources(folder, "other") == []


def test_without_a_file_only_the_marker_holds(folder: Path) -> None:
    found = declared_for(folder, ["test_big"], [checks.NoopWrites()], root=folder)
    assert found == ((checks.NoopWrites(), "marker"),)


def test_a_changed_file_is_read_again(folder: Path) -> None:
    path = folder / FILE
    for number, bound in enumerate((1, 2)):
        path.write_text(f"tests: {{test_big: [noop_reads: {{max: {bound}}}]}}")
        os.utime(path, ns=(number, number))
        assert sources(folder, "test_big") == [f"noop_reads(max={bound}) scale/budgets.yaml:1"]


@pytest.mark.parametrize("argument", ["noop_writes", checks.NoopWrites, 3, None])
def test_what_is_no_check_is_refused(folder: Path, argument: object) -> None:
    with pytest.raises(UsageError, match=r"is not a check\n.*checks.NoopCpu, checks.NoopReads"):
        declared_for(folder, ["test_big"], [argument], root=folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("noop_writes", "noop_write", r"budgets.yaml:3: tests.test_big\[0\].noop_write: no check .*mean noop_writes"),
        ("- hot_loop\n", "- hot_lop\n", r"budgets.yaml:5: .*: no check 'hot_lop'; did you mean hot_loop"),
        ("phase: deploy", "phas: deploy", r"budgets.yaml:4: .*cpu.phas: no argument 'phas'; did you mean phase"),
        ("phase: deploy, ", "", r"budgets.yaml:4: tests.test_big\[1\].cpu: needs phase"),
        ("max: 4s", "max: 4x", r"budgets.yaml:4: .*'4x' is not a duration"),
        ("max: 0", "max: none", r"budgets.yaml:3: .*expected int, got str"),
        ("noop_writes: {max: 0}", "conflict_rate: {max: 20}", r"budgets.yaml:3: .*max=20\): not a share from 0 to 1"),
        ("- hot_loop\n", "- hot_loop: {passes: .inf}\n", r"budgets.yaml:5: .*passes=inf\): not a number from 0 on"),
        ("test_big:", "test_bigg:", r"budgets.yaml:2: tests.test_bigg: no test 'test_bigg'; did you mean test_big"),
        ("tests:", "test:", r"budgets.yaml:1: test: unknown field"),
        ("- hot_loop\n", "- 3\n", r"budgets.yaml:5: tests.test_big\[2\]: expected"),
        ("{max: 0}", "0", r"budgets.yaml:3: .*noop_writes: takes arguments by name"),
        ("noop_writes: {max: 0}", 'series: 3', r"takes arguments by name, as {max: 3}"),
        ("noop_writes: {max: 0}", 'invariant: "sum(a) == 1"', r'by name, as {expression: "sum\(a\) == 1"}'),
        ("noop_writes: {max: 0}", "labels: [pod]", r'by name, as {forbidden: \["pod"\]}'),
        ("noop_writes: {max: 0}", "error_ratio: 0.1", r"by name, as {max: 0.1}"),
        ("test_big[500]:", "test_big:", r"budgets.yaml:9: tests.test_big: is there twice"),
        (SOUND, "", "budgets.yaml:1: is empty"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_file_and_line(folder: Path, old: str, new: str, message: str) -> None:
    path = folder / FILE
    assert old in SOUND
    path.write_text(SOUND.replace(old, new, 1))
    with pytest.raises(DefinitionError, match=message):
        read(path, folder)
