"""How often a definition has its operator scraped."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import DefinitionError
from pytest_grovescale.operator.definition import load
from tests.golden import masked

FILE = """\
name: sample
command: [sample, "{health_port}", "{metrics_port}"]
readiness:
  url: http://127.0.0.1:{health_port}/readyz
metrics:
  url: http://127.0.0.1:{metrics_port}/metrics
"""


def written(folder: Path, interval: str) -> str:
    path = folder / "sample.yaml"
    path.write_text(FILE + interval)
    return str(path)


@pytest.mark.parametrize(
    ("line", "interval"), [("", None), ("  interval: 2s\n", "2s"), ("  interval: 0\n", 0), ("  interval: 0.5\n", 0.5)]
)
def test_it_says_how_often(line: str, interval: str | float | None, tmp_path: Path) -> None:
    metrics = load(written(tmp_path, line)).metrics
    assert metrics is not None
    assert metrics.interval == interval


@pytest.mark.parametrize("wrong", ["often", "-1", "2 parsecs"])
def test_what_is_no_duration_is_reported_with_its_place(
    wrong: str, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(DefinitionError) as caught:
        load(written(tmp_path, f"  interval: {wrong}\n"))
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
    assert "sample.yaml:7: metrics.interval: " in caught.value.message


def test_only_metrics_have_one(tmp_path: Path) -> None:
    path = tmp_path / "sample.yaml"
    path.write_text(FILE.replace("readyz\n", "readyz\n  interval: 2s\n"))
    with pytest.raises(DefinitionError, match=r"readiness\.interval: unknown field"):
        load(str(path))
