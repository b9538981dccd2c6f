"""What the journal holds of a scrape: only what changed, and enough to have every scrape back exactly."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale import redaction
from pytest_grovescale.analysis.metrics.history import MetricsHistory
from pytest_grovescale.analysis.recording_index import Contents
from pytest_grovescale.exposition.families import Exposition, Family, NativeHistogram
from pytest_grovescale.recording.records import AnyRecord, PhaseStarted, Scraped, TargetGone
from pytest_grovescale.recording.scraping.target import NOTHING, Redaction, changes

SERIES = st.sampled_from(["a", "b", 'c{x="1"}', 'c{x="2"}', "h_count", "h", "t_total"])
VALUES = st.sampled_from(["0", "1", "1.0", "-0", "1e300", "NaN", "+Inf", "-Inf", "0.1", "5e-324"])
FAMILIES = st.builds(
    Family, name=st.just(""), type=st.sampled_from(["counter", "gauge"]), help=st.sampled_from(["", "of it"])
)
NATIVE = st.builds(
    NativeHistogram,
    schema=st.integers(-4, 8),
    count=st.floats(0, 10),
    sum=VALUES,
    positive=st.dictionaries(st.integers(-3, 3), st.floats(1, 9), max_size=2),
)


@st.composite
def expositions(draw: st.DrawFn) -> Exposition:
    families = draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), FAMILIES, max_size=3))
    return Exposition(
        families={name: msgspec.structs.replace(family, name=name) for name, family in families.items()},
        samples=draw(st.dictionaries(SERIES, VALUES)),
        native=draw(st.dictionaries(st.sampled_from(["h", "n", 'c{x="1"}']), NATIVE)),
        created=draw(st.dictionaries(st.sampled_from(["h", "t_total", "u_total"]), st.sampled_from(["1", "2.5"]))),
    )


def recorded(scrapes: list[Exposition], *, gone_before: int = -1) -> list[AnyRecord]:
    """Return the journal's records of these scrapes; the target is given up and taken up again before one."""
    records: list[AnyRecord] = []
    last = NOTHING
    for number, found in enumerate(scrapes):
        if number == gone_before:
            records.append(TargetGone(at=number, target="t"))
            last = NOTHING
        records.append(changes(last, found, target="t", at=number))
        last = found
    decoder = msgspec.json.Decoder(AnyRecord)
    return [decoder.decode(msgspec.json.encode(record)) for record in records]


def plain(values: dict[str, str] | dict[str, float]) -> dict[str, str]:
    """Return values as they compare: NaN equals itself, -0 is not 0."""
    return {series: "NaN" if math.isnan(float(value)) else repr(float(value)) for series, value in values.items()}


@given(st.lists(expositions(), max_size=6), st.integers(-1, 5))
def test_any_scrape_is_rebuilt_exactly(scrapes: list[Exposition], gone_before: int) -> None:
    """By the rule that `records.Scraped` states: take out what is gone, then put in what is told."""
    samples: dict[str, str] = {}
    families: dict[str, Family] = {}
    native: dict[str, NativeHistogram] = {}
    created: dict[str, str] = {}
    rebuilt = []
    for record in recorded(scrapes, gone_before=gone_before):
        if isinstance(record, TargetGone):
            for values in (samples, families, native, created):
                values.clear()
            continue
        assert isinstance(record, Scraped)
        for series in record.gone:
            for values in (samples, native, created):
                values.pop(series, None)
        for name in record.families_gone:
            del families[name]
        samples |= {series: repr(value) for series, value in record.samples.items()} | record.special
        families |= record.families
        native |= record.native
        created |= record.created
        rebuilt.append(
            Exposition(families=dict(families), samples=plain(samples), native=dict(native), created=dict(created))
        )
    assert rebuilt == [msgspec.structs.replace(found, samples=plain(found.samples)) for found in scrapes]


