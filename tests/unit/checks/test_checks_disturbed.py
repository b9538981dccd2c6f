"""A measurement whose turn was lost decides nothing: others may have used the cluster meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import TURN_LOST, analyse, merge
from pytest_grovescale.analysis.baseline import usable
from pytest_grovescale.checks import Cpu, NoopReads, NoopWrites
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.recording import records as rec
from pytest_grovescale.report import run_report
from tests.unit.analysis.simulated import full_run

from .noop_run import NoopRun, in_words

WHY = "it was not renewed for 31 s, and somebody else took one"


def test_the_recordings_mark_reports_it(snapshot: SnapshotAssertion) -> None:
    records = full_run(3).records()
    mark = rec.Mark(at=records[-2].at, label=TURN_LOST, detail=WHY)
    test = analyse([*records[:-1], mark, records[-1]])
    assert test.disturbed == WHY
    shown = run_report.render_test(test, width=140).splitlines()
    assert "\n".join(line.strip() for line in shown if WHY in line) == snapshot
    assert not usable(merge([test]))
    assert analyse(records).disturbed == ""


@pytest.mark.parametrize("check", [NoopWrites(), NoopReads(max=3), Cpu("deploy", max="1h")], ids=in_words)
def test_no_check_is_decided(check: Any, snapshot: SnapshotAssertion) -> None:
    test = NoopRun().result()
    assert judge(check, Run(test)).verdict == "pass"
    found = judge(check, Run(msgspec.structs.replace(test, disturbed=WHY)))
    assert found.verdict == "inconclusive"
    assert WHY in found.text
    assert found.text == snapshot
