"""How often a test's endpoints are scraped: its marker says so, and the command line beats it."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

SHOWS = """
from pytest_grovescale import options
from pytest_grovescale.session.test_config import ItemConfig

def pytest_collection_modifyitems(config, items):
    settings = options.read(config)
    for item in items:
        print(item.name, "every", ItemConfig.of(item, settings).scrape_interval_s)
"""
TESTS = """
import pytest

@pytest.mark.grovescale(scrape_interval="500ms")
def test_often(scale): pass

def test_as_usual(scale): pass
"""


@pytest.mark.parametrize(
    ("arguments", "often", "usual"),
    [((), "0.5", "None"), (("--grovescale-scrape-interval=2s",), "2.0", "2.0")],
)
def test_the_command_line_beats_the_marker(
    pytester: pytest.Pytester, arguments: tuple[str, ...], often: str, usual: str
) -> None:
    pytester.makeconftest(SHOWS)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-s", "--collect-only", *arguments)
    result.stdout.fnmatch_lines([f"*test_often every {often}", f"test_as_usual every {usual}"])


def test_what_is_no_duration_is_a_usage_error(pytester: pytest.Pytester, snapshot: SnapshotAssertion) -> None:
    pytester.makepyfile(TESTS.replace("500ms", "often"))
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (reported,) = (line for line in result.errlines if line.startswith("ERROR: "))
    assert "::test_often: " in reported
    assert reported == snapshot
