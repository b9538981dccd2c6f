"""Expositions as text: what is written reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pytest_grovescale.exposition.families import Exposition, Family, MetricType, NativeHistogram, text
from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.exposition.text import text_of

from .samples import PROTOBUF, PROTOBUF_TYPE, TEXT, TEXTS, UTF8_LABELS, UTF8_NAMES, VALUES

TYPES = st.sampled_from(["counter", "gauge", "histogram", "summary", "unknown"])
FAMILIES = st.builds(lambda name, kind, words: Family(name=name, type=kind, help=words), UTF8_NAMES, TYPES, TEXTS)
SERIES = st.builds(text, UTF8_NAMES, st.dictionaries(UTF8_LABELS, TEXTS, max_size=3))
EXPOSITIONS = st.builds(
    lambda families, samples: Exposition(families={family.name: family for family in families}, samples=samples),
    st.lists(FAMILIES, max_size=4),
    st.dictionaries(SERIES, VALUES, max_size=6),
)


def read(written: str) -> Exposition:
    return Reader().read(written.encode(), "text/plain")


@given(EXPOSITIONS)
def test_what_is_written_reads_back(exposition: Exposition) -> None:
    assert read(text_of(exposition)) == exposition


def test_the_real_scrapes_read_back() -> None:
    found = Reader().read(TEXT, "text/plain")
    # Go writes families in order, too, and only labels otherwise: by name, with ``le`` at the end.
    assert read(text_of(found)) == found
    assert [line.partition("{")[0] for line in text_of(found).splitlines()] == [
        line.partition("{")[0] for line in TEXT.decode().splitlines()
    ]
    protobuf = Reader().read(PROTOBUF, PROTOBUF_TYPE)
    again = read(text_of(protobuf))
    assert again.samples == protobuf.samples
    assert again.families.keys() == protobuf.families.keys()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("info", "gauge"), ("stateset", "gauge"), ("gaugehistogram", "untyped"), ("unknown", "untyped")],
)
def test_types_that_the_format_does_not_know(kind: MetricType, expected: str) -> None:
    written = text_of(Exposition(families={"x": Family(name="x", type=kind)}, samples={}))
    assert written == f"# TYPE x {expected}\n"


def test_series_stand_with_their_family_wherever_they_were() -> None:
    exposition = Exposition(
        families={"h": Family(name="h", type="histogram", help='of "it"\n'), "my.g": Family(name="my.g", type="gauge")},
        samples={'h_bucket{le="+Inf"}': "1", '{"my.g"}': "NaN", "other": "5", "h_sum": "2", "h_count": "1"},
        native={"h": NativeHistogram(schema=0, count=1, sum="2")},
        created={"h": "17"},
    )
    written = text_of(exposition)
    assert written.splitlines() == [
        '# HELP h of "it"\\n',
        "# TYPE h histogram",
        'h_bucket{le="+Inf"} 1',
        "h_sum 2",
        "h_count 1",
        '# TYPE "my.g" gauge',
        '{"my.g"} NaN',
        "other 5",
    ]
    assert {metric.name: metric.type for metric in text_string_to_metric_families(written)} == {
        "h": "histogram",
        "my.g": "gauge",
        "other": "unknown",
    }
