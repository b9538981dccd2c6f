"""What becomes of a test whose turn was lost while it measured: a failure, or a warning where the options say so."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import CheckInconclusive, InconclusiveWarning
from pytest_grovescale.session import budget_enforcement


class Warned:
    """A test's item, as far as it takes warnings."""

    def __init__(self) -> None:
        self.warnings: list[Warning] = []

    def warn(self, warning: Warning) -> None:
        self.warnings.append(warning)


def test_a_lost_turn_fails_the_test(snapshot: SnapshotAssertion) -> None:
    item: Any = Warned()
    with pytest.raises(CheckInconclusive, match="it slept") as caught:
        budget_enforcement.disturbed(item, "it slept", inconclusive="fail")
    assert str(caught.value) == snapshot
    assert item.warnings == []


def test_a_lost_turn_warns_where_that_is_enough(snapshot: SnapshotAssertion) -> None:
    item: Any = Warned()
    budget_enforcement.disturbed(item, "it slept", inconclusive="warn")
    (warning,) = item.warnings
    assert isinstance(warning, InconclusiveWarning)
    assert "it slept" in str(warning)
    assert str(warning) == snapshot
