"""Numbers in words: three figures, a unit, no exponent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.report import format


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.00004, "0.00004"), (0.000123, "0.000123"),
        (0.00123, "0.0012"), (0.0123, "0.0123"), (0.1, "0.100"), (0.9996, "1.00"), (1, "1.00"),
        (9.999, "10.0"), (12.34, "12.3"), (99.96, "100"), (123.4, "123"), (12345, "12,345"), (-2.5, "-2.50"),
    ],
)  # fmt: skip
def test_three_figures(value: float, text: str) -> None:
    assert format.three(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"), (0.0004, "0.400 ms"), (0.412, "412 ms"), (0.9996, "1.00 s"), (3.417, "3.42 s"), (59.96, "60.0 s"),
        (119.96, "2m00s"), (125, "2m05s"), (3599.6, "1h00m00s"), (7325, "2h02m05s"),
    ],
)  # fmt: skip
def test_times(value: float, text: str) -> None:
    assert format.seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(96_400_000, "96.4 MB"), (999_600_000, "1.00 GB"), (24e9, "24.0 GB")])
def test_sizes(value: float, text: str) -> None:
    assert format.bytes_(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 %"), (0.973, "97 %"), (0.0341, "3.4 %"), (0.00021, "0.02 %")])
def test_shares(value: float, text: str) -> None:
    assert format.percent(value) == text


@given(st.floats(0.001, 1e9))
def test_three_figures_are_within_half_a_unit_of_the_third(value: float) -> None:
    shown = float(format.three(value).replace(",", ""))
    assert abs(shown - value) <= value * 0.0051 or abs(shown - value) < 0.00006


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not any(ord(letter) < 32 and letter != "\n" for letter in format.plain(text))
    assert "\x1b" not in format.plain(text)


@pytest.mark.parametrize(
    ("encoding", "shown"), [("ascii", "2 x AMD\n-> ? ?"), ("latin-1", "2 × AMD\n-> ? ?"), ("utf-8", "2 × AMD\n→ 日 ?")]
)
def test_lines_stay_lines_where_the_terminal_lacks_a_character(encoding: str, shown: str) -> None:
    assert format.encodable("2 × AMD\n→ 日 \udc80", encoding) == shown
