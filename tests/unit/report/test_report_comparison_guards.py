"""The first line of a comparison names what it does not know to be ok, beside a verdict that this does not hold up."""

from __future__ import annotations

import pytest

from pytest_grovescale.analysis.comparison import compare
from pytest_grovescale.report.comparison_table import answer
from tests.unit.analysis.test_analysis_comparison import GUARDED, guarded


@pytest.mark.parametrize(
    ("factor", "noise", "begins", "named"),
    [
        (1.2, 0.15, "No regression: ", ". Can't tell for reconciles, deploy "),
        (1.8, 0.35, "Can't tell whether ", ": reconciles, deploy "),
        (1.26, 0.03, "after ", ": reconciles, deploy "),
        (1.0, 0.001, "No regression: ", "2 gated metrics"),
    ],
)
def test_guards_in_the_first_line(factor: float, noise: float, begins: str, named: str) -> None:
    text = answer([compare(GUARDED, guarded(factor, noise))])
    assert text.startswith(begins)
    assert named in text
    assert text.count("reconciles, deploy") == (noise > 0.001)
