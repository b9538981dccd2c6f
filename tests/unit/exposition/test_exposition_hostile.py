"""Whatever an endpoint sends, it is read or refused with an ExpositionError: no other error, and no hang."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.errors import ExpositionError
from pytest_grovescale.exposition.body import Limits
from pytest_grovescale.exposition.families import Exposition, parse
from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.exposition.text import text_of

from .samples import DATA, OPENMETRICS_TYPE, PROTOBUF, PROTOBUF_TYPE, TEXT, TEXT_TYPE

OPENMETRICS = (DATA / "everything.openmetrics").read_bytes()
TYPES = (TEXT_TYPE, OPENMETRICS_TYPE, PROTOBUF_TYPE, "")
SEEDS = (TEXT[:6000], TEXT[-6000:], PROTOBUF[:4000], PROTOBUF[20000:26000], OPENMETRICS)
WORDS = [
    *("#", " ", "HELP", "TYPE", "UNIT", "EOF", "counter", "x", "x_total", "le", "{", "}", '"', "\\", "=", ",", "\n"),
    *("1", "NaN", "+Inf", "1e999", "_", "\t", "\r", "\0", "é", "\u2028", "\ufeff", "# EOF\n", "x 1 2\n"),
    'x{a="b"} 1\n',
]


def check(body: bytes, content_type: str) -> None:
    """Read twice, as a target that sends the same again; what is read can be written, read again and parsed."""
    reader = Reader(Limits(max_series=2000))
    outcomes: list[Exposition | str] = []
    for _ in range(2):
        try:
            outcomes.append(reader.read(body, content_type))
        except ExpositionError as error:
            outcomes.append(error.message)
    found = outcomes[0]
    assert found == outcomes[1]
    if isinstance(found, str):
        assert re.match(r"(line|byte) [0-9]+: ", found)
        return
    again = reader.read(text_of(found).encode(), TEXT_TYPE)
    assert again.samples == found.samples
    assert all(parse(series).name for series in again.samples)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a real answer, damaged."""
    body = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(body)))
        end = min(len(body), begin + draw(st.integers(0, 40)))
        body[begin:end] = draw(
            st.one_of(
                st.binary(max_size=8),
                st.just(bytes(body[begin:end]) * 2),
                st.sampled_from(WORDS).map(str.encode),
            )
        )
    return bytes(body[: draw(st.integers(0, len(body)))] if draw(st.booleans()) else body)


@st.composite
def shuffled(draw: st.DrawFn) -> bytes:
    """Draw lines of real answers, in any order, some twice."""
    lines = (OPENMETRICS + TEXT[:6000]).split(b"\n")
    return b"\n".join(draw(st.lists(st.sampled_from(lines), max_size=30))) + b"\n# EOF\n"


@given(mutated(), st.sampled_from(TYPES))
def test_a_damaged_answer(body: bytes, content_type: str) -> None:
    check(body, content_type)


@given(shuffled(), st.sampled_from(TYPES))
def test_lines_in_any_order(body: bytes, content_type: str) -> None:
    check(body, content_type)


@given(st.lists(st.sampled_from(WORDS), max_size=30).map("".join), st.sampled_from(TYPES))
def test_words_of_the_format_in_any_order(body: str, content_type: str) -> None:
    check(body.encode(), content_type)
    check(f"{body}\n# EOF\n".encode(), content_type)


@given(st.binary(max_size=200), st.text(max_size=40))
def test_any_bytes_with_any_content_type(body: bytes, content_type: str) -> None:
    for known in (*TYPES, content_type):
        check(body, known)


LONG = 500_000


@pytest.mark.parametrize(
    "line",
    [
        'x{a="' + '\\"' * LONG,
        'x{a="' + "\\" * LONG + '"} 1',
        "x{" + 'a="b",' * (LONG // 8) + "} 1",
        "x{" * LONG,
        '"' * LONG,
        "x" * LONG + " 1",
        "x " + "1" * LONG,
        "x 1 " + "1" * LONG,
        "x" + " " * LONG + "1 y",
        "x{" + " " * LONG + "y} 1",
        "# TYPE " + " " * LONG + "x",
        "# HELP " + '"\\' * LONG,
        "x 1 # {" + 'a="b",' * (LONG // 8) + " 1",
        "x 1 # " + "{" * LONG,
        "{" + '"a",' * (LONG // 8) + "} 1",
    ],
    ids=lambda line: line[:12],
)
def test_a_line_without_measure(line: str) -> None:
    for content_type in (TEXT_TYPE, OPENMETRICS_TYPE):
        check(f"{line}\n# EOF\n".encode(), content_type)


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "hostile").iterdir()))
def test_a_hostile_sample_is_refused(name: str) -> None:
    """The files of tests/data/exposition/hostile: the ending says which header they came with."""
    known = {"prom": TEXT_TYPE, "openmetrics": OPENMETRICS_TYPE, "pb": PROTOBUF_TYPE, "html": "text/html"}
    with pytest.raises(ExpositionError, match=r"^(line|byte) [0-9]+: "):
        Reader().read((DATA / "hostile" / name).read_bytes(), known[name.rpartition(".")[2]])
