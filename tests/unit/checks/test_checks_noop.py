"""The no-op budget: what passes has been proved, and every fault of the proof makes it inconclusive."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from pytest_grovescale.checks import HotLoop, NoopCpu, NoopReads, NoopReconciles, NoopWrites
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.errors import UsageError

from .noop_run import IDLE, STEADY, NoopRun, changed, phase, verdict

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "wrong identity": ({"operator_user": "system:serviceaccount:op:other"}, "no request by 'operator'"),
    "no trigger": ({"triggers": 0}, "no trigger was made"),
    "trigger not in the log": ({"trigger_logged": False}, "0 writes of 1 triggers"),
    "dead trigger": ({"reconciles": {"podcliqueset": 0}}, "no reconcile followed the trigger"),
    "gap in the log": ({"audit_gap": True}, "broke off: rotated away"),
    "no audit log": ({"audited": False}, "was not measured"),
    "operator restarted": ({"restarted": True}, "restarted"),
    "no metrics": ({"scraped": False}, "not scraped"),
    "phase failed": ({"steady_outcome": "timeout"}, "did not pass: timeout"),
}
SOUND = {"noop_writes": NoopWrites(), "noop_reads": NoopReads(max=3)}


@pytest.mark.parametrize("check", SOUND.values(), ids=SOUND)
def test_a_sound_run_passes(check: Any) -> None:
    assert verdict(check, NoopRun(reads=3)).startswith("pass: object ")


@pytest.mark.parametrize("check", SOUND.values(), ids=SOUND)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_the_proof_passes(check: Any, fault: str) -> None:
    facts, why = FAULTS[fault]
    found = verdict(check, NoopRun(**facts))
    assert found.startswith("inconclusive: ")
    assert why in found


def test_a_write_is_a_write_whatever_else_is_unknown() -> None:
    for fault in ("trigger not in the log", "dead trigger", "operator restarted", "no metrics", "phase failed"):
        assert verdict(NoopWrites(), NoopRun(writes=1, **FAULTS[fault][0])).startswith("fail: ")


def test_a_failure_names_rows_objects_and_reconciles() -> None:
    found = judge(NoopWrites(max=2), Run(NoopRun(writes=12).result()), source="marker")
    assert (found.verdict, found.figure, found.bound, found.phase) == ("fail", 12, 2, STEADY)
    assert found.text == "object writes by operator 12 > 2"
    assert found.evidence[0] == "12 × patch pods"
    assert [line for line in found.evidence if line.startswith("wrote ")][:2] == [
        "wrote pods t/pod-0",
        "wrote pods t/pod-1",
    ]
    assert sum(line.startswith("wrote ") for line in found.evidence) == 10
    assert f"{STEADY}: 1 reconciles of podcliqueset, success" in found.evidence
    assert (found.check, found.source) == ("noop_writes(max=2)", "marker")


def test_reads_over_the_bound_fail() -> None:
    assert verdict(NoopReads(max=3), NoopRun(reads=4)) == "fail: object reads by operator 4 > 3"


# ---- reconciles

ONE_EACH = NoopReconciles(per_trigger={"podcliqueset": 1, "podclique": 4})


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (NoopReconciles(controller="podcliqueset", per_trigger=1), {}, "pass: .* 1 = 1"),
        (ONE_EACH, {}, "pass: "),
        (ONE_EACH, {"reconciles": {"podcliqueset": 1, "podclique": 5}}, "fail: .*podclique per trigger 5 > 4$"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 0, "podclique": 4}}, "fail: .*0 < 1: triggers were dropped"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 1, "podclique": 4}, "triggers": 2}, "fail: .*0.5 < 1: triggers"),
        (NoopReconciles(max=5), {}, "pass: reconciles per trigger 5 ≤ 5"),
        (NoopReconciles(max=4), {}, "fail: reconciles per trigger 5 > 4"),
        (NoopReconciles(max=2.5), {"triggers": 2}, "pass: reconciles per trigger 2.5 ≤ 2.5"),
        (NoopReconciles(controller="podclique", max=3), {}, "fail: reconciles of podclique per trigger 4 > 3"),
        (NoopReconciles(max=9), {"errors": 2}, "fail: reconciles that ended in an error 2 > 0"),
        (NoopReconciles(max=9, errors=2), {"errors": 2}, "pass: "),
        (NoopReconciles(max=9), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile followed"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 0, "podclique": 0}}, "inconclusive: .*no reconcile followed"),
        (NoopReconciles(max=9), FAULTS["no trigger"][0], "inconclusive: no trigger was made"),
        (NoopReconciles(max=9), FAULTS["trigger not in the log"][0], "inconclusive: .*0 writes of 1 triggers"),
        (NoopReconciles(max=9), FAULTS["operator restarted"][0], "inconclusive: .*restarted"),
        (NoopReconciles(max=9), FAULTS["no metrics"][0], "inconclusive: .*not scraped"),
        (NoopReconciles(max=9), FAULTS["phase failed"][0], "inconclusive: .*did not pass"),
        (NoopReconciles(controller="podcliquset", per_trigger=1), {}, "inconclusive: .*no controller 'podcliquset'"),
        # Reconciles are the operator's own word: they need no audit log.
        (NoopReconciles(max=5), FAULTS["no audit log"][0], "pass: "),
    ],
)  # fmt: skip
def test_reconciles_per_trigger(check: Any, facts: dict[str, Any], expected: str) -> None:
    assert re.match(expected, verdict(check, NoopRun(**facts)))


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (HotLoop(), {}, "pass: reconciles with nothing triggered 0 a second ≤ 1 a second"),
        (HotLoop(), {"idle_reconciles": 29}, "pass: "),
        (HotLoop(), {"idle_reconciles": 3000}, "fail: reconciles with nothing triggered 100 a second"),
        (HotLoop(idle_per_second=101), {"idle_reconciles": 3000}, "pass: "),
        (HotLoop(), {"reconciles": {"podcliqueset": 20}}, "pass: "),
        (HotLoop(), {"reconciles": {"podcliqueset": 21}}, "fail: .*for each of 10 pods 2.1 > 2"),
        (HotLoop(passes=3), {"reconciles": {"podcliqueset": 21}}, "pass: "),
        (HotLoop(), {"reconciles": {"podcliqueset": 40}, "triggers": 2}, "pass: "),
        (HotLoop(), {"twin": False}, "inconclusive: phase 'steady-state' has no idle twin"),
        (HotLoop(), {"twin_outcome": "interrupted"}, "inconclusive: the idle twin .* was not completed: interrupted"),
        (HotLoop(), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile followed"),
        (HotLoop(), FAULTS["no trigger"][0], "inconclusive: no trigger was made"),
        (HotLoop(), FAULTS["no metrics"][0], "inconclusive: "),
        (HotLoop(), FAULTS["operator restarted"][0], "inconclusive: .*restarted"),
    ],
)  # fmt: skip
def test_hot_loop(check: Any, facts: dict[str, Any], expected: str) -> None:
    assert re.match(expected, verdict(check, NoopRun(**facts)))


def test_a_hot_loop_needs_to_know_how_many_objects_there_are() -> None:

    test = msgspec.structs.replace(NoopRun().result(), objects=None)
    assert "no milestone of the test counts objects" in verdict(HotLoop(), test)


# ---- CPU


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (NoopCpu(times_idle=4.1), {}, "pass: CPU, of its idle twin's 3 times ≤ 4.1 times"),
        (NoopCpu(times_idle=3), {}, "inconclusive: .*it lies between 1.98 times and 4.02 times"),
        (NoopCpu(times_idle=1.9), {}, "fail: "),
        (NoopCpu(times_idle=3), {"idle_cpu": 0.0}, "inconclusive: no CPU time was seen"),
        (NoopCpu(per_reconcile="60ms"), {}, "pass: CPU per reconcile 40 ms ≤ 60 ms"),
        (NoopCpu(per_reconcile="39ms"), {}, "inconclusive: .*it lies between 21 ms and 59 ms"),
        (NoopCpu(per_reconcile="20ms"), {}, "fail: "),
        (NoopCpu(per_reconcile="39ms"), {"idle_reconciles": 5}, "inconclusive: 5 reconciles .*caused none"),
        (NoopCpu(per_reconcile=0.3, controller="podcliqueset"), {}, "pass: CPU per reconcile of podcliqueset 200 ms"),
        (NoopCpu(per_reconcile="1s"), {"idle_cpu": 0.4}, "inconclusive: operator used more CPU in .*not idle there"),
        (NoopCpu(per_reconcile="1s"), {"twin": False}, "inconclusive: .* has no idle twin"),
        (NoopCpu(per_reconcile="1s"), {"idle_cpu": None}, "inconclusive: CPU of 'operator' .*not measured"),
        (NoopCpu(per_reconcile="1s"), {"steady_cpu": None}, "inconclusive: CPU of 'operator' .*not measured"),
        (NoopCpu(per_reconcile="1s"), {"profiled": True}, "inconclusive: profilers were attached"),
        (NoopCpu(times_idle=99), {"profiled": True}, "inconclusive: profilers were attached"),
        (NoopCpu(times_idle=99), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile followed"),
        (NoopCpu(times_idle=99), FAULTS["operator restarted"][0], "inconclusive: operator was not measured from"),
        (NoopCpu(times_idle=99), FAULTS["phase failed"][0], "inconclusive: .*did not pass"),
        (NoopCpu(times_idle=99, process="operatr"), {}, "inconclusive: CPU of 'operatr'"),
    ],
)
def test_cpu_of_a_noop(check: Any, facts: dict[str, Any], expected: str) -> None:
    assert re.match(expected, verdict(check, NoopRun(**facts)))


def test_cpu_reports_window_idle_and_difference() -> None:
    found = judge(NoopCpu(times_idle=9), Run(NoopRun().result()))
    assert found.evidence[:-1] == (
        f"CPU in {STEADY}: 300 ms",
        f"CPU in as much of {IDLE}: 100 ms",
        "difference: 200 ms",
    )


def test_a_twin_of_another_length_is_scaled() -> None:
    test = NoopRun().result()
    (row,) = phase(test, IDLE).cpu

    half = msgspec.structs.replace(row, window_s=row.window_s / 2)
    assert verdict(NoopCpu(times_idle=1.9), changed(test, IDLE, cpu=(half,))).startswith("pass: CPU, of its idle")


STEADY_RUNS = [{"noop_cpu": 0.2 * (1 + off)} for off in (0.0, 0.01, -0.01, 0.005, -0.005)]


@pytest.mark.parametrize(
    ("runs", "tolerance", "expected"),
    [
        (
            [{"noop_cpu": 0.2}],
            0.1,
            "inconclusive: CPU per trigger .* main's 1 times.*between 0.345 times and 1.65",
        ),
        ([{"noop_cpu": 0.2}], 1.0, "pass: CPU per trigger over idle, of baseline main's 1 times ≤ 2 times"),
        ([{"noop_cpu": 0.05}], 0.1, "fail: .*4 times"),
        (STEADY_RUNS[:2], 0.1, "inconclusive: "),
        (STEADY_RUNS, 0.1, "pass: "),
        (STEADY_RUNS, 0.02, "inconclusive: .*it lies between 0.969 times and 1.03 times"),
        ([{"noop_cpu": run["noop_cpu"] * 0.8} for run in STEADY_RUNS], 0.1, "fail: .*1.25 times"),
        ([], 0.1, "inconclusive: there is no baseline 'main'"),
        ([{"cpu:deploy": 1.0}, {"noop_cpu": 0.2}], 0.1, "inconclusive: baseline 'main' holds no noop_cpu"),
        ([{"noop_cpu": 0.0}], 0.1, "inconclusive: baseline 'main' holds no noop_cpu"),
    ],
)
def test_cpu_against_a_baseline(runs: list[dict[str, float]], tolerance: float, expected: str) -> None:
    found = verdict(NoopCpu(vs="main", tolerance=tolerance), NoopRun(), baselines=lambda name: runs)
    assert re.match(expected, found), found


@pytest.mark.parametrize(
    ("runs", "source"),
    [
        ([{"noop_cpu": 0.2}], "single runs vary by 6.5%, and 1 trigger by 22.0% more .*3 runs saved as main tell this"),
        (STEADY_RUNS, "single runs vary by 0.8% .*, as the 5 saved as main do; .*grovescale compare decides"),
    ],
)
def test_the_evidence_says_how_far_runs_vary_and_what_decides(runs: list[dict[str, float]], source: str) -> None:
    found = judge(NoopCpu(vs="main"), Run(NoopRun().result(), baselines=lambda name: runs))
    assert re.match(source, found.evidence[-1]), found.evidence[-1]


def test_more_triggers_narrow_what_a_run_can_tell() -> None:
    """The same cost of each trigger, told by one of them and by twenty."""
    check = NoopCpu(per_reconcile="52ms")
    twenty = {"podcliqueset": 20, "podclique": 80}
    assert verdict(check, NoopRun()).startswith("inconclusive: CPU per reconcile 40 ms")
    many = NoopRun(triggers=20, reconciles=twenty, steady_cpu=4.1)
    assert verdict(check, many).startswith("pass: CPU per reconcile 40 ms")


# ---- which phase


def test_the_one_phase_with_triggers_is_meant() -> None:
    assert judge(NoopWrites(), Run(NoopRun().result())).phase == STEADY


def test_several_phases_with_triggers_must_be_told_apart() -> None:
    test = changed(NoopRun().result(), "deploy", triggers=1)
    with pytest.raises(UsageError, match="several phases have triggers: deploy, steady-state"):
        judge(NoopWrites(), Run(test))
    assert judge(NoopWrites(phase=STEADY), Run(test)).verdict == "pass"


def test_the_windows_of_a_comparison_are_not_meant() -> None:
    test = NoopRun().result()
    window = msgspec.structs.replace(phase(test), name="noop-1")
    judged = judge(NoopWrites(), Run(msgspec.structs.replace(test, phases=(*test.phases, window))))
    assert (judged.verdict, judged.phase) == ("pass", STEADY)


def test_a_phase_that_is_not_there_is_inconclusive_and_named() -> None:
    found = verdict(NoopWrites(phase="steady-stat"), NoopRun())
    assert found.startswith("inconclusive: the recording has no phase 'steady-stat'; did you mean steady-state")
