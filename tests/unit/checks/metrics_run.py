"""A scraped run in a test: an endpoint's answers and the objects that came, judged by a check of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_grovescale.analysis.metrics.history import history_of
from pytest_grovescale.analysis.result import CheckResult, FunctionRow, PhaseResult, ProfileResult, TestResult
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec
from tests.unit.analysis.endpoint import Endpoint, at
from tests.unit.analysis.simulated import MACHINE

PODS = WatchSpec(resource="pods", path="/api/v1/pods", fields=())


def judged(
    check: Any, endpoint: Endpoint | None, *, objects: Iterable[rec.AnyRecord] = (), **facts: Any
) -> CheckResult:
    """Return what a check says of an endpoint that was scraped while objects came."""
    scraped = endpoint.records if endpoint is not None else []
    records = sorted([*objects, *scraped], key=lambda record: record.at)
    return judge(check, run(**facts), metrics=lambda: history_of(records))


def said(check: Any, endpoint: Endpoint | None, **facts: Any) -> str:
    """Return the verdict and its line: ``fail: series of operator: 7, at most 3``."""
    found = judged(check, endpoint, **facts)
    return f"{found.verdict}: {found.text}"


def run(*, functions: Sequence[str] = (), objects_resource: str = "") -> TestResult:
    """Return a run whose operator's profile has these functions."""
    rows = tuple(
        FunctionRow(function=name, module="m.py", self_samples=1, samples=1, share=0.1, share_low=0.05, share_high=0.2)
        for name in functions
    )
    profile = ProfileResult(process="operator", kind="pyspy", file="p.txt", functions=rows)
    phase = PhaseResult(
        name="deploy", outcome="passed", started="", seconds=60, timeout_s=60, profiles=(profile,) if rows else ()
    )
    return TestResult(
        test="t",
        run="r",
        version="0",
        outcome="passed",
        started="",
        seconds=60,
        machine=MACHINE,
        phases=(phase,),
        objects_resource=objects_resource,
    )


def pods(seen: Mapping[float, Sequence[str]]) -> list[rec.AnyRecord]:
    """Return what a watch tells of pods: second → names of those that came then."""
    found: list[rec.AnyRecord] = [rec.WatchOpened(at=at(0), watch="w1", spec=PODS, mode="stream")]
    for second, names in seen.items():
        found += [
            rec.ObjectSeen(at=at(second), watch="w1", change="added", name=name, namespace="t", uid=f"uid-{name}")
            for name in names
        ]
    return found
