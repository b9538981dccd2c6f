"""Durations: what users write, what people read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.durations import seconds, text
from pytest_grovescale.errors import UsageError


@pytest.mark.parametrize(
    ("written", "expected"),
    [("30s", 30), ("2m", 120), ("1h30m", 5400), ("250ms", 0.25), ("1.5m", 90), ("7", 7), (7, 7), (0.5, 0.5)],
)
def test_seconds(written: str | float, expected: float) -> None:
    assert seconds(written) == expected


@pytest.mark.parametrize("written", ["", "s", "-1s", "3 apples", "1d", -1, True, "1m 2"])
def test_what_is_no_duration_is_reported_how_to_write_one(written: str | float) -> None:
    with pytest.raises(UsageError) as caught:
        seconds(written)
    assert "30s" in caught.value.next_step


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0123, "12 ms"), (3.4159, "3.42 s"), (30, "30.0 s"), (119.94, "119.9 s"), (125, "2m05s"), (3600, "60m00s")],
)
def test_text(value: float, expected: str) -> None:
    assert text(value) == expected


@given(st.integers(0, 10**6))
def test_whole_seconds_survive(value: int) -> None:
    assert seconds(f"{value}s") == value