@given(st.lists(expositions(), max_size=6), st.integers(-1, 5))
def test_the_analysis_has_every_scrape_back(scrapes: list[Exposition], gone_before: int) -> None:
    history = MetricsHistory()
    for record in recorded(scrapes, gone_before=gone_before):
        history.feed(record)
    if not scrapes:
        return
    target = history.target("t")
    assert [plain(target.samples(number)) for number in range(len(scrapes))] == [
        plain(found.samples) for found in scrapes
    ]
    for series in target.series:
        of_each = [None if (text := found.samples.get(series)) is None else plain({"": text})[""] for found in scrapes]
        assert [None if value is None else plain({"": value})[""] for value in target.values(series)] == of_each


@given(st.lists(expositions(), min_size=2, max_size=6), st.integers(1, 5))
def test_a_phase_knows_how_many_series_were_served_at_its_edges(scrapes: list[Exposition], gone_before: int) -> None:
    """Whatever was scraped between them."""
    contents = Contents()
    scraped = recorded(scrapes, gone_before=gone_before)
    contents.feed(_at_edge(scraped[0], "start:p"))
    contents.feed(PhaseStarted(at=0, phase="p", timeout_ns=1))
    for record in scraped[1:-1]:
        contents.feed(record)
    contents.feed(_at_edge(scraped[-1], "end:p"))
    (phase,) = contents.phases
    assert (phase.scrape_start["t"].served, phase.scrape_end["t"].served) == (
        len(scrapes[0].samples),
        len(scrapes[-1].samples),
    )


def _at_edge(record: AnyRecord, edge: str) -> AnyRecord:
    assert isinstance(record, Scraped)
    return msgspec.structs.replace(record, edge=edge)


@given(expositions(), expositions())
def test_what_has_not_changed_is_not_reported(first: Exposition, second: Exposition) -> None:
    again = changes(first, first, target="t", at=1)
    assert again == Scraped(at=1, target="t")
    reported = changes(first, second, target="t", at=1)
    for series in reported.samples.keys() | reported.special.keys():
        assert first.samples.get(series) != second.samples[series] or series in reported.gone


def test_a_value_written_otherwise_is_reported_again() -> None:
    first, second = (Exposition(families={}, samples={"a": text, "b": "NaN"}) for text in ("1", "1.0"))
    assert changes(first, second, target="t", at=1).samples == {"a": 1.0}


def test_of_series_that_differ_in_a_credential_one_stands_until_both_are_gone() -> None:
    redacted = Redaction()
    one, other = (f'a{{t="{"eyJ" + letter * 20}.{"b" * 20}"}}' for letter in "xy")
    blotted = 'a{t="[redacted]"}'
    said = [{one: "1", other: "2"}, {other: "2"}, {}]
    found = [redacted(Exposition(families={}, samples=samples)) for samples in said]
    assert [exposition.samples for exposition in found] == [{blotted: "2"}, {blotted: "2"}, {}]


def test_names_of_secrets_are_none_and_what_has_no_words_is_one() -> None:
    names = [f'kube_secret_info{{secret="{name}"}}' for name in ("default-token-lz7m5", "shop-tls", "sh.helm.v1.shop")]
    secrets = [f'opened_total{{secret="{value}"}}' for value in ("hunter2", "Zk3vQ9xW7mB1", "s3cr3tpassword-x")]
    found = Redaction()(Exposition(families={}, samples=dict.fromkeys([*names, *secrets], "1")))
    assert [*found.samples] == [*names, 'opened_total{secret="[redacted]"}']


LABELS = st.lists(
    st.sampled_from(
        [
            'verb="GET"', 'le="0.5"', 'name="password"', 'name="pod-1"', 'key="api_token"', 'value="hunter22"',
            'token="abcd1234"', 'url="https://user:word@host/x"', 'text="a, b=\\"c\\""', 'password="p,\\"q"',
        ]
    ),
    max_size=4,
    unique=True,
)  # fmt: skip


@given(st.lists(LABELS, max_size=6))
def test_the_names_of_many_series_are_redacted_as_each_would_be(series: list[list[str]]) -> None:
    redacted = Redaction()
    for number, labels in enumerate(series):
        name = f"requests_total{{{','.join(labels)}}}"
        found = redacted(Exposition(families={}, samples={name: str(number)}))
        assert list(found.samples) == [redaction.value(name)]
