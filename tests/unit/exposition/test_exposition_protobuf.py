"""Delimited protobuf: the same series as the text of the same manager, and what only this format has."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import ExpositionError
from pytest_grovescale.exposition.body import Limits
from pytest_grovescale.exposition.families import Exposition, Family, NativeHistogram, parse, text
from pytest_grovescale.exposition.protobuf import Span, absolute, by_index
from pytest_grovescale.exposition.reader import Reader
from tests.wire_messages import message, number, varint

from . import metric_messages as pb
from .samples import PROTOBUF, PROTOBUF_TYPE, TEXT, TEXTS, UTF8_LABELS


def read(body: bytes, limits: Limits | None = None) -> Exposition:
    return Reader(limits).read(body, PROTOBUF_TYPE)


def test_the_same_manager_says_the_same_as_text_and_as_protobuf() -> None:
    as_text, as_protobuf = Reader().read(TEXT, "text/plain"), read(PROTOBUF)
    assert as_protobuf.samples.keys() == as_text.samples.keys()
    for name, family in as_text.families.items():
        reported = as_protobuf.families[name]
        assert (reported.type, reported.help) == (family.type, family.help)
    # A moment lies between the two scrapes: the runtime has gone on, the controllers were at rest.
    moved = {name for name, value in as_text.samples.items() if as_protobuf.samples[name] != value}
    assert all(name.startswith(("go_", "process_")) for name in moved)
    assert len(moved) == 50


def test_the_real_native_histograms_add_up() -> None:
    found = read(PROTOBUF)
    assert len(found.native) == 18
    for series, histogram in found.native.items():
        name, labels = parse(series)
        total = histogram.zero_count + sum(histogram.positive.values()) + sum(histogram.negative.values())
        assert total == histogram.count == float(found.samples[text(f"{name}_count", labels)])
        assert histogram.sum == found.samples[text(f"{name}_sum", labels)]
        # Every observation below 1 s, by the classic buckets, lies in a native bucket that ends at or below 1.
        below = sum(count for index, count in histogram.positive.items() if index <= 0) + histogram.zero_count
        if (series_of_one := text(f"{name}_bucket", {**labels, "le": "1"})) in found.samples:
            assert below == float(found.samples[series_of_one])


def test_times_of_creation_are_exact() -> None:
    found = read(PROTOBUF)
    assert found.created["certwatcher_read_certificate_errors_total"] == "1795227440.768721876"
    assert found.created.keys() & found.native.keys() == found.native.keys()


def test_every_type() -> None:
    created = pb.time(1700000000, 5)
    found = read(
        pb.family("c_total", pb.COUNTER, [pb.counter(1e6, {"b": "2", "a": "1"}, created)], "Help.", "s")
        + pb.family("g", pb.GAUGE, [pb.gauge(math.nan)])
        + pb.family("u", pb.UNTYPED, [message(5, pb.double(1, -0.0))])
        + pb.family(
            "s",
            pb.SUMMARY,
            [
                message(
                    4,
                    number(1, 3),
                    pb.double(2, 1.5),
                    message(3, pb.double(1, 0.5), pb.double(2, math.nan)),
                    message(4, created),
                )
            ],
        )
        + pb.family("h", pb.HISTOGRAM, [pb.histogram(number(1, 3), pb.double(2, 2.5), pb.bucket(1, 1))])
        + pb.family("gh", pb.GAUGE_HISTOGRAM, [pb.histogram(pb.double(4, 2.5), pb.bucket(math.inf, 2))])
        + pb.family("none", pb.GAUGE, [])
    )
    assert found.families["c_total"] == Family(name="c_total", type="counter", help="Help.", unit="s")
    assert [family.type for family in found.families.values()] == [
        *("counter", "gauge", "unknown", "summary", "histogram", "gaugehistogram", "gauge")
    ]
    assert found.samples == {
        'c_total{a="1",b="2"}': "1e+06",
        "g": "NaN",
        "u": "0",
        's{quantile="0.5"}': "NaN",
        "s_sum": "1.5",
        "s_count": "3",
        'h_bucket{le="1"}': "1",
        'h_bucket{le="+Inf"}': "3",
        "h_sum": "2.5",
        "h_count": "3",
        'gh_bucket{le="+Inf"}': "2",
        "gh_gsum": "0",
        "gh_gcount": "2.5",
    }
    assert found.created == {'c_total{a="1",b="2"}': "1700000000.000000005", "s": "1700000000.000000005"}
    assert found.native == {}


def native(*content: bytes) -> NativeHistogram:
    found = read(pb.family("h", pb.HISTOGRAM, [pb.histogram(*content)]))
    assert found.samples.keys() == {'h_bucket{le="+Inf"}', "h_sum", "h_count"}
    return found.native["h"]


def test_deltas_become_counts() -> None:
    deltas = b"".join(varint(step << 1 if step >= 0 else (-step << 1) - 1) for step in (2, -1, 0, 3))
    assert native(
        number(1, 11),
        pb.double(2, math.nan),
        pb.zigzag(5, -2),
        pb.double(6, 1e-128),
        number(7, 2),
        pb.span(12, -3, 2),
        pb.span(12, 2, 2),
        message(13, deltas),
        pb.span(9, 5, 1),
        pb.zigzag(10, 1),
    ) == NativeHistogram(
        schema=-2,
        count=11,
        sum="NaN",
        zero_threshold=1e-128,
        zero_count=2,
        positive={-3: 2, -2: 1, 1: 1, 2: 4},
        negative={5: 1},
    )


def test_counts_with_fractions_are_taken_as_they_are() -> None:
    packed = struct.pack("<2d", 0.5, 2.0)
    found = native(pb.double(4, 3.0), pb.double(8, 0.5), pb.span(12, 0, 2), message(14, packed))
    assert (found.count, found.zero_count, found.positive) == (3.0, 0.5, {0: 0.5, 1: 2.0})


def test_an_empty_span_shows_a_native_histogram_without_observations() -> None:
    assert native(pb.span(12, 0, 0)) == NativeHistogram(schema=0, count=0, sum="0")


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 9), max_size=4)), max_size=5), st.integers(-9, 9))
def test_buckets_of_any_spans(runs: list[tuple[int, list[int]]], start: int) -> None:
    spans: list[Span] = []
    counts: list[int] = []
    expected: dict[int, float] = {}
    index = 0
    for position, (gap, run) in enumerate(runs):
        offset = gap if position else start
        spans.append(Span(offset, len(run)))
        index += offset
        expected |= {index + step: float(count) for step, count in enumerate(run) if count}
        index += len(run)
        counts += run
    deltas = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert by_index(spans, absolute(deltas)) == expected


@given(TEXTS.filter(bool), st.dictionaries(UTF8_LABELS, TEXTS, max_size=3), st.floats(), TEXTS)
def test_any_name_any_label(name: str, pairs: dict[str, str], value: float, help_text: str) -> None:
    body = pb.family(name, pb.GAUGE, [pb.gauge(value, pairs)], help_text)
    reader = Reader()
    found = reader.read(body, PROTOBUF_TYPE)
    ((series, said),) = found.samples.items()
    assert (series, found.families[name].help) == (text(name, pairs), help_text)
    assert float(said) == value or math.isnan(value)
    assert reader.read(body, PROTOBUF_TYPE) == found


def test_fields_that_are_not_known_are_skipped() -> None:
    unknown = number(77, 1) + pb.double(78, 1) + message(79, b"x") + varint(80 << 3 | 5) + bytes(4)
    body = pb.family("g", pb.GAUGE, [pb.gauge(2) + unknown])
    assert read(varint(body[0] + len(unknown)) + body[1:] + unknown).samples == {"g": "2"}


def test_a_changed_message_is_read_again_and_others_looked_up() -> None:
    reader = Reader()
    first = reader.read(PROTOBUF, PROTOBUF_TYPE)
    more = reader.read(PROTOBUF + pb.family("more", pb.GAUGE, [pb.gauge(1)]), PROTOBUF_TYPE)
    assert more.samples == {**first.samples, "more": "1"}
    less = reader.read(pb.family("more", pb.GAUGE, [pb.gauge(2)]), PROTOBUF_TYPE)
    assert less.samples == {"more": "2"}
    assert reader.read(PROTOBUF, PROTOBUF_TYPE) == first


def metric(kind: int, label: int, value: int, *, reported: bool) -> bytes:
    """Return a label set; ``told``: with what stands beside its series, a time of creation or native buckets."""
    pairs = {"n": str(label)}
    if kind == pb.GAUGE:
        return pb.gauge(value, pairs)
    if kind == pb.COUNTER:
        return pb.counter(value, pairs, pb.time(value, 0) if reported else b"")
    native = pb.span(12, value, 1) + pb.zigzag(13, 1) if reported else b""
    return pb.histogram(number(1, value), pb.bucket(1, value), native, pairs=pairs)


LABEL_SETS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=4)
FAMILIES = st.tuples(st.sampled_from("ab"), st.sampled_from([pb.COUNTER, pb.GAUGE, pb.HISTOGRAM]), LABEL_SETS)
ANSWERS = st.lists(FAMILIES, max_size=3)


FLIPS = st.none() | st.tuples(st.integers(0, 200), st.integers(0, 255))


@given(st.lists(st.tuples(ANSWERS, FLIPS), min_size=2, max_size=5))
def test_what_was_read_before_changes_nothing(
    answers: list[tuple[list[tuple[str, int, list[tuple[int, int, bool]]]], tuple[int, int] | None]],
) -> None:
    """Whether it was sound or not: ``FLIPS`` put another byte in a place."""
    known = Reader(Limits(max_series=12))

    def said(reader: Reader, body: bytes) -> Exposition | str:
        try:
            return reader.read(body, PROTOBUF_TYPE)
        except ExpositionError as error:
            return error.message

    for families, flip in answers:
        body = b"".join(
            pb.family(
                name, kind, [metric(kind, label, value, reported=reported) for label, value, reported in label_sets]
            )
            for name, kind, label_sets in families
        )
        if flip is not None:
            body = body[: flip[0]] + bytes([flip[1]]) + body[flip[0] + 1 :]
        assert said(known, body) == said(Reader(Limits(max_series=12)), body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\xff" * 12, "byte 0: a number has no end"),
        (b"\x05ab", "byte 0: a message of 5 bytes .* 2 more"),
        (b"<html><body>Not Found</body></html>", "byte 0: a message of 60 bytes"),
        (pb.family("g", 1, [pb.gauge(1)]) + b"\x01\x0b", "byte 19: field 1 .* wire type 3"),
        (pb.family("g", 1, [pb.gauge(1)]) + b"\x02\x0a\x05", "byte 19: .* longer than"),
        (pb.family("", 1, []), "byte 0: a family '' of type 1"),
        (pb.family("x", 6, []), "byte 0: a family 'x' of type 6"),
        (varint(3) + b"\x0a\x01\xff", "byte 0: 'utf-8' codec"),
        (pb.family("x", pb.COUNTER, [pb.gauge(1)]), "byte 0: .*'x'.* counter"),
        (pb.family("x", 1, [pb.gauge(1), pb.gauge(2)]), "byte 0: the series x .*twice"),
        (pb.family("x", 1, [pb.gauge(1)]) * 2, "byte 19: .*'x' .*twice"),
        (pb.family("x", 1, [pb.gauge(1, {"__name__": "y"})]), "byte 0: the label '__name__' "),
        (pb.family("x", 1, [pb.gauge(1, {"": "y"})]), "byte 0: the label '' "),
        (pb.family("x", 1, [pb.labels({"a": "1"}) + pb.gauge(1, {"a": "2"})]), "byte 0: the label 'a' .*twice"),
        (pb.family("x", 4, [pb.histogram(pairs={"le": "1"})]), "byte 0: the label 'le' .*twice"),
        (pb.family("x", 4, [pb.histogram(pb.bucket(1, 1), pb.bucket(1, 1))]), "byte 0: the series x_bucket.* twice"),
        (pb.family("x", 4, [pb.histogram(pb.span(12, 0, 2**32))]), "4,294,967,296 native buckets .* 0"),
        (pb.family("x", 4, [pb.histogram(pb.span(12, 0, 1), pb.zigzag(13, -1))]), "count below zero"),
        (pb.family("x", 4, [pb.histogram(pb.span(12, 2**40, 0))]), "is no number of 32 bits"),
        (pb.family("x", 4, [pb.histogram(pb.double(6, math.inf))]), "a count that is no number"),
        (pb.family("x", 4, [pb.histogram(pb.double(4, math.inf), pb.span(12, 0, 0))]), "a count that is no number"),
        (
            pb.family("x", 4, [pb.histogram(pb.span(12, 0, 1), message(14, b"123"))]),
            "more or less than 8 bytes",
        ),
        (
            pb.family("x", 4, [pb.histogram(pb.span(12, 0, 0), message(13, bytes(100_001)))]),
            "more than 10,000",
        ),
        (pb.family("x", 4, [pb.histogram(pb.span(12, 0, 0), pb.zigzag(13, 0) * 10_001)]), "more than 10,000"),
        (
            pb.family("x", 4, [pb.histogram(pb.span(12, 0, 0), message(14, bytes(80_008)))]),
            "more than 10,000",
        ),
        (pb.family("x", 4, [pb.histogram(pb.span(12, 0, 0) * 10_001)]), "more than 10,000"),
        (pb.family("x", 0, [pb.counter(1, created=pb.time(-1, 0))]), "is no time after 1970"),
        (pb.family("x", 0, [pb.counter(1, created=pb.time(1, 10**9))]), "is no time after 1970"),
    ],
    ids=[
        "endless number",
        "cut off",
        "page",
        "unknown wire type",
        "too long field",
        "no name",
        "unknown type",
        "no UTF-8",
        "value of another type",
        "series twice in its family",
        "series twice in two families",
        "reserved label",
        "empty label",
        "label twice",
        "bound as a label",
        "bucket twice",
        "spans of too much",
        "below zero",
        "span too far away",
        "infinite bucket",
        "infinite count",
        "broken doubles",
        "many deltas in one",
        "many deltas",
        "many doubles",
        "many spans",
        "before 1970",
        "too many nanoseconds",
    ],
)
def test_anything_else_is_refused_with_its_byte(body: bytes, why: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ExpositionError, match=f"^{why}" if why.startswith("byte") else f"^byte 0: .*{why}") as caught:
        read(body)
    assert str(caught.value) == snapshot


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(max_series=3), "byte 0: more than 3 series"),
        (Limits(max_labels_per_series=1), "byte 0: .* more than 1 label"),
        (Limits(max_value_length=2), "byte 0: a label .* than 2 "),
        (Limits(max_value_length=0), "byte 0: a name .* than 0 "),
    ],
    ids=["series", "labels", "label", "name"],
)
def test_more_than_allowed_is_refused(limits: Limits, why: str, snapshot: SnapshotAssertion) -> None:
    metrics = [pb.gauge(1, {"a": f"{n:03}", "b": ""}) for n in range(4)]
    with pytest.raises(ExpositionError, match=f"^{why}") as caught:
        read(pb.family("x", pb.GAUGE, metrics), limits)
    assert str(caught.value) == snapshot


@pytest.mark.parametrize("cut", [1, 2, 100, 1000, len(PROTOBUF) // 2, len(PROTOBUF) - 1])
def test_an_answer_that_was_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(ExpositionError, match="cut off"):
        read(PROTOBUF[:cut])
