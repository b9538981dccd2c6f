"""The no-op budget: what passes has been proved, and every fault of the proof makes it inconclusive."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks import HotLoop, NoopCpu, NoopReads, NoopReconciles, NoopWrites
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
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
    "no metrics": ({"scraped": False}, "no metrics of operator"),
    "phase failed": ({"steady_outcome": "timeout"}, "timeout"),
}
SOUND = {"noop_writes": NoopWrites(), "noop_reads": NoopReads(max=3)}


@pytest.mark.parametrize("check", SOUND.values(), ids=SOUND)
def test_a_sound_run_passes(check: Any) -> None:
    assert verdict(check, NoopRun(reads=3)).startswith("pass: object ")


@pytest.mark.parametrize("check", SOUND.values(), ids=SOUND)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "no metrics"])
def test_no_fault_of_the_proof_passes(check: Any, fault: str, snapshot: SnapshotAssertion) -> None:
    facts, why = FAULTS[fault]
    found = verdict(check, NoopRun(**facts))
    assert found.startswith("inconclusive: ")
    assert why in found
    assert found == snapshot


@pytest.mark.parametrize("check", SOUND.values(), ids=SOUND)
def test_an_operator_that_counts_no_reconciles_is_judged_by_the_log(check: Any) -> None:
    unscraped = FAULTS["no metrics"][0]
    found = judge(check, Run(NoopRun(**unscraped).result()), source="marker")
    assert found.verdict == "pass"
    assert "audit log alone" in found.evidence[-1]
    assert verdict(check, NoopRun(**unscraped, trigger_logged=False)).startswith("inconclusive: ")
    assert verdict(check, NoopRun(**unscraped, audit_gap=True)).startswith("inconclusive: ")


def test_a_write_is_a_write_whatever_else_is_unknown() -> None:
    for fault in ("trigger not in the log", "dead trigger", "operator restarted", "no metrics", "phase failed"):
        assert verdict(NoopWrites(), NoopRun(writes=1, **FAULTS[fault][0])).startswith("fail: ")


def test_writes_after_a_trigger_that_came_too_early_are_in_doubt() -> None:
    result = NoopRun(writes=1).result()
    early = "pods still changed 9 ms before the trigger"
    phases = [msgspec.structs.replace(one, under_way=early * (one.name == STEADY)) for one in result.phases]
    run = Run(msgspec.structs.replace(result, phases=tuple(phases)))
    for check, sound in (
        (NoopWrites(), NoopWrites(max=1)),
        (NoopReconciles(controller="podclique", per_trigger=1), NoopReconciles(controller="podclique", per_trigger=4)),
        (NoopReconciles(max=1), NoopReconciles(max=5)),
    ):
        assert judge(check, run, source="marker").verdict == "inconclusive"
        assert early in judge(check, run, source="marker").text
        assert judge(sound, run, source="marker").verdict == "pass"


def test_a_failure_names_rows_objects_and_reconciles(snapshot: SnapshotAssertion) -> None:
    found = judge(NoopWrites(max=2), Run(NoopRun(writes=12).result()), source="marker")
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
    found = verdict(NoopReads(max=3), NoopRun(reads=4))
    assert re.match("fail: .* 4 > 3$", found)
    assert found == snapshot


# ---- reconciles

ONE_EACH = NoopReconciles(per_trigger={"podcliqueset": 1, "podclique": 4})


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (NoopReconciles(controller="podcliqueset", per_trigger=1), {}, "pass: .* 1 = 1"),
        (ONE_EACH, {}, "pass: "),
        (ONE_EACH, {"reconciles": {"podcliqueset": 1, "podclique": 5}}, "fail: .* podclique .* 5 > 4$"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 0, "podclique": 4}}, "fail: .* 0 < 1"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 1, "podclique": 4}, "triggers": 2}, "fail: .* 0.5 < 1"),
        (NoopReconciles(max=5), {}, "pass: .* 5 ≤ 5"),
        (NoopReconciles(max=4), {}, "fail: .* 5 > 4"),
        (NoopReconciles(max=2.5), {"triggers": 2}, "pass: .* 2.5 ≤ 2.5"),
        (NoopReconciles(controller="podclique", max=3), {}, "fail: .* podclique .* 4 > 3"),
        (NoopReconciles(max=9), {"errors": 2}, "fail: .* error 2 > 0"),
        (NoopReconciles(max=9, errors=2), {"errors": 2}, "pass: "),
        (NoopReconciles(max=9), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile"),
        (ONE_EACH, {"reconciles": {"podcliqueset": 0, "podclique": 0}}, "inconclusive: .*no reconcile"),
        (NoopReconciles(max=9), FAULTS["no trigger"][0], "inconclusive: no trigger"),
        (NoopReconciles(max=9), FAULTS["trigger not in the log"][0], "inconclusive: .*0 writes of 1 triggers"),
        (NoopReconciles(max=9), FAULTS["operator restarted"][0], "inconclusive: .*restarted"),
        (NoopReconciles(max=9), FAULTS["no metrics"][0], "inconclusive: .*no metrics of operator"),
        (NoopReconciles(max=9), FAULTS["phase failed"][0], "inconclusive: .*timeout"),
        (NoopReconciles(controller="podcliquset", per_trigger=1), {}, "inconclusive: .*'podcliquset'"),
        # Reconciles are the operator's own word: they need no audit log.
        (NoopReconciles(max=5), FAULTS["no audit log"][0], "pass: "),
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
        (HotLoop(), {}, "pass: .* 0 a second ≤ 0 a second"),
        # One late reconcile is no loop; one in ten seconds is.
        (HotLoop(), {"idle_reconciles": 1}, "pass: .* 0 a second ≤ 0 a second"),
        (HotLoop(), {"idle_reconciles": 3}, "fail: .*podcliqueset .* 0.1 a second > 0"),
        (HotLoop(), {"idle_reconciles": 29}, "fail: .* 0.967 a second"),
        (HotLoop(idle_per_second=1), {"idle_reconciles": 29}, "pass: "),
        (HotLoop(periodic={"podcliqueset": "10s"}), {"idle_reconciles": 4}, "pass: "),
        (HotLoop(periodic={"podcliqueset": "10s"}), {"idle_reconciles": 7}, "fail: .* 0.133 a second"),
        # The twin is too short for it: whatever the period, one is allowed.
        (HotLoop(periodic={"podcliqueset": "5m"}), {"idle_reconciles": 1}, "pass: "),
        (HotLoop(), {"idle_reconciles": 3000}, "fail: .* 100 a second"),
        (HotLoop(idle_per_second=101), {"idle_reconciles": 3000}, "pass: "),
        (HotLoop(), {"reconciles": {"podcliqueset": 20}}, "pass: "),
        (HotLoop(), {"reconciles": {"podcliqueset": 21}}, "fail: .* 10 pods 2.1 > 2"),
        (HotLoop(passes=3), {"reconciles": {"podcliqueset": 21}}, "pass: "),
        (HotLoop(), {"reconciles": {"podcliqueset": 40}, "triggers": 2}, "pass: "),
        (HotLoop(), {"twin": False}, "inconclusive: .*'steady-state' .*twin"),
        (HotLoop(), {"twin_outcome": "interrupted"}, "inconclusive: .*twin .*interrupted"),
        (HotLoop(), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile"),
        (HotLoop(), FAULTS["no trigger"][0], "inconclusive: no trigger"),
        (HotLoop(), FAULTS["no metrics"][0], "inconclusive: "),
        (HotLoop(), FAULTS["operator restarted"][0], "inconclusive: .*restarted"),
    ],
    ids=in_words,
)  # fmt: skip
def test_hot_loop(check: Any, facts: dict[str, Any], expected: str, snapshot: SnapshotAssertion) -> None:
    found = verdict(check, NoopRun(**facts))
    assert re.match(expected, found)
    assert found == snapshot


@pytest.mark.parametrize(
    ("objects", "idle", "said"), [(10, 9, "inconclusive"), (10, 19, "inconclusive"), (10, 20, "fail"), (10, 2, "pass")]
)
def test_one_late_pass_over_all_objects_is_no_loop(objects: int, idle: int, said: str) -> None:
    test = NoopRun(idle_reconciles=idle).result()
    twin = phase(test, IDLE)
    rows = tuple(msgspec.structs.replace(row, objects=objects) for row in twin.reconciles)
    assert verdict(HotLoop(), changed(test, IDLE, reconciles=rows)).startswith(said)


def test_what_the_idle_twin_is_too_short_for_is_said() -> None:
    found = judge(HotLoop(periodic={"podcliqueset": "5m", "absent": "1s"}), Run(NoopRun().result()))
    assert found.verdict == "pass"
    assert [line.partition(":")[0] for line in found.evidence[-3:]] == [
        "podcliqueset",
        "periodic",
        "steady-state (idle) lasted 30 s",
    ]


@pytest.mark.parametrize("bad", [{"a": "0s"}, {"a": "often"}, {"a": -1}])
def test_what_is_no_period_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="period"):
        HotLoop(periodic=bad)
    with pytest.raises(UsageError, match="idle_per_second"):
        HotLoop(periodic={"a": "1s"}, idle_per_second=1)


def test_a_hot_loop_needs_to_know_how_many_objects_there_are(snapshot: SnapshotAssertion) -> None:

    test = msgspec.structs.replace(NoopRun().result(), objects=None)
    found = verdict(HotLoop(), test)
    assert found.startswith("inconclusive: ")
    assert found == snapshot


# ---- CPU


@pytest.mark.parametrize(
    ("check", "facts", "expected"),
    [
        (NoopCpu(times_idle=4.1), {}, "pass: CPU.* 3 times ≤ 4.1 times"),
        (NoopCpu(times_idle=3), {}, "inconclusive: .* 1.98 times and 4.02 times"),
        (NoopCpu(times_idle=1.9), {}, "fail: "),
        (NoopCpu(times_idle=3), {"idle_cpu": 0.0}, "inconclusive: no CPU time"),
        (NoopCpu(per_reconcile="60ms"), {}, "pass: CPU .* 40 ms ≤ 60 ms"),
        (NoopCpu(per_reconcile="39ms"), {}, "inconclusive: .* 21 ms and 59 ms"),
        (NoopCpu(per_reconcile="20ms"), {}, "fail: "),
        (NoopCpu(per_reconcile="39ms"), {"idle_reconciles": 5}, "inconclusive: 5 reconciles"),
        (NoopCpu(per_reconcile=0.3, controller="podcliqueset"), {}, "pass: CPU .* podcliqueset 200 ms"),
        (NoopCpu(per_reconcile="1s"), {"idle_cpu": 0.4}, "inconclusive: .*not idle"),
        (NoopCpu(per_reconcile="1s"), {"twin": False}, "inconclusive: .*twin"),
        (NoopCpu(per_reconcile="1s"), {"idle_cpu": None}, "inconclusive: CPU of 'operator'"),
        (NoopCpu(per_reconcile="1s"), {"steady_cpu": None}, "inconclusive: CPU of 'operator'"),
        (NoopCpu(per_reconcile="1s"), {"profiled": True}, "inconclusive: profilers"),
        (NoopCpu(times_idle=99), {"profiled": True}, "inconclusive: profilers"),
        (NoopCpu(times_idle=99), FAULTS["dead trigger"][0], "inconclusive: .*no reconcile"),
        (NoopCpu(times_idle=99), FAULTS["operator restarted"][0], "inconclusive: operator"),
        (NoopCpu(times_idle=99), FAULTS["phase failed"][0], "inconclusive: .*timeout"),
        (NoopCpu(times_idle=99, process="operatr"), {}, "inconclusive: CPU of 'operatr'"),
    ],
    ids=in_words,
)
def test_cpu_of_a_noop(check: Any, facts: dict[str, Any], expected: str, snapshot: SnapshotAssertion) -> None:
    found = verdict(check, NoopRun(**facts))
    assert re.match(expected, found)
    assert found == snapshot


def test_cpu_reports_window_idle_and_difference(snapshot: SnapshotAssertion) -> None:
    found = judge(NoopCpu(times_idle=9), Run(NoopRun().result()))
    window, idle, difference = found.evidence[:-1]
    assert f" {STEADY}: 300 ms" in window
    assert f" {IDLE}: 100 ms" in idle
    assert difference.endswith(": 200 ms")
    assert "\n".join(found.evidence) == snapshot


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
    found = verdict(NoopCpu(vs="main", tolerance=tolerance), NoopRun(), baselines=lambda name: runs)
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
    found = judge(NoopCpu(vs="main"), Run(NoopRun().result(), baselines=lambda name: runs))
    assert re.match(source, found.evidence[-1]), found.evidence[-1]
    assert found.evidence[-1] == snapshot


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


def test_several_phases_with_triggers_must_be_distinguished(snapshot: SnapshotAssertion) -> None:
    test = changed(NoopRun().result(), "deploy", triggers=1)
    with pytest.raises(UsageError) as caught:
        judge(NoopWrites(), Run(test))
    assert str(caught.value) == snapshot
    assert judge(NoopWrites(phase=STEADY), Run(test)).verdict == "pass"


def test_the_windows_of_a_comparison_are_not_meant() -> None:
    test = NoopRun().result()
    window = msgspec.structs.replace(phase(test), name="noop-1")
    judged = judge(NoopWrites(), Run(msgspec.structs.replace(test, phases=(*test.phases, window))))
    assert (judged.verdict, judged.phase) == ("pass", STEADY)


def test_a_phase_that_is_not_there_is_inconclusive_and_named(snapshot: SnapshotAssertion) -> None:
    found = verdict(NoopWrites(phase="steady-stat"), NoopRun())
    assert re.match("inconclusive: .*'steady-stat'.* steady-state", found)
    assert found == snapshot
