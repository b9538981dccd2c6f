"""Kubernetes' own endpoints under the rules: each fault has a reason, and none is a false alarm.

After a change that is meant, ``make golden`` writes it again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import surfaces

SAMPLE = Path(__file__).parents[3] / "reports" / "sample" / "metrics-lint-components.txt"


@pytest.mark.parametrize("component", surfaces.COMPONENTS)
def test_each_fault_has_one_reason(component: str) -> None:
    given = surfaces.reasons()[component]
    for problem in surfaces.linted(component).problems:
        assert sum(reason.covers(problem) for reason in given) == 1, problem


@pytest.mark.parametrize("component", surfaces.COMPONENTS)
def test_each_reason_has_a_fault(component: str) -> None:
    problems = surfaces.linted(component).problems
    for reason in surfaces.reasons()[component]:
        assert any(reason.covers(problem) for problem in problems), reason


@pytest.mark.parametrize("component", surfaces.COMPONENTS)
def test_it_is_read_whole(component: str) -> None:
    served, faults = surfaces.surface(component)
    assert [fault for fault in faults if fault.rule != "type"] == []
    assert set(served.by_family()) <= set(served.families)


def test_the_sample_says_so(writes_golden_files: bool) -> None:
    parts = [surfaces.heading(), *("\n".join(surfaces.reported(component)) for component in surfaces.COMPONENTS)]
    text = "\n\n".join(parts) + "\n"
    if writes_golden_files:
        SAMPLE.write_text(text, encoding="utf-8")
    assert SAMPLE.read_text(encoding="utf-8") == text
