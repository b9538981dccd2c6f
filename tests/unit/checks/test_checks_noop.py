"""The no-op budget: what passes has been proved, and every fault of the proof makes it inconclusive."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.shape import hot_loop, noop_cpu, noop_reads, noop_reconciles, noop_writes
from pytest_grovescale.errors import UsageError

from .noop_run import IDLE, STEADY, NoopRun, changed, in_words, phase, verdict

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "wrong identity": ({"operator_user": "system:serviceaccount:op:other"}, "'operator'"),
    "no trigger": ({"triggers": 0}, "no trigger"),
    "trigger not in the log": ({"trigger_logged": False}, "0 writes of 1 triggers"),
    "dead trigger": ({"reconciles": {"podcliqueset": 0}}, "no reconcile"),
    "gap in the log": ({"audit_gap": True}, "rotated away"),
    "no audit log": ({"audited": False}, "'operator'"),
    "operator restarted": ({"restarted": True}, "restarted"),
    "no metrics": ({"scraped": False}, "not scraped"),
    "phase failed": ({"steady_outcome": "timeout"}, "timeout"),
}
SOUND = {"noop_writes": noop_writes(), "noop_reads": noop_reads(max=3)}


@pytest.mark.parametrize("check", SOUND.values(), ids=SOUND)
def test_a_sound_run_passes(check: Any) -> None:
    assert verdict(check, NoopRun(reads=3)).startswith("pass: object ")


@pytest.mark.parametrize("check", SOUND.values(), ids=SOUND)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_the_proof_passes(check: Any, fault: str, snapshot: SnapshotAssertion) -> None:
    facts, why = FAULTS[fault]
    found = verdict(check, NoopRun(**facts))
    assert found.startswith("inconclusive: ")
    assert why in found
    assert found == snapshot


def test_a_write_is_a_write_whatever_else_is_unknown() -> None:
    for fault in ("trigger not in the log", "dead trigger", "operator restarted", "no metrics", "phase failed"):
        assert verdict(noop_writes(), NoopRun(writes=1, **FAULTS[fault][0])).startswith("fail: ")


def test_a_failure_names_rows_objects_and_reconciles(snapshot: SnapshotAssertion) -> None:
    found = judge(noop_writes(max=2), NoopRun(writes=12).result(), source="marker")
    assert (found.verdict, found.figure, found.bound, found.phase) == ("fail", 12, 2, STEADY)
    assert found.text.endswith(" 12 > 2")
    assert found.text == snapshot(name="text")
    assert found.evidence[0] == "12 × patch pods"
    assert [line for line in found.evidence if line.startswith("wrote ")][:2] == [
        "wrote pods t/pod-0",
        "wrote pods t/pod-1",
    ]
    assert sum(line.startswith("wrote ") for line in found.evidence) == 10
    assert "\n".join(found.evidence) == snapshot(name="evidence")
    assert (found.check, found.source) == ("noop_writes(max=2)", "marker")


def test_reads_over_the_bound_fail(snapshot: SnapshotAssertion) -> None:
    found = verdict(noop_reads(max=3), NoopRun(reads=4))
    assert re.match("fail: .* 4 > 3$", found)
    assert found == snapshot


# ---- reconciles

ONE_EACH = noop_reconciles(per_trigger={"podcliqueset": 1, "podclique": 4})


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (noop_reconciles(controller="podcliqueset", per_trigger=1), {}, "pass: .* 1 = 1"),
        (ONE_EACH, {}, "pass: "),
        (ONE_EACH, {"reconciles": {"podcliqueset": 1, "podclique": 5}}, "fail: .* podclique .* 5 > 4$"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 0, "podclique": 4}}, "fail: .* 0 < 1"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 1, "podclique": 4}, "triggers": 2}, "fail: .* 0.5 < 1"),
        (noop_reconciles(max=5), {}, "pass: .* 5 ≤ 5"),
        (noop_reconciles(max=4), {}, "fail: .* 5 > 4"),
        (noop_reconciles(max=2.5), {"triggers": 2}, "pass: .* 2.5 ≤ 2.5"),
        (noop_reconciles(controller="podclique", max=3), {}, "fail: .* podclique .* 4 > 3"),
        (noop_reconciles(max=9), {"errors": 2}, "fail: .* error 2 > 0"),
        (noop_reconciles(max=9, errors=2), {"errors": 2}, "pass: "),
        (noop_reconciles(max=9), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 0, "podclique": 0}}, "inconclusive: .*no reconcile"),
        (noop_reconciles(max=9), FAULTS["no trigger"][0], "inconclusive: no trigger"),
        (noop_reconciles(max=9), FAULTS["trigger not in the log"][0], "inconclusive: .*0 writes of 1 triggers"),
        (noop_reconciles(max=9), FAULTS["operator restarted"][0], "inconclusive: .*restarted"),
        (noop_reconciles(max=9), FAULTS["no metrics"][0], "inconclusive: .*not scraped"),
        (noop_reconciles(max=9), FAULTS["phase failed"][0], "inconclusive: .*timeout"),
        (noop_reconciles(controller="podcliquset", per_trigger=1), {}, "inconclusive: .*'podcliquset'"),
        # Reconciles are the operator's own word: they need no audit log.
        (noop_reconciles(max=5), FAULTS["no audit log"][0], "pass: "),
    ],
    ids=in_words,
)  # fmt: skip
def test_reconciles_per_trigger(check: Any, facts: dict[str, Any], expected: str, snapshot: SnapshotAssertion) -> None:
    found = verdict(check, NoopRun(**facts))
    assert re.match(expected, found)
    assert found == snapshot


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (hot_loop(), {}, "pass: .* 0 a second ≤ 1 a second"),
        (hot_loop(), {"idle_reconciles": 29}, "pass: "),
        (hot_loop(), {"idle_reconciles": 3000}, "fail: .* 100 a second"),
        (hot_loop(idle_per_second=101), {"idle_reconciles": 3000}, "pass: "),
        (hot_loop(), {"reconciles": {"podcliqueset": 20}}, "pass: "),
        (hot_loop(), {"reconciles": {"podcliqueset": 21}}, "fail: .* 10 pods 2.1 > 2"),
        (hot_loop(passes=3), {"reconciles": {"podcliqueset": 21}}, "pass: "),
        (hot_loop(), {"reconciles": {"podcliqueset": 40}, "triggers": 2}, "pass: "),
        (hot_loop(), {"twin": False}, "inconclusive: .*'steady-state' .*twin"),
        (hot_loop(), {"twin_outcome": "interrupted"}, "inconclusive: .*twin .*interrupted"),
        (hot_loop(), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile"),
        (hot_loop(), FAULTS["no trigger"][0], "inconclusive: no trigger"),
        (hot_loop(), FAULTS["no metrics"][0], "inconclusive: "),
        (hot_loop(), FAULTS["operator restarted"][0], "inconclusive: .*restarted"),
    ],
    ids=in_words,
)  # fmt: skip
def test_hot_loop(check: Any, facts: dict[str, Any], expected: str, snapshot: SnapshotAssertion) -> None:
    found = verdict(check, NoopRun(**facts))
    assert re.match(expected, found)
    assert found == snapshot


def test_a_hot_loop_needs_to_know_how_many_objects_there_are(snapshot: SnapshotAssertion) -> None:

    test = msgspec.structs.replace(NoopRun().result(), objects=None)
    found = verdict(hot_loop(), test)
    assert found.startswith("inconclusive: ")
    assert found == snapshot


# ---- CPU


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (noop_cpu(times_idle=4.1), {}, "pass: CPU.* 3 times ≤ 4.1 times"),
        (noop_cpu(times_idle=3), {}, "inconclusive: .* 1.98 times and 4.02 times"),
        (noop_cpu(times_idle=1.9), {}, "fail: "),
        (noop_cpu(times_idle=3), {"idle_cpu": 0.0}, "inconclusive: no CPU time"),
        (noop_cpu(per_reconcile="60ms"), {}, "pass: CPU .* 40 ms ≤ 60 ms"),
        (noop_cpu(per_reconcile="39ms"), {}, "inconclusive: .* 21 ms and 59 ms"),
        (noop_cpu(per_reconcile="20ms"), {}, "fail: "),
        (noop_cpu(per_reconcile="39ms"), {"idle_reconciles": 5}, "inconclusive: 5 reconciles"),
        (noop_cpu(per_reconcile=0.3, controller="podcliqueset"), {}, "pass: CPU .* podcliqueset 200 ms"),
        (noop_cpu(per_reconcile="1s"), {"idle_cpu": 0.4}, "inconclusive: .*not idle"),
        (noop_cpu(per_reconcile="1s"), {"twin": False}, "inconclusive: .*twin"),
        (noop_cpu(per_reconcile="1s"), {"idle_cpu": None}, "inconclusive: CPU of 'operator'"),
        (noop_cpu(per_reconcile="1s"), {"steady_cpu": None}, "inconclusive: CPU of 'operator'"),
        (noop_cpu(per_reconcile="1s"), {"profiled": True}, "inconclusive: profilers"),
        (noop_cpu(times_idle=99), {"profiled": True}, "inconclusive: profilers"),
        (noop_cpu(times_idle=99), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile"),
        (noop_cpu(times_idle=99), FAULTS["operator restarted"][0], "inconclusive: operator"),
        (noop_cpu(times_idle=99), FAULTS["phase failed"][0], "inconclusive: .*timeout"),
        (noop_cpu(times_idle=99, process="operatr"), {}, "inconclusive: CPU of 'operatr'"),
    ],
    ids=in_words,
)
def test_cpu_of_a_noop(check: Any, facts: dict[str, Any], expected: str, snapshot: SnapshotAssertion) -> None:
    found = verdict(check, NoopRun(**facts))
    assert re.match(expected, found)
    assert found == snapshot


def test_cpu_reports_window_idle_and_difference(snapshot: SnapshotAssertion) -> None:
    found = judge(noop_cpu(times_idle=9), NoopRun().result())
    window, idle, difference = found.evidence[:-1]
    assert f" {STEADY}: 300 ms" in window
    assert f" {IDLE}: 100 ms" in idle
    assert difference.endswith(": 200 ms")
    assert "\n".join(found.evidence) == snapshot


def test_a_twin_of_another_length_is_scaled() -> None:
    test = NoopRun().result()
    (row,) = phase(test, IDLE).cpu

    half = msgspec.structs.replace(row, window_s=row.window_s / 2)
    assert verdict(noop_cpu(times_idle=1.9), changed(test, IDLE, cpu=(half,))).startswith("pass: CPU, of its idle")


STEADY_RUNS = [{"noop_cpu": 0.2 * (1 + off)} for off in (0.0, 0.01, -0.01, 0.005, -0.005)]


@pytest.mark.parametrize(
    ("runs", "tolerance", "expected"),
    [
        (
            [{"noop_cpu": 0.2}],
            0.1,
            "inconclusive: .* main's 1 times.* 0.345 times and 1.65",
        ),
        ([{"noop_cpu": 0.2}], 1.0, "pass: .* main's 1 times ≤ 2 times"),
        ([{"noop_cpu": 0.05}], 0.1, "fail: .*4 times"),
        (STEADY_RUNS[:2], 0.1, "inconclusive: "),
        (STEADY_RUNS, 0.1, "pass: "),
        (STEADY_RUNS, 0.02, "inconclusive: .* 0.969 times and 1.03 times"),
        ([{"noop_cpu": run["noop_cpu"] * 0.8} for run in STEADY_RUNS], 0.1, "fail: .*1.25 times"),
        ([], 0.1, "inconclusive: .* 'main'"),
        ([{"cpu:deploy": 1.0}, {"noop_cpu": 0.2}], 0.1, "inconclusive: .*'main' .*noop_cpu"),
        ([{"noop_cpu": 0.0}], 0.1, "inconclusive: .*'main' .*noop_cpu"),
    ],
    ids=[
        "one run",
        "wide tolerance",
        "fourfold",
        "two runs",
        "five runs",
        "narrow tolerance",
        "more by a quarter",
        "no runs",
        "one run of two without it",
        "zero",
    ],
)
def test_cpu_against_a_baseline(
    runs: list[dict[str, float]], tolerance: float, expected: str, snapshot: SnapshotAssertion
) -> None:
    found = verdict(noop_cpu(vs="main", tolerance=tolerance), NoopRun(), baselines=lambda name: runs)
    assert re.match(expected, found), found
    assert found == snapshot


@pytest.mark.parametrize(
    ("runs", "source"),
    [
        ([{"noop_cpu": 0.2}], ".* 6.5%, .* 22.0% .* 3 runs .* main "),
        (STEADY_RUNS, ".* 0.8% .* 5 .* main .*grovescale compare"),
    ],
    ids=["one run", "five runs"],
)
def test_the_evidence_says_how_far_runs_vary_and_what_decides(
    runs: list[dict[str, float]], source: str, snapshot: SnapshotAssertion
) -> None:
    found = judge(noop_cpu(vs="main"), NoopRun().result(), baselines=lambda name: runs)
    assert re.match(source, found.evidence[-1]), found.evidence[-1]
    assert found.evidence[-1] == snapshot


def test_more_triggers_narrow_what_a_run_can_tell() -> None:
    """The same cost of each trigger, told by one of them and by twenty."""
    check = noop_cpu(per_reconcile="52ms")
    twenty = {"podcliqueset": 20, "podclique": 80}
    assert verdict(check, NoopRun()).startswith("inconclusive: CPU per reconcile 40 ms")
    many = NoopRun(triggers=20, reconciles=twenty, steady_cpu=4.1)
    assert verdict(check, many).startswith("pass: CPU per reconcile 40 ms")


# ---- which phase


def test_the_one_phase_with_triggers_is_meant() -> None:
    assert judge(noop_writes(), NoopRun().result()).phase == STEADY


def test_several_phases_with_triggers_must_be_told_apart(snapshot: SnapshotAssertion) -> None:
    test = changed(NoopRun().result(), "deploy", triggers=1)
    with pytest.raises(UsageError) as caught:
        judge(noop_writes(), test)
    assert str(caught.value) == snapshot
    assert judge(noop_writes(phase=STEADY), test).verdict == "pass"


def test_the_windows_of_a_comparison_are_not_meant() -> None:
    test = NoopRun().result()
    window = msgspec.structs.replace(phase(test), name="noop-1")
    judged = judge(noop_writes(), msgspec.structs.replace(test, phases=(*test.phases, window)))
    assert (judged.verdict, judged.phase) == ("pass", STEADY)


def test_a_phase_that_is_not_there_is_inconclusive_and_named(snapshot: SnapshotAssertion) -> None:
    found = verdict(noop_writes(phase="steady-stat"), NoopRun())
    assert re.match("inconclusive: .*'steady-stat'.* steady-state", found)
    assert found == snapshot
