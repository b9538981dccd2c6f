"""Numbers as Go writes them, and which words are numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.exposition.text import NUMBER, written

from .samples import canonical


@pytest.mark.parametrize(
    ("value", "expected"),
    [  # strconv.FormatFloat(value, 'g', -1, 64)
        (0.0, "0"),
        (-0.0, "0"),  # expfmt writes this one so
        (1.0, "1"),
        (-1.5, "-1.5"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (-10958704.0, "-1.0958704e+07"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (0.000012345, "1.2345e-05"),
        (9.223372036854776e18, "9.223372036854776e+18"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (0.1 + 0.2, "0.30000000000000004"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, expected: str) -> None:
    assert written(value) == expected


@given(st.floats())
def test_a_number_reads_back_the_same(value: float) -> None:
    assert canonical(float(written(value))) == canonical(value)
    assert re.fullmatch(NUMBER, written(value))


@pytest.mark.parametrize("word", ["1", "+1", "-1.", ".5", "1e5", "1E-05", "inf", "+Inf", "-INFINITY", "nan", "NaN"])
def test_these_are_numbers(word: str) -> None:
    assert re.fullmatch(NUMBER, word)
    float(word)


@pytest.mark.parametrize(
    "word", ["", "+", ".", "1e", "1_0", "0x1p-2", "١", "1 ", "e5", "infinit", "--1", "1,5", "-nan"]
)
def test_these_are_none(word: str) -> None:
    assert not re.fullmatch(NUMBER, word)
