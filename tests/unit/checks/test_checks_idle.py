"""Checks of idle windows, and of reconciles in a phase."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_grovescale.checks import IdleCpu, IdleRequests, Reconciles
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.errors import UsageError

from .noop_run import NoopRun, in_words, verdict


@pytest.mark.parametrize(
    ("check", "facts", "said"),
    [
        (IdleRequests(max=0), {}, "pass"),
        (IdleRequests(max=0), {"idle_polls": 1}, "fail"),
        (IdleRequests(max=0.3), {"idle_polls": 6}, "pass"),
        (IdleRequests(max=0.03, per_object=True), {"idle_polls": 6}, "pass"),
        (IdleRequests(max=0), {"idle_renewals": 15}, "pass"),
        (IdleRequests(max=0, of="leases"), {"idle_renewals": 15}, "fail"),
        (IdleRequests(max=0.6, of="leases"), {"idle_renewals": 15}, "pass"),
        (IdleRequests(max=0, of="all"), {"idle_renewals": 15}, "fail"),
        (IdleRequests(max=0, of="events"), {"idle_polls": 15, "idle_renewals": 15}, "pass"),
        # One every five seconds is declared: three more are not.
        (IdleRequests(max=0, periodic={"list pods": "5s"}), {"idle_polls": 6}, "pass"),
        (IdleRequests(max=0, periodic={"list pods": "5s"}), {"idle_polls": 12}, "fail"),
        (IdleRequests(max=0, periodic={"list nodes": "5s"}), {"idle_polls": 6}, "fail"),
        (IdleRequests(max=0, window="20s"), {}, "pass"),
        (IdleRequests(max=0, window="1m"), {}, "inconclusive"),
        (IdleRequests(max=0, phase="nowhere"), {}, "inconclusive"),
        (IdleRequests(max=0), {"audited": False}, "inconclusive"),
        (IdleCpu(max=0.005), {"idle_cpu": 0.1}, "pass"),
        (IdleCpu(max=0.002), {"idle_cpu": 0.1}, "fail"),
        (IdleCpu(max=0.0005, per_object=True), {"idle_cpu": 0.1}, "pass"),
        (IdleCpu(max=1), {"profiled": True}, "inconclusive"),
        (IdleCpu(max=1), {"idle_cpu": None, "steady_cpu": None}, "inconclusive"),
        (Reconciles("steady-state", max=5), {}, "pass"),
        (Reconciles("steady-state", max=4), {}, "fail"),
        (Reconciles("steady-state", "podclique", max=4), {}, "pass"),
        (Reconciles("steady-state", max=0.5, per_object=True), {}, "pass"),
        (Reconciles("steady-state", max=0.4, per_object=True), {}, "fail"),
        (Reconciles("steady-state", "podcliq", max=4), {}, "inconclusive"),
        (Reconciles("steady-state", max=4), {"scraped": False}, "inconclusive"),
        (Reconciles("steady-state", max=40), {"restarted": True}, "inconclusive"),
        (Reconciles("nowhere", max=4), {}, "inconclusive"),
    ],
    ids=in_words,
)  # fmt: skip
def test_verdicts(check: Any, facts: dict[str, Any], said: str) -> None:
    found = verdict(check, NoopRun(**facts))
    assert found.startswith(f"{said}: "), found


def test_what_an_idle_window_does_not_cover_is_said() -> None:
    found = judge(IdleRequests(max=1), Run(NoopRun(idle_polls=6).result()))
    assert found.evidence[-1].endswith("a period above 15 s was not covered")


def test_an_operator_without_a_counter_is_reported_what_to_serve() -> None:
    found = judge(Reconciles("steady-state", max=4), Run(NoopRun(scraped=False).result()))
    assert "controller_runtime_reconcile_total" in found.evidence[0]


@pytest.mark.parametrize(
    "bad", [{"max": -1}, {"max": 1, "window": "soon"}, {"max": 1, "periodic": {"list pods": "0s"}}]
)
def test_nonsense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        IdleRequests(**bad)
