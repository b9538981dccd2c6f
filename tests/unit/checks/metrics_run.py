"""A scraped run in a test: an endpoint's answers and the objects that came, judged by a check of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_grovescale.analysis.metrics.history import history_of
from pytest_grovescale.analysis.phase_result import PhaseResult, ProfileResult
from pytest_grovescale.analysis.result import CheckResult, TestResult
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Profiles, Run, no_profiles
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec
from tests.unit.analysis.endpoint import Endpoint, at
from tests.unit.analysis.simulated import MACHINE

PODS = WatchSpec(resource="pods", path="/api/v1/pods", fields=())


def judged(
    check: Any,
    endpoint: Endpoint | None,
    *,
    objects: Iterable[rec.AnyRecord] = (),
    profiles: Profiles = no_profiles,
    **facts: Any,
) -> CheckResult:
    """Return what a check says of an endpoint that was scraped while objects came."""
    return judge(check, scraped_run(endpoint, objects=objects, profiles=profiles, **facts))


def scraped_run(
    endpoint: Endpoint | None, *, objects: Iterable[rec.AnyRecord] = (), profiles: Profiles = no_profiles, **facts: Any
) -> Run:
    """Return what a check is judged by: an endpoint that was scraped while objects came."""
    scraped = endpoint.records if endpoint is not None else []
    records = sorted([*objects, *scraped], key=lambda record: record.at)
    return Run(run(**facts), metrics=lambda: history_of(records), profiles=profiles)


def said(check: Any, endpoint: Endpoint | None, **facts: Any) -> str:
    """Return the verdict and its line: ``fail: series of operator 7 > 3``."""
    found = judged(check, endpoint, **facts)
    return f"{found.verdict}: {found.text}"


def run(*, profiled: Sequence[ProfileResult] = (), objects_resource: str = "") -> TestResult:
    """Return a run with these profiles of its one phase."""
    phase = PhaseResult(name="deploy", outcome="passed", started="", seconds=60, timeout_s=60, profiles=tuple(profiled))
    return TestResult(
        test="t",
        run="r",
        version="0",
        scenario_outcome="passed",
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
