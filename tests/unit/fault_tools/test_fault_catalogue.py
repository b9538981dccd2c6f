"""The faults of a seed, and their table."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from tools.faults import __main__, catalogue, folders, table
from tools.faults.definitions import Answer, Fault, Row

MANY = 500


def drawn(seed: int, count: int = MANY, only: tuple[str, ...] = ()) -> list[Fault]:
    return list(itertools.islice(catalogue.faults(seed, only=only), count))


def test_a_seed_gives_the_same_faults_each_time_and_another_seed_others() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_fault_keeps_its_number_whatever_else_is_drawn() -> None:
    by_number = {fault.number: fault for fault in drawn(3)}
    assert all(by_number[fault.number] == fault for fault in drawn(3, 10, ("freeze", "path")))


def test_as_few_faults_as_there_are_kinds_are_of_all_kinds() -> None:
    assert {fault.kind for fault in drawn(1, len(catalogue.KINDS))} == set(catalogue.KINDS)


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError, match="no-such"):
        next(catalogue.faults(1, only=["no-such"]))


def test_a_fault_passes_to_its_worker_as_it_is() -> None:
    for fault in (*drawn(4), *catalogue.short_list()):
        assert msgspec.json.decode(msgspec.json.encode(fault), type=Fault) == fault


def test_every_fault_says_what_is_right_and_a_failure_always_needs_its_cause() -> None:
    for fault in drawn(5):
        assert fault.expect.outcomes
        for outcome in fault.expect.outcomes:
            # A killed program says nothing, and of `head` nothing more is read.
            silent = max(outcome.exits) < 0 or fault.kind == "closed-pipe"
            assert outcome.exits == (0,) or silent or outcome.says, fault.text


def test_a_table_names_all_that_is_not_perfect() -> None:
    first, second, third = drawn(1, 3)
    rows = [
        Row(fault=first, seconds=20),
        Row(fault=second, message=Answer(reasons=("a | b",)), seconds=30.4),
        Row(fault=third, skipped="not root"),
    ]
    text = table.markdown(rows, seed=1, seconds=90, machine="2 cores")
    assert "**1 of 3 faults perfect; 1 skipped.**" in text
    assert f"- {second.number} {second.kind}: message: a \\| b\n" in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[1].endswith("| nothing | nothing | right | passes | 20 |")
    assert lines[2].endswith("| nothing | nothing | **WRONG** | passes | 30 |")
    assert "skipped" in lines[3]
    assert "        message: a | b" in table.line(rows[1])


@pytest.mark.parametrize(
    ("content", "broken"),
    [
        (b'{"a":1}\n{"b":2}\n', ()),
        (b'{"a":1}\n{"b"', ("line 2 of 2 has no end",)),
        (b'{"a":1\n{"b":2}\n', ("line 1 of 2: Input data was truncated",)),
        (b"", ()),
    ],
)
def test_every_line_of_a_recording_is_looked_at(tmp_path: Path, content: bytes, broken: tuple[str, ...]) -> None:
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "t.jsonl").write_bytes(content)
    (journal,) = folders.journals(tmp_path)
    assert journal.broken == broken
    assert journal.lines == content.count(b"\n") + (not content.endswith(b"\n") and bool(content))


def test_files_that_a_run_leaves_in_its_folders_are_seen(tmp_path: Path) -> None:
    own = folders.Folders(root=tmp_path, uid=0)
    for name in ("state/clusters", "state/locks", "reports/run/logs", "home", "cache", "project"):
        (tmp_path / name).mkdir(parents=True)
    before = folders.left(own)
    (tmp_path / "state" / "clusters" / "c").mkdir()
    for name in ("state/locks/c.lock", "reports/run/.result.json.7", "home/.x", "cache/digests.json", "project/y"):
        (tmp_path / name).touch()
    mine = {"state/clusters/c", "state/locks/c.lock", "reports/run/.result.json.7", "home/.x", "project/y"}
    left = folders.left(own) - before
    assert {name for name in left if not name.startswith(("tmp/", "dev/"))} == mine


def test_without_namespaces_every_fault_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "has_binaries", lambda cache: True)
    monkeypatch.setenv("PATH", "")
    rows = [row for row, _ in __main__.run(catalogue.short_list(), __main__.SMALL, lanes=2, patience=1)]
    assert len(rows) == 4
    for row in rows:
        assert not row.perfect
        assert "not installed" in row.skipped or "lies below" in row.skipped
