"""What the documentation shows of the samples is what these say.

After a change that is meant, ``make golden`` writes it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint_of_a_bad_endpoint() -> str:
    said = (ROOT / "tests/data/lint/bad.txt").read_text("utf-8")
    return f"```console\n$ grovescale lint-metrics tests/data/lint/bad.prom\n{said}```\n"


def defects() -> str:
    sample = (ROOT / "reports/sample/defects.md").read_text("utf-8")
    table = re.search(r"^\| defect \| caught by \|.*?\n\n", sample, re.DOTALL | re.MULTILINE)
    assert table is not None
    return f"\n{table[0]}"


@pytest.mark.parametrize(
    ("page", "source", "part"),
    [
        ("docs/metrics.md", "tests/data/lint/bad.txt", lint_of_a_bad_endpoint),
        ("docs/evidence.md", "reports/sample/defects.md", defects),
    ],
)
def test_it_shows_what_the_samples_say(
    page: str, source: str, part: Callable[[], str], writes_golden_files: bool
) -> None:
    before, begin, rest = (ROOT / page).read_text("utf-8").partition(f"<!-- as in {source} -->\n")
    shown, end, after = rest.partition("<!-- so far -->\n")
    assert begin, source
    assert end, source
    if writes_golden_files:
        shown = part()
        (ROOT / page).write_text("".join([before, begin, shown, end, after]), encoding="utf-8")
    assert shown == part()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120
