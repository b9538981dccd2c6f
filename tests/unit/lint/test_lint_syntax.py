"""Wrong lines are told one by one, and the rest is judged; what is no exposition is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.metrics.snapshot import surface_of
from pytest_grovescale.checks.metrics import lint
from pytest_grovescale.errors import ExpositionError
from pytest_grovescale.exposition.body import Limits
from pytest_grovescale.exposition.reader import Reader
from tests.unit.exposition import metric_messages as pb
from tests.wire_messages import number

from .surfaces import HEAD, HEAD_PROTOBUF

TEXT = b"# HELP x What it is.\n# TYPE x gauge\nx 1\n# TYPE y gauge\ny 2\n"


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
    found, faults = lint.read(b"# TYPE x " + second + b"\n# HELP x What it is.\n# TYPE x gauge\nx 1\n")
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


PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def test_a_body_in_another_format_than_its_header_says_is_read_and_reported() -> None:
    for body, content_type in ((HEAD_PROTOBUF.read_bytes(), "text/plain"), (TEXT, PROTOBUF)):
        found, faults = lint.read(body, content_type, now_s=1.7953e9)
        assert found == Reader().read(body)
        assert [fault.rule for fault in faults] == ["transport"]
    with pytest.raises(ExpositionError):
        lint.read(HEAD_PROTOBUF.read_bytes()[:-100], PROTOBUF, now_s=1.79e9)


def test_openmetrics_without_its_end_is_not_taken_for_the_text_format() -> None:
    body = b"# TYPE x counter\n# HELP x What it is.\nx_total 4\n# TYPE y gauge\n# HELP y What it is.\ny -1\n"
    found, faults = lint.read(body, OPENMETRICS, now_s=1.79e9)
    assert [fault.rule for fault in faults] == ["syntax"]
    assert found == Reader().read(body + b"# EOF\n", OPENMETRICS)
    text = body.replace(b" x ", b" x_total ")
    assert [fault.rule for fault in lint.read(text, OPENMETRICS, now_s=1.79e9)[1]] == ["transport"]


def test_a_counters_sample_without_its_suffix_is_read_as_the_familys() -> None:
    body = b'# TYPE x counter\nx{a="1"} 4\nx{a="2"} 5\n# EOF\n'
    found, faults = lint.read(body, OPENMETRICS)
    assert found.samples == {'x_total{a="1"}': "4", 'x_total{a="2"}': "5"}
    assert [(fault.family, fault.rule) for fault in faults] == [("x_total", "counter-total")]
    # Go's client names a gauge and a counter alike.
    both = b"# TYPE x gauge\nx 4\n# TYPE x counter\nx_total 5\n# EOF\n"
    assert lint.read(both, OPENMETRICS)[1] == []


@pytest.mark.parametrize(
    ("created", "wrong"), [("1794999999.5", False), ("1794999999500", True), ("0", True), ("1e3", True)]
)
def test_times_of_creation_are_seconds(created: str, wrong: bool) -> None:
    body = f"# TYPE x counter\nx_total 4\nx_created {created}\n# EOF\n".encode()
    for now_s in (1_795_000_000.0, None):
        faults = lint.read(body, OPENMETRICS, now_s=now_s)[1]
        assert [(fault.family, fault.rule) for fault in faults] == [("x_total", "timestamp")] * wrong


@pytest.mark.parametrize(
    ("count", "schema", "total", "wrong"),
    [
        (3, 3, 2.9, False),
        (4, 3, 2.9, True),
        (2, 3, 2.9, True),
        (4, 3, math.nan, False),
        (2, 3, math.nan, True),
        (3, -4, 2.9, False),
        (3, -53, 2.9, False),
        (3, -5, 2.9, True),
        (3, 12, 2.9, True),
        (3, 3, 2900.0, True),
        (3, 3, 2.7, True),
        (3, -4, 1.0, False),
        (3, -4, 3.1, True),
    ],
)
def test_native_histograms_that_are_refused_or_contradict_themselves(
    count: int, schema: int, total: float, wrong: bool
) -> None:
    """Of three observations in the bucket up to 1; those of NaN are in the count alone."""
    content = (number(1, count), pb.double(2, total), pb.zigzag(5, schema), pb.span(12, 0, 1), pb.zigzag(13, 3))
    body = pb.family("h_seconds", pb.HISTOGRAM, [pb.histogram(*content)])
    faults = lint.read(body, PROTOBUF, now_s=1.79e9)[1]
    assert [(fault.family, fault.rule) for fault in faults] == [("h_seconds", "inconsistent")] * wrong


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


def test_a_file_was_served_before_it_is_read() -> None:
    body = b"# HELP x X.\n# TYPE x counter\nx_total 4\nx_created 1794999999\n# EOF\n"
    assert [fault.rule for fault in lint.read(body, latest_s=1_794_000_000.0)[1]] == ["timestamp"]
    assert lint.read(body, latest_s=1_795_000_000.0)[1] == []
    text = "# HELP x_last_run_timestamp_seconds X.\n# TYPE x_last_run_timestamp_seconds gauge\n"
    exposition, _ = lint.read(f"{text}x_last_run_timestamp_seconds 1794999999\n".encode())
    served = surface_of(exposition, target="t")
    found = [
        [one.rule for one in lint.lint(served, lint.LintRules(), latest_s=latest_s).problems]
        for latest_s in (1_794_000_000.0, 1_795_000_000.0, None)
    ]
    assert found == [["value"], [], []]
