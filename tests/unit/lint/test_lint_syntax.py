"""Wrong lines are told one by one, and the rest is judged; what is no exposition is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks.metrics import lint
from pytest_grovescale.errors import ExpositionError
from pytest_grovescale.exposition.body import Limits
from pytest_grovescale.exposition.reader import Reader

from .surfaces import HEAD, HEAD_PROTOBUF

TEXT = b"# HELP x Help.\n# TYPE x gauge\nx 1\n# TYPE y gauge\ny 2\n"


def test_what_is_right_is_read_as_it_is() -> None:
    assert lint.read(TEXT) == (Reader().read(TEXT), [])
    assert lint.read(HEAD_PROTOBUF.read_bytes())[1] == []


def test_wrong_lines_are_reported_in_their_order_and_left_out() -> None:
    found, faults = lint.read(TEXT + b"z 1,024\nx 3\nz{ 1\n# TYPE w gauge\nw 4\n")
    assert found.samples == {"x": "1", "y": "2", "w": "4"}
    assert [(fault.rule, fault.says.partition(":")[0]) for fault in faults] == [
        ("syntax", "line 6"),
        ("duplicate", "line 7"),
        ("syntax", "line 8"),
    ]


@pytest.mark.parametrize("second", [b"gauge", b"counter"])
def test_a_family_that_is_given_a_type_twice_is_reported(second: bytes) -> None:
    found, faults = lint.read(b"# TYPE x " + second + b"\n# HELP x Help.\n# TYPE x gauge\nx 1\n")
    assert found.families["x"].type == "gauge"
    (fault,) = faults
    assert (fault.family, fault.rule) == ("x", "duplicate")
    assert fault.says == f"it has 2 TYPE lines: {second.decode()}, gauge"


def test_an_answer_that_was_cut_off_is_reported(snapshot: SnapshotAssertion) -> None:
    found, faults = lint.read(TEXT + b"z 1.0")
    assert found.samples == {"x": "1", "y": "2"}
    (fault,) = faults
    assert fault.says.startswith("line 6: ")
    assert fault.says == snapshot


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><html><body>Log in</body></html>\n",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00",
        b"\x1f\x8b\x08\x00",
        b"".join(b"Lorem ipsum {\n" for _ in range(100)),
        HEAD_PROTOBUF.read_bytes()[:-100],
    ],
    ids=["html", "png", "gzip", "prose", "cut-protobuf"],
)
def test_what_is_no_exposition_is_refused(body: bytes) -> None:
    with pytest.raises(ExpositionError):
        lint.read(body)


def test_limits_are_of_the_whole() -> None:
    with pytest.raises(ExpositionError, match="more than 2 series"):
        lint.read(b"a 1\nb 1\nc 1\n", limits=Limits(max_series=2))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=20)), min_size=1, max_size=5))
def test_any_damage_is_reported_or_refused(damage: list[tuple[int, bytes]]) -> None:
    lines = HEAD.read_bytes().split(b"\n")[:400]
    for at, junk in damage:
        lines.insert(at, junk.replace(b"\n", b""))
    try:
        found, faults = lint.read(b"\n".join([*lines, b""]), "text/plain")
    except ExpositionError:
        return
    assert len(faults) <= lint.MOST_LINES
    assert len(found.samples) > 100
