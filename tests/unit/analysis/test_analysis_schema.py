"""The shipped JSON Schema says what the structs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.analysis import schema


def test_the_shipped_schema_is_current() -> None:
    assert schema.PATH.read_bytes() == schema.encoded()


def test_check_notices_a_stale_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schema, "PATH", tmp_path / "result.schema.json")
    assert schema.main(["--check"]) == 1
    assert "not current" in capsys.readouterr().err
    assert schema.main([]) == 0
    assert schema.main(["--check"]) == 0
