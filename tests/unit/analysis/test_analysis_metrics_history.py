"""A target's history, from an endpoint's bytes through the journal: every scrape comes back as it was read."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.metrics.history import TargetHistory, history_of
from pytest_grovescale.analysis.metrics.snapshot import surface_of
from pytest_grovescale.errors import NotMeasuredError
from pytest_grovescale.exposition.families import Exposition, Family, NativeHistogram
from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.recording.records import AnyRecord, PhaseEnded, PhaseStarted, SourceFailed, TargetGone
from pytest_grovescale.recording.scraping.target import NOTHING, changes

DATA = Path(__file__).parents[2] / "data" / "exposition"
TEXT = (DATA / "controller_runtime_head.prom").read_text().splitlines(keepends=True)
PROTOBUF = (DATA / "controller_runtime_head.pb").read_bytes()
OPENMETRICS = (DATA / "everything.openmetrics").read_text()
WORK = "controller_runtime_reconcile_time_seconds"


def messages(body: bytes) -> list[bytes]:
    """Return the families of a protobuf answer, each with its length."""
    found, at = [], 0
    while at < len(body):
        begin, size, shift = at, 0, 0
        while body[at] >= 0x80:
            size, shift, at = size | (body[at] & 0x7F) << shift, shift + 7, at + 1
        size, at = size | body[at] << shift, at + 1
        at += size
        found.append(body[begin:at])
    return found


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, str]:
    """Draw what one and the same endpoint may answer at one time: parts of a real answer, with other values."""
    match draw(st.sampled_from(["text", "protobuf", "openmetrics"])):
        case "text":
            begin = draw(st.integers(0, len(TEXT) - 60))
            value = draw(st.sampled_from(["0", "64", "1.5e+06", "NaN", "+Inf"]))
            lines = TEXT[begin : begin + draw(st.integers(0, 60))]
            return "".join(re.sub(r" [^ ]*7[^ ]*\n$", f" {value}\n", line) for line in lines).encode(), "text/plain"
        case "protobuf":
            parts = draw(st.lists(st.sampled_from(messages(PROTOBUF)), max_size=8, unique=True))
            return b"".join(parts), "application/vnd.google.protobuf"
        case _:
            value = draw(st.sampled_from(["17", "18"]))
            return OPENMETRICS.replace(" 17", f" {value}").encode(), "application/openmetrics-text"


def journaled(records: list[AnyRecord]) -> list[AnyRecord]:
    decoder = msgspec.json.Decoder(AnyRecord)
    return [decoder.decode(msgspec.json.encode(record)) for record in records]


def recorded(scrapes: list[Exposition]) -> TargetHistory:
    pairs = itertools.pairwise([NOTHING, *scrapes])
    journal_records: list[AnyRecord] = [
        changes(last, found, target="t", at=at) for at, (last, found) in enumerate(pairs)
    ]
    return history_of(journaled(journal_records)).target("t")


def plain(samples: dict[str, float]) -> dict[str, str]:
    return {series: "NaN" if math.isnan(value) else repr(value) for series, value in samples.items()}


@settings(max_examples=60)
@given(st.lists(answers(), min_size=1, max_size=5))
def test_every_scrape_comes_back(bodies: list[tuple[bytes, str]]) -> None:
    reader = Reader()
    scrapes = [reader.read(*body) for body in bodies]
    target = recorded(scrapes)
    for number, found in enumerate(scrapes):
        served = surface_of(found, target="t")
        assert plain(target.samples(number)) == plain(served.samples)
        native = {series: target.histogram(series, number) for series in target.histograms}
        assert {series: buckets for series, buckets in native.items() if buckets is not None} == found.native
    # What a series said of its creation, as often as it said something new.
    for series in {series for found in scrapes for series in found.created}:
        created = [float(found.created[series]) for found in scrapes if series in found.created]
        known = [time for _, time in target.created[series]]
        assert (known[0], known[-1]) == (created[0], created[-1])
        assert set(known) == set(created)
    # A family is known by what was said of it last.
    described = {name: family for found in scrapes for name, family in found.families.items()}
    assert target.families == described
    assert target.native == {series.partition("{")[0] for found in scrapes for series in found.native}


def test_native_histograms_are_followed_through_a_phase() -> None:
    def scrape(**positive: int) -> Exposition:
        buckets = {int(index[1:]): float(count) for index, count in positive.items()}
        native = NativeHistogram(schema=3, count=sum(buckets.values()), sum="1", positive=buckets)
        return Exposition(families={WORK: Family(name=WORK, type="histogram")}, samples={}, native={WORK: native})

    target = recorded([scrape(b1=1), scrape(b1=1), scrape(b1=1, b2=3), NOTHING, scrape(b1=1)])
    assert [scrape for scrape, _ in target.histograms[WORK]] == [0, 2, 3, 4]
    of_each = [target.histogram(WORK, scrape) for scrape in range(5)]
    assert [found and found.positive for found in of_each] == [{1: 1.0}, {1: 1.0}, {1: 1.0, 2: 3.0}, None, {1: 1.0}]
    assert target.histogram("other", 0) is None


def test_a_target_that_was_given_up_starts_from_nothing() -> None:
    found = Reader().read(PROTOBUF, "application/vnd.google.protobuf")
    less = Exposition(families={}, samples={"up": "1"})
    journal_records: list[AnyRecord] = [
        changes(NOTHING, found, target="t", at=1),
        TargetGone(at=2, target="t"),
        changes(NOTHING, less, target="t", at=3),
    ]
    target = history_of(journaled(journal_records)).target("t")
    assert target.samples(1) == {"up": 1.0}
    assert {target.histogram(series, 1) for series in target.histograms} == {None}
    assert all(target.histogram(series, 0) for series in found.native)


def test_scrapes_belong_to_phases_and_failures_stand_beside_them(snapshot: SnapshotAssertion) -> None:
    found = Exposition(families={}, samples={"up": "1"})
    journal_records: list[AnyRecord] = [
        changes(NOTHING, found, target="t", at=1, edge="start:deploy"),
        PhaseStarted(at=2, phase="deploy", timeout_ns=1),
        changes(found, found, target="t", at=3),
        SourceFailed(at=4, source="scrape:t", message="no answer within 5 s"),
        changes(found, found, target="t", at=5, edge="end:deploy"),
        PhaseEnded(at=6, phase="deploy", outcome="passed"),
        changes(found, found, target="t", at=7),
    ]
    history = history_of(journaled(journal_records))
    target = history.target("t")
    assert (target.of_phase("deploy"), target.of_phase("other")) == ([0, 1, 2], [])
    assert list(target.values("up")) == [1.0] * 4
    assert target.failures == [(4, "no answer within 5 s")]
    with pytest.raises(NotMeasuredError, match="'u'") as caught:
        history.target("u")
    assert str(caught.value) == snapshot


def test_a_target_that_never_answered_has_no_surface(snapshot: SnapshotAssertion) -> None:
    failure = SourceFailed(at=4, source="scrape:t", message="no answer within 5 s")
    with pytest.raises(NotMeasuredError, match=failure.message) as caught:
        history_of([failure]).target("t").surface()
    assert str(caught.value) == snapshot
