"""Results on disk and in other tools' formats: JSON, JUnit properties, Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.result import SCHEMA_VERSION
from pytest_grovescale.errors import RecordingError
from pytest_grovescale.report import result_file, run_report

from .sample import DEPLOY, RESULT, TEST


def test_a_result_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run" / result_file.NAME
    result_file.write(RESULT, path)
    assert result_file.read(path) == RESULT
    assert json.loads(path.read_text())["schema_version"] == SCHEMA_VERSION
    assert [entry.name for entry in path.parent.iterdir()] == [result_file.NAME]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / result_file.NAME
    result_file.write(RESULT, path)
    before = path.read_bytes()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RecordingError, match="No space left"):
        result_file.write(RESULT, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [result_file.NAME]


def test_a_newer_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / result_file.NAME
    path.write_text(json.dumps({"schema_version": SCHEMA_VERSION + 1, "something": "else"}))
    with pytest.raises(RecordingError, match=f"schema version {SCHEMA_VERSION + 1}"):
        result_file.read(path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 1}', "\x00", '{"a": 1}'])
def test_something_else_is_no_result(tmp_path: Path, text: str) -> None:
    path = tmp_path / result_file.NAME
    path.write_text(text)
    with pytest.raises(RecordingError, match="is not a result"):
        result_file.read(path)


def test_a_result_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no such file"):
        result_file.read(tmp_path / "no.json")


def test_junit_properties() -> None:
    found = dict(result_file.properties(TEST))
    assert len(found) == len(result_file.properties(TEST))
    assert found["grovescale.recording"] == "recordings/test_thousand_pods.jsonl"
    assert found["grovescale.deploy.pods-created.seconds"] == "4.2798"
    assert found["grovescale.deploy.pods-created.clock"] == "server"
    assert found["grovescale.deploy.operator.cpu_seconds"] == "4.311"
    assert found["grovescale.deploy.operator.object_writes"] == "3003"
    assert found["grovescale.deploy.reconciles.podcliqueset"] == "43"
    assert found["grovescale.delete.operator.cpu_seconds_at_least"] == "1.2"
    # Not measured: no property, rather than a zero.
    assert "grovescale.delete.operator.object_writes" not in found
    assert "grovescale.delete.pods-gone.seconds" not in found
    assert "grovescale.delete.busy_share" not in found


def test_markdown_table(snapshot: SnapshotAssertion) -> None:
    text = run_report.render_markdown(RESULT)
    assert text == snapshot
    assert text.splitlines()[0].endswith("::test\\_thousand\\_pods: failed")
    assert "in deploy (97 % of 2 cores)" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row.count("|") for row in rows] == [7] * 5 + [8] * 6
    assert "| steady-state | 30.0 s |  | 0.305 s | 3 | 1 |" in rows
    assert rows[4].endswith(" | ≥ 1.20 s | – | – |")
    assert rows[-1].endswith(": 12 left |")


def test_markdown_cannot_be_broken_by_names() -> None:
    phase = msgspec.structs.replace(DEPLOY, name="a|b\n<script>`*x*`")
    text = run_report.render_markdown(
        msgspec.structs.replace(RESULT, tests=(msgspec.structs.replace(TEST, phases=(phase,)),))
    )
    rows = [line for line in text.splitlines() if line.startswith("| a")]
    assert len(rows) == 2
    assert all(row.startswith("| a\\|b \\<script\\>\\`\\*x\\*\\` | ") for row in rows)
