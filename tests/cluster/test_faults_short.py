"""Four runs that are broken on purpose, each in namespaces of its own: nothing left, nothing lost, the right message,
and the next run passes. ``make faults`` has many more."""

from __future__ import annotations

import pytest

from tools.faults import catalogue
from tools.faults.__main__ import SMALL, run

pytestmark = pytest.mark.cluster

_PATIENCE = 3.0
"""The tests beside this one have their share of the cores."""


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param({"damaged-cache"}, id="cache"),
        # What these do to a run has tests of its own in tests/plugin: test_faults, test_full_disk, test_interrupts.
        pytest.param({"kill-supervisor", "full-disk-reports", "interrupt"}, id="others", marks=pytest.mark.long),
    ],
)
def test_the_short_list_of_faults_is_perfect(kinds: set[str]) -> None:
    faults = [fault for fault in catalogue.short_list() if fault.kind in kinds]
    assert len(faults) == len(kinds)
    rows = [row for row, _ in run(faults, SMALL, lanes=2, patience=_PATIENCE)]
    if skipped := {row.skipped for row in rows if row.skipped}:
        pytest.skip("; ".join(sorted(skipped)))
    assert [f"{row.fault.text}: {why}" for row in rows for why in row.reasons] == []
