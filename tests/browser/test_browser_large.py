"""The page of a run with 10,000 pods: it opens as fast as any."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_grovescale.analysis.analyse import analyse_run_over_time
from pytest_grovescale.recording.journal import Writer
from pytest_grovescale.report.html import files
from tests.unit.analysis.simulated import full_run

from .reader import Reader


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run that made and deleted 10,000 pods."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "recordings").mkdir()
    writer = Writer(folder / "recordings" / "large.jsonl")
    for record in full_run(10_000).records():
        writer.append(record)
    writer.close()
    return files.write_run(folder, *analyse_run_over_time(folder)[:2])


def test_ten_thousand_pods_are_drawn_from_a_small_file(reader: Reader, large_page: Path) -> None:
    assert large_page.stat().st_size < 1_000_000
    reader.open(large_page)
    chart = "[data-chart=objects]"
    reader.go_to(chart)
    reader.wait(lambda: reader.all(f"{chart} canvas"), "the pods are drawn")
    assert reader.draws(f"{chart} canvas") > 100
    assert "10,000" in reader.text("body")
    # No more points than a chart has places for: what makes a page slow is drawn once for each.
    assert reader.run("return document.querySelectorAll('*').length") < 5_000
