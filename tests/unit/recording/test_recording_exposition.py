"""The text format: real scrapes as prometheus_client reads them, wrong ones refused, changes alone journaled."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pytest_grovescale.operator.endpoints import Address
from pytest_grovescale.recording.exposition import Scrape
from pytest_grovescale.recording.scraping import Target, changes

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
LABELS = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True)
VALUES = st.one_of(
    st.floats().map(repr),
    st.sampled_from(["NaN", "+Inf", "-Inf", "0", "1e+06", "1.5e-05", "-0"]),
    st.integers().map(str),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SERIES = st.tuples(NAMES, st.dictionaries(LABELS, TEXTS, max_size=3))
BLANK = st.sampled_from([" ", "  ", "\t"])


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def key(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f'{k}="{escaped(labels[k])}"' for k in sorted(labels))
    return f"{name}{{{inside}}}" if labels else name


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(SERIES, VALUES, BLANK, st.one_of(st.just(""), st.integers(0, 2**62).map(str))), max_size=12))
def test_any_valid_scrape(rows: list[tuple[tuple[str, dict[str, str]], str, str, str]]) -> None:
    lines, expected = ["# HELP x y", "# TYPE x counter", ""], {}
    for (name, labels), value, blank, stamp in rows:
        if key(name, labels) in expected:
            continue
        inside = f",{blank}".join(f'{k}="{escaped(v)}"' for k, v in reversed(labels.items()))
        lines.append(f"{name}{f'{{{inside}}}' if labels else ''}{blank}{value}{blank if stamp else ''}{stamp}")
        expected[key(name, labels)] = value
    parser = Scrape()
    text = "\n".join(lines) + "\n"
    assert parser.parse(text) == expected
    # Once more with what it has learned.
    assert parser.parse(text) == expected


REAL = """\
# HELP go_gc_duration_seconds A summary.
# TYPE go_gc_duration_seconds summary
go_gc_duration_seconds{quantile="0"} 2.1e-05
go_gc_duration_seconds_count 12
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="GET"} 14
workqueue_depth{controller="pod \\"x\\" {a}",name="b,c=\\"d\\"",priority=""} NaN
x_bucket{le="+Inf",} 3 1395066363000
  padded  { b = "1" , a = "2" }   4
"""


def test_agrees_with_prometheus_client() -> None:
    expected = {}
    for family in text_string_to_metric_families(REAL.replace("  padded  {", "padded{")):
        for sample in family.samples:
            expected[key(sample.name, sample.labels)] = sample.value
    found = Scrape().parse(REAL)
    assert found.keys() == expected.keys()
    for series, text in found.items():
        assert float(text) == expected[series] or (math.isnan(float(text)) and math.isnan(expected[series]))


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "x y",
        "x 1 2 3",
        "x 1 2.5",
        "x 1_000",
        "1x 1",
        '{a="b"} 1',
        "x{a=b} 1",
        'x{a="b" 1',
        'x{a="b"c="d"} 1',
        'x{a="b",a="c"} 1',
        'x{a="b} 1',
        'x{"a"="b"} 1',
        "<html>",
        "x{} 1\nx 2",
        'x{a="1",b="2"} 1\nx{b="2",a="1"} 1',
    ],
)
def test_what_is_not_the_format_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line \d: "):
        Scrape().parse(f"ok 1\n{line}\n")


def test_too_many_series_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 5 series"):
        Scrape(max_series=5).parse("".join(f"x{n} 1\n" for n in range(6)))


def test_memory_does_not_grow_with_series_that_come_and_go() -> None:
    parser = Scrape()
    for round_ in range(50):
        parser.parse("".join(f'x{{pod="{round_}-{n}"}} 1\n' for n in range(100)))
    assert len(parser._known) < 2000


SCRAPES = st.lists(st.dictionaries(st.sampled_from("abcde"), st.sampled_from(["1", "1.0", "2", "NaN", "+Inf", "-Inf"])))


@given(SCRAPES)
def test_every_scrape_is_rebuilt_from_the_changes(scrapes: list[dict[str, str]]) -> None:
    target = Target("t", Address(url="http://127.0.0.1:1/metrics"))
    numbers: dict[str, float] = {}
    special: dict[str, str] = {}
    for at, scrape in enumerate(scrapes):
        record = changes(target, dict(scrape), at=at, edge="", took_ns=0)
        for series in record.gone:
            numbers.pop(series, None)
            special.pop(series, None)
        for series in record.samples:
            special.pop(series, None)
        numbers |= record.samples
        special |= record.special
        assert numbers | {name: float(text) for name, text in special.items()} | {} == pytest.approx(
            {name: float(text) for name, text in scrape.items()}, nan_ok=True
        )
        assert all(math.isfinite(value) for value in record.samples.values())


def test_unchanged_series_are_left_out() -> None:
    target = Target("t", Address(url="http://127.0.0.1:1/metrics"))
    scrape = {"a": "1", "b": "NaN"}
    assert len(changes(target, dict(scrape), at=1, edge="", took_ns=0).samples) == 1
    record = changes(target, dict(scrape), at=2, edge="", took_ns=0)
    assert (record.samples, record.special, record.gone) == ({}, {}, [])
