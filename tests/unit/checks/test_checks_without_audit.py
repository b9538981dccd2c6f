"""Checks where there is no audit log and no clock of the operator: they pass what is proved, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.phase_result import ClientRow, CpuResult, PhaseResult, PodPlaces, StrayPod
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks import ApiRequests, Cpu, NoopCpu, NoopReads, NoopWrites, Rss, SimulatedNodesOnly
from pytest_grovescale.checks.check import at_most
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run

from .noop_run import IDLE, STEADY, NoopRun, changed, in_words, phase, verdict

WRITES = ClientRow(method="POST", code="201", count=0, total=2500)


def counted(*rows: ClientRow, name: str = STEADY, **facts: Any) -> TestResult:
    """Return a run without an audit log whose operator counted these requests in one phase."""
    test = NoopRun(**{"audited": False, **facts}).result()
    missing = {key: why for key, why in phase(test, name).missing.items() if key != "client_requests"}
    return changed(test, name, client_requests=rows, traffic_source="metrics", missing=missing)


def row(method: str, count: int, *, code: str = "200", before: int = 0) -> ClientRow:
    return ClientRow(method=method, code=code, count=count, total=before + count)


# ---- by the operator's own count


def test_no_write_of_any_kind_is_no_object_write(snapshot: SnapshotAssertion) -> None:
    found = judge(NoopWrites(), Run(counted(WRITES, row("GET", 9))))
    assert (found.verdict, found.figure, found.bound) == ("pass", 0, 0)
    assert "rest_client_requests_total" in found.text
    assert found.text == snapshot(name="text")
    assert "\n".join(found.evidence) == snapshot(name="evidence")


@pytest.mark.parametrize(
    ("rows", "facts", "why"),
    [
        ((row("PATCH", 3), WRITES), {}, "at most 3 > 0; "),
        ((row("GET", 3),), {}, "never counted"),
        ((WRITES,), {"triggers": 0}, "no trigger"),
        ((WRITES,), {"reconciles": {"podcliqueset": 0}}, "no reconcile"),
        ((WRITES,), {"restarted": True}, "restarted"),
        ((WRITES,), {"steady_outcome": "timeout"}, "timeout"),
    ],
    ids=["writes", "never", "no trigger", "dead trigger", "restarted", "timeout"],
)
def test_nothing_passes_in_doubt(
    rows: tuple[ClientRow, ...], facts: dict[str, Any], why: str, snapshot: SnapshotAssertion
) -> None:
    found = verdict(NoopWrites(), counted(*rows, **facts))
    assert re.match(f"inconclusive: .*{why}", found)
    assert found == snapshot


def test_a_complete_audit_log_that_does_not_know_the_operator_is_not_outvoted(snapshot: SnapshotAssertion) -> None:
    test = NoopRun(operator_user="system:serviceaccount:op:other").result()
    test = changed(test, STEADY, client_requests=(WRITES,))
    assert verdict(NoopWrites(), test).startswith("inconclusive: ")
    assert verdict(NoopWrites(), test) == snapshot


def test_another_identity_has_no_count(snapshot: SnapshotAssertion) -> None:
    found = verdict(NoopWrites(identity="kwok"), counted(WRITES))
    assert re.match("inconclusive: .*'kwok'", found)
    assert found == snapshot


def test_a_count_that_is_not_there_says_why_beside_the_log(snapshot: SnapshotAssertion) -> None:
    found = verdict(NoopWrites(), NoopRun(audited=False).result())
    assert re.match("inconclusive: .*audit log.* rest_client_requests_total", found)
    assert found == snapshot


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (NoopReads(max=4), "pass: .* 4 ≤ 4"),
        (NoopReads(max=3), "inconclusive: "),
        (ApiRequests(STEADY, max=9), "pass: .* 9 ≤ 9"),
        (ApiRequests(STEADY, max=8), "inconclusive: "),
        (ApiRequests(STEADY, "list", max=4), "pass: list requests"),
        (ApiRequests(STEADY, "patch", resource="pods", max=5), "pass: patch pods requests"),
        (ApiRequests(STEADY, "patch", resource="pods", max=4), "inconclusive: "),
        (ApiRequests(STEADY, "patch", max=0.5, per_object=10), "pass: "),
        (ApiRequests(STEADY, "delete", max=0), "inconclusive: .*never counted"),
    ],
    ids=in_words,
)
def test_what_is_allowed_in_any_case_passes(check: Any, expected: str, snapshot: SnapshotAssertion) -> None:
    found = verdict(check, counted(row("GET", 4), row("PATCH", 5)))
    assert re.match(expected, found)
    assert found == snapshot


METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"])


@given(
    objects=st.dictionaries(METHODS, st.integers(0, 50)),
    others=st.dictionaries(METHODS, st.integers(0, 50)),
    bound=st.integers(0, 100),
)
def test_a_pass_holds_whatever_of_the_count_were_objects(
    objects: dict[str, int], others: dict[str, int], bound: int
) -> None:
    rows = [row(name, objects.get(name, 0) + others.get(name, 0), before=1) for name in ("GET", "POST", "PUT", "PATCH")]
    found = judge(NoopWrites(max=bound), Run(counted(*rows, row("DELETE", objects.get("DELETE", 0), before=1))))
    true_writes = sum(count for method, count in objects.items() if method != "GET")
    assert found.verdict in ("pass", "inconclusive")
    if found.verdict == "pass":
        assert true_writes <= bound


# ---- CPU and memory by scrapes


def scraped(test: TestResult, name: str, *, seconds: float, off: float, rss_step: int = 0) -> TestResult:
    def of(found: PhaseResult) -> tuple[CpuResult, ...]:
        return tuple(
            msgspec.structs.replace(
                one, source="scrape", seconds=seconds, resolution_s=off, rss_resolution_bytes=rss_step
            )
            if one.process == "operator"
            else one
            for one in found.cpu
        )

    return changed(test, name, cpu=of(phase(test, name)))


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("2.06s", "pass: .* 2 s ≤ 2.06 s"),
        ("2.03s", "inconclusive: .* 2 s ≤ 2.03 s; .* 1.95 s and 2.05 s"),
        ("1.97s", "inconclusive: "),
        ("1.94s", "fail: .* 2 s > 1.94 s"),
    ],
    ids=in_words,
)
def test_a_bound_within_the_resolution_is_not_decided(bound: str, expected: str, snapshot: SnapshotAssertion) -> None:
    test = scraped(NoopRun().result(), "deploy", seconds=2.0, off=0.05)
    found = verdict(Cpu("deploy", max=bound), test)
    assert re.match(expected, found)
    assert found == snapshot


def test_the_evidence_says_where_cpu_is_from(snapshot: SnapshotAssertion) -> None:
    test = scraped(NoopRun().result(), "deploy", seconds=2.0, off=0.05, rss_step=3_000_000)
    evidence = judge(Cpu("deploy", max="9s"), Run(test)).evidence[-1]
    assert " 50 ms, " in evidence
    assert " 3 MB " in evidence
    assert evidence == snapshot


@pytest.mark.parametrize(("bound", "expected"), [("120M", "pass"), ("100M", "inconclusive"), ("94M", "fail")])
def test_memory_may_have_been_higher_between_two_scrapes(bound: str, expected: str) -> None:
    test = scraped(NoopRun().result(), "deploy", seconds=2.0, off=0.05, rss_step=20_000_000)
    assert judge(Rss(max=bound, phase="deploy"), Run(test)).verdict == expected


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (NoopCpu(per_reconcile="70ms"), "pass"),
        (NoopCpu(per_reconcile="65ms"), "inconclusive"),
        (NoopCpu(per_reconcile="15ms"), "inconclusive"),
        (NoopCpu(per_reconcile="10ms"), "fail"),
        (NoopCpu(times_idle=6), "pass"),
        (NoopCpu(times_idle=3), "inconclusive"),
        (NoopCpu(times_idle=1.1), "fail"),
    ],
)
def test_a_no_op_is_as_exact_as_both_of_its_windows(check: Any, expected: str) -> None:
    test = scraped(NoopRun().result(), STEADY, seconds=0.3, off=0.03)
    test = scraped(test, IDLE, seconds=0.1, off=0.02)
    assert judge(check, Run(test)).verdict == expected


def test_an_idle_time_below_the_resolution_has_no_upper_multiple(snapshot: SnapshotAssertion) -> None:
    test = scraped(NoopRun().result(), STEADY, seconds=0.3, off=0.03)
    test = scraped(test, IDLE, seconds=0.01, off=0.03)
    found = verdict(NoopCpu(times_idle=100), test)
    assert re.match(r"inconclusive: .* above 3\.\d+ times", found)
    assert found == snapshot


@given(
    truth=st.floats(0, 100),
    error=st.floats(-1, 1),
    bound=st.floats(0, 100),
    off=st.floats(0, 10),
)
def test_no_verdict_is_wrong_about_a_figure_within_its_resolution(
    truth: float, error: float, bound: float, off: float
) -> None:
    figure = truth + error * off
    found = at_most("p", "x", figure, bound, "s", between=(figure - off, figure + off))
    margin = 1e-9 * max(1.0, truth, off)
    if found.verdict == "pass":
        assert truth <= bound + margin
    if found.verdict == "fail":
        assert truth > bound - margin


# ---- nodes


def test_pods_on_real_nodes_fail_and_are_named(snapshot: SnapshotAssertion) -> None:
    stray = StrayPod(pod="t/a", node="worker-1")
    test = msgspec.structs.replace(NoopRun().result(), pod_places=PodPlaces(simulated=9, elsewhere=1, strays=(stray,)))
    found = judge(SimulatedNodesOnly(), Run(test))
    assert (found.verdict, found.figure) == ("fail", 1)
    assert found.text.endswith(" of 10 1 > 0")
    assert found.text == snapshot
    assert found.evidence[0] == "t/a on worker-1"


@pytest.mark.parametrize(
    ("places", "expected"),
    [(PodPlaces(simulated=9, elsewhere=0), "pass: "), (None, "inconclusive: ")],
    ids=["simulated", "unknown"],
)
def test_simulated_nodes_only(places: PodPlaces | None, expected: str, snapshot: SnapshotAssertion) -> None:
    test = msgspec.structs.replace(NoopRun().result(), pod_places=places)
    found = verdict(SimulatedNodesOnly(), test)
    assert found.startswith(expected)
    assert found == snapshot
