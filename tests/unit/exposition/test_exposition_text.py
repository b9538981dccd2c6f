"""The text format: as prometheus_client reads it, wrong answers refused with their line, known series looked up."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import ExpositionError
from pytest_grovescale.exposition.body import Limits
from pytest_grovescale.exposition.families import Exposition, Family, MetricType, text
from pytest_grovescale.exposition.reader import Reader

from . import client
from .samples import LABELS, NAMES, TEXT, TEXTS, UTF8_LABELS, UTF8_NAMES, VALUES, escaped


def read(body: str) -> Exposition:
    return Reader().read(body.encode(), "text/plain")


BLANK = st.sampled_from([" ", "  ", "\t"])
STAMPS = st.one_of(st.just(""), st.integers(-(2**62), 2**62).map(str))
# prometheus_client takes the blanks around a help text away, and Python's idea of a blank is wide.
HELPS = TEXTS.map(str.strip)


@st.composite
def texts(draw: st.DrawFn, *, utf8: bool = False) -> str:
    """Draw a text as an endpoint may write it: families in groups, any blanks, any order of labels."""
    lines = ["# a comment", "", "#HELP is no HELP"]
    names, labels = (UTF8_NAMES, UTF8_LABELS) if utf8 else (NAMES, LABELS)
    # Names that end as samples' names do could belong to two families.
    plain = names.filter(lambda name: not name.endswith(("_total", "_sum", "_count", "_bucket")))
    for name in draw(st.lists(plain, max_size=5, unique=True)):
        kind = draw(st.sampled_from(["counter", "gauge", "histogram", "summary", "untyped", ""]))
        name += "_total" if kind == "counter" and draw(st.booleans()) else ""
        quoted = name if text(name, {}) == name else f'"{escaped(name)}"'
        if draw(st.booleans()):
            help_text = draw(HELPS).replace("\\", "\\\\").replace("\n", "\\n")
            lines.append(f"#{draw(BLANK)}HELP{draw(BLANK)}{quoted} {help_text}")
        if kind:
            lines.append(f"# TYPE {quoted} {kind}")
        suffixes = {"histogram": ["_bucket", "_sum", "_count"], "summary": ["", "_sum", "_count"]}.get(kind, [""])
        for pairs in draw(st.lists(st.dictionaries(labels, TEXTS, max_size=3), max_size=4, unique_by=repr)):
            for suffix in suffixes:
                series = draw(written_series(name + suffix, pairs))
                stamp = draw(STAMPS)
                lines.append(f"{series}{draw(BLANK)}{draw(VALUES)}{draw(BLANK) if stamp else ''}{stamp}")
    return "\n".join(lines) + "\n"


@st.composite
def written_series(draw: st.DrawFn, name: str, labels: dict[str, str]) -> str:
    parts = [
        f"{key if text('x', {key: ''}).startswith(f'x{{{key}=') else quoted(key)}{draw(GAP)}={draw(GAP)}{quoted(value)}"
        for key, value in draw(st.permutations(list(labels.items())))
    ]
    if text(name, {}) != name:
        return "{" + ", ".join([quoted(name), *parts]) + "}"
    if not parts:
        return name + draw(st.sampled_from(["", "{}"]))
    return f"{name}{draw(GAP)}{{{draw(GAP)}{', '.join(parts)}{draw(st.sampled_from(['', ',']))}}}"


GAP = st.sampled_from(["", " "])


def quoted(value: str) -> str:
    return f'"{escaped(value)}"'


@given(texts())
def test_any_valid_text_is_read_as_prometheus_client_reads_it(body: str) -> None:
    reader = Reader()
    found = reader.read(body.encode(), "text/plain")
    assert client.ours(found) == client.of_text(body, found)
    # Once more, with what it has learned.
    assert reader.read(body.encode(), "text/plain") == found


@given(texts(utf8=True))
def test_names_in_quotes_are_read_as_prometheus_client_reads_them(body: str) -> None:
    """Left out are texts that prometheus_client is wrong about.

    It refuses labels that begin with two underscores; Prometheus has no such rule for quoted ones.
    """
    try:
        by_client = client.of_text(body, found := read(body))
    except ValueError:
        assert "__" in body
    else:
        assert client.ours(found) == by_client


def test_the_real_scrape_is_read_as_prometheus_client_reads_it() -> None:
    found = Reader().read(TEXT, "text/plain")
    assert client.ours(found) == client.of_text(TEXT.decode(), found)
    assert (len(found.families), len(found.samples)) == (171, 636)


def test_a_gauge_and_a_counter_of_one_stem_stay_two_families() -> None:
    families = Reader().read(TEXT, "text/plain").families
    assert families["go_memstats_alloc_bytes"].type == "gauge"
    assert families["go_memstats_alloc_bytes_total"].type == "counter"


def test_help_keeps_its_blanks() -> None:
    """As in Prometheus: one blank parts it from the name, the rest belongs to it. prometheus_client strips."""
    assert read("# HELP x  two \n").families["x"].help == " two "
    assert read('# HELP x a \\"b\\" \\\\ \\n \\t\n').families["x"].help == 'a \\"b\\" \\ \n \\t'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("# TYPE x counter\n# TYPE x gauge\nx 1\n", "gauge"),
        ("# TYPE x counter\nx 1\n# TYPE x gauge\n", "gauge"),
        ('# TYPE x counter\nx 1\ny 2\n# TYPE x gauge\nx{a="1"} 1\n', "gauge"),
        ("# TYPE x gauge\n# TYPE x gauge\nx 1\n", "gauge"),
        ("x 1\n# TYPE x untyped\n", "unknown"),
    ],
)
def test_a_family_is_what_its_last_type_line_says(body: str, kind: MetricType) -> None:
    assert read(body).families == {"x": Family(name="x", type=kind)}


def test_a_family_may_have_no_sample_and_a_sample_no_family() -> None:
    found = read("# TYPE x counter\ny 1\n")
    assert (list(found.families), list(found.samples)) == (["x"], ["y"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('x{b="1", a = "2" ,} 3 1395066363000\r\n', {'x{a="2",b="1"}': "3"}),
        ("  x\t 1e5 \n", {"x": "1e5"}),
        ('x{}1\n{"my.metric"} 2\n', {"x": "1", '{"my.metric"}': "2"}),
        ('{a="1","my.metric"} 2\n', {'{"my.metric",a="1"}': "2"}),
        ('x{a="}{ # ,=\\"\\\\\\n\\t"} NaN\n', {'x{a="}{ # ,=\\"\\\\\\n\\\\t"}': "NaN"}),
        ("", {}),
        ("\n \n# HELP\n# HELP \n# HELPER 1\n# TYPES of all\n#TYPE\n#\n # x\n", {}),
    ],
)
def test_what_prometheus_allows(body: str, expected: dict[str, str]) -> None:
    assert read(body).samples == expected


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "x y",
        "x 1 2 3",
        "x 1 2.5",
        "x 1_000",
        "x ١",
        "x 1\u00a0",
        "x 0x1p2",
        "1x 1",
        '{a="b"} 1',
        '{"x","y"} 1',
        'x{"y"} 1',
        '{""} 1',
        "x{a=b} 1",
        'x{a="b" 1',
        'x{a="b"c="d"} 1',
        'x{a="b",a="c"} 1',
        'x{a="b",,c="d"} 1',
        'x{,a="b"} 1',
        "x{a} 1",
        'x{a="b} 1',
        'x{a="b\\"} 1',
        'x{=""} 1',
        'x{""="b"} 1',
        'x{__name__="y"} 1',
        'x{é="y"} 1',
        "<html>",
        '{"metrics": 1}',
        "\x00\x01\x02 1",
        "# TYPE x",
        "# TYPE x ",
        "# TYPE x bogus",
        "# TYPE x Counter",
        "# TYPE 1x gauge",
        '# TYPE "" gauge',
        "# TYPE",
        " # TYPE x",
        "# HELP 1x help",
        "x+1",
        "x{} 1\nx 2",
        "ok 1",
        'x{a="1",b="2"} 1\nx{b="2",a="1"} 1',
        'x{a="1"} 1 1000\nx{a="1"} 1 2000',
    ],
)
@pytest.mark.parametrize("learned", [False, True])
def test_anything_else_is_refused_with_its_line(line: str, learned: bool) -> None:
    reader = Reader()
    if learned:
        reader.read(b'ok 1\nx 1\nx{a="1",b="2"} 1\nx{a="1"} 1\n# TYPE x gauge\n', "text/plain")
    with pytest.raises(ExpositionError, match=rf"^line {2 + line.count(chr(10))}: expected "):
        reader.read(f"ok 1\n{line}\n".encode(), "text/plain")


def test_an_answer_that_was_cut_off_is_refused() -> None:
    with pytest.raises(ExpositionError, match=r"^line 2: its end is missing"):
        read("x 1\ny 12")


def test_bytes_that_are_no_utf8_are_refused(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ExpositionError, match=r"^line 2: expected UTF-8, .*0xff") as caught:
        Reader().read(b'x 1\ny{a\xff="1"} 1\n', "text/plain")
    assert str(caught.value) == snapshot


@pytest.mark.parametrize(
    ("limits", "body", "why"),
    [
        (Limits(max_series=5), "".join(f"x{n} 1\n" for n in range(6)), "line 6: more than 5 series"),
        (
            Limits(max_series=5),
            "".join(f"# TYPE x{n} gauge\n" for n in range(6)),
            "line 6: expected at most 5 families",
        ),
        (Limits(max_series=5), "\n" * 21, "line 20: the answer has 21 lines"),
        (Limits(max_labels_per_series=2), 'x{a="1",b="2",c="3"} 1\n', "line 1: expected at most 2 labels"),
        (Limits(max_value_length=5), 'x{a="123456"} 1\n', "line 1: expected at most 5 .* label"),
        (Limits(max_value_length=5), 'x{abcdef="1"} 1\n', "line 1: expected at most 5 .* label"),
        (Limits(max_value_length=5), "abcdef 1\n", "line 1: expected at most 5 .* name"),
        (Limits(max_value_length=9), "# HELP x 1\n", "line 1: expected at most 9 "),
        (Limits(max_value_length=5), "x 123456\n", "line 1: .*number .* 5 "),
        (Limits(max_line_length=9), 'x{a="12"} 1\n', "line 1: expected at most 9 .* line"),
        (Limits(max_bytes=5), "x 1234\n", "byte 5: .*at most 5 bytes"),
    ],
    ids=[
        "series", "families", "lines", "labels", "value of a label", "name of a label", "name", "comment", "number",
        "line", "bytes",
    ],
)  # fmt: skip
def test_more_than_allowed_is_refused(limits: Limits, body: str, why: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ExpositionError, match=f"^{why}") as caught:
        Reader(limits).read(body.encode(), "text/plain")
    assert str(caught.value) == snapshot


def test_as_much_as_allowed_is_read() -> None:
    limits = Limits(max_series=5, max_labels_per_series=2, max_value_length=5, max_bytes=500)
    body = "".join(f'x{{a="12345",b="{n}"}} 12345\n' for n in range(5))
    assert len(Reader(limits).read(body.encode(), "text/plain").samples) == 5


def test_known_series_over_the_limit_are_refused_too() -> None:
    reader = Reader(Limits(max_series=5))
    for part in ("abcde", "fghij"):
        reader.read("".join(f"{name} 1\n" for name in part).encode(), "text/plain")
    with pytest.raises(ExpositionError, match="more than 5 series"):
        reader.read("".join(f"{name} 1\n" for name in "abcdef").encode(), "text/plain")


@pytest.mark.parametrize("valid", [True, False])
def test_memory_does_not_grow_with_what_comes_and_goes(valid: bool) -> None:
    reader = Reader()
    for round_ in range(50):
        body = "".join(f'x{{pod="{round_}-{n}"}} {round_}{n}\n' for n in range(100)) + ("" if valid else "x\n")
        try:
            reader.read(body.encode(), "text/plain")
        except ExpositionError:
            assert not valid
    lines = reader._text._lines
    assert max(len(lines._series), len(lines._numbers)) < 2000


def test_what_did_not_change_is_the_same_object() -> None:
    """So that whoever compares two scrapes need not look at 171 families."""
    reader = Reader()
    first = reader.read(TEXT, "text/plain")
    assert reader.read(TEXT + b"more 1\n", "text/plain").families is first.families
    assert reader.read(TEXT + b"# HELP more x\n", "text/plain").families is not first.families


@given(st.lists(st.sampled_from(["x 1", "x 2", 'x{a="1"} 1', "y 1", "# TYPE x gauge", "# TYPE y gauge"]), max_size=4))
@example(["x 1", "x 1"])
def test_what_was_learned_changes_no_answer(lines: list[str]) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    learned = Reader()
    learned.read(b'x 1\ny 2\nx{a="1"} 1\n# TYPE x gauge\n', "text/plain")

    def outcome(reader: Reader) -> Exposition | str:
        try:
            return reader.read(body, "text/plain")
        except ExpositionError as error:
            return str(error)

    assert outcome(learned) == outcome(Reader())
