"""What a phase may ask for as its profiler, and what is refused."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.errors import UsageError
from pytest_grovescale.recording.protocol import Profiler
from pytest_grovescale.scenario.running_phase import profiler_of


@pytest.mark.parametrize(
    ("asked", "profiler"),
    [(True, None), (False, "off"), ("off", "off"), ("auto", "auto"), ("pyspy", "pyspy"), ("pprof", "pprof")],
)
def test_a_phase_names_its_profiler_or_leaves_it_open(asked: object, profiler: Profiler | None) -> None:
    assert profiler_of("deploy", asked) == profiler


@pytest.mark.parametrize("asked", ["perf", "PPROF", "", None, 0, 1, ["pyspy"]])
def test_anything_else_is_refused(asked: object, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(UsageError, match="'deploy'") as caught:
        profiler_of("deploy", asked)
    assert repr(asked) in str(caught.value)
    assert str(caught.value) == snapshot
