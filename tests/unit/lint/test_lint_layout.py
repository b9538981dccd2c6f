"""Order, line ends, descriptions and timestamps of a response whose lines can all be read."""

from __future__ import annotations

import pytest

from pytest_grovescale.checks.metrics import lint

from .surfaces import HEAD

NOW_S = 1_795_000_000.0
THINGS = """\
# HELP x_things What it is.
# TYPE x_things gauge
x_things{part="a"} 1
x_things{part="b"} 2
"""
OTHERS = "# HELP x_others What it is.\n# TYPE x_others gauge\nx_others 3\n"
LAST = 'x_things{part="b"} 2\n'
BUCKETS = """\
# TYPE x_seconds histogram
x_seconds_bucket{le="0.1"} 1
x_seconds_bucket{le="1"} 2
x_seconds_bucket{le="+Inf"} 2
x_seconds_sum 1
x_seconds_count 2
"""


def faults(text: str, content_type: str = "text/plain", now_s: float | None = NOW_S) -> list[tuple[str, str]]:
    """Return (rule, family) of each fault."""
    found = lint.read(text.encode(), content_type, now_s=now_s)[1]
    return [(one.rule, one.family) for one in found if not one.hint]


def test_what_is_in_order_has_no_fault() -> None:
    assert faults(THINGS + OTHERS + BUCKETS) == []
    assert faults(HEAD.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (THINGS.replace("\n", "\r\n"), ("syntax", "")),
        (THINGS.replace('"a"', '"\x1b[31m"'), ("format", "")),
        (THINGS + "# HELP x_things Other words.\n", ("duplicate", "x_things")),
        (THINGS.replace("# TYPE x_things gauge\n", "") + "# TYPE x_things gauge\n", ("order", "x_things")),
        (THINGS.replace(LAST, "") + OTHERS + LAST, ("order", "x_things")),
        (BUCKETS.replace('"0.1"', '"2"').replace('"1"', '"0.1"').replace('"2"', '"1"'), ("order", "x_seconds")),
        (THINGS.replace("# TYPE x_things gauge\n", ""), ("type", "x_things")),
        (THINGS.replace(" 2\n", " 2 1795000000\n"), ("timestamp", "x_things")),
        (THINGS.replace(" 2\n", " 2 0\n"), ("timestamp", "x_things")),
        (THINGS.replace(" 2\n", " 2 1794990000000\n"), ("timestamp", "x_things")),
        (THINGS.replace(" 2\n", " 2 1795001000000\n"), ("timestamp", "x_things")),
    ],
)
def test_each_fault_is_found_once(text: str, fault: tuple[str, str]) -> None:
    assert faults(text) == [fault]


def test_a_histogram_without_type_is_one_fault() -> None:
    assert faults(BUCKETS.replace("# TYPE x_seconds histogram\n", "")) == [("type", "x_seconds_bucket")]


def test_timestamps_of_this_hour_are_right_and_those_of_a_file_may_be() -> None:
    assert faults(THINGS.replace(" 2\n", " 2 1794999999000\n")) == []
    assert faults(THINGS.replace(" 2\n", " 2 1694999999000\n"), now_s=None) == []


def test_openmetrics_has_seconds() -> None:
    text = "# TYPE x gauge\n# HELP x What it is.\nx 1 {}\n# EOF\n"
    media = "application/openmetrics-text; version=1.0.0"
    assert faults(text.format("1794999999.5"), media) == []
    assert faults(text.format("1794999999000"), media) == [("timestamp", "x")]
