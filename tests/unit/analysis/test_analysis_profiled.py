"""A profiled recording's CPU figures are not to be had: they hold what the profilers cost."""

from __future__ import annotations

import msgspec
import pytest

from pytest_grovescale.analysis import figures
from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.errors import NotMeasuredError
from pytest_grovescale.recording.records import AnyRecord, Opened

from .simulated import full_run


def as_profiled(record: AnyRecord) -> AnyRecord:
    return msgspec.structs.replace(record, profiled=True) if isinstance(record, Opened) else record


def test_a_profiled_phase_has_no_cpu_figure_and_all_others() -> None:
    records = list(full_run(10).records())
    measured, profiled = analyse(records), analyse([as_profiled(record) for record in records])
    assert (measured.profiled, profiled.profiled) == (False, True)
    for before, after in zip(measured.phases, profiled.phases, strict=True):
        assert (before.profiled, after.profiled) == (False, True)
        assert figures.cpu(before, "operator").seconds > 0
        with pytest.raises(NotMeasuredError, match="was profiled"):
            figures.cpu(after, "operator")
    assert figures.api(profiled.phases[0], "operator").requests == figures.api(measured.phases[0], "operator").requests
