"""What is seen of a run that was broken on purpose becomes four answers."""

from __future__ import annotations

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from tools.faults import judging
from tools.faults.definitions import Ended, Expectation, Fault, Journal, Kill, Moment, Observation, Outcome

EXPECTED = Expectation(
    outcomes=(
        Outcome(exits=(1,), shown=("ERROR",), says=("supervisor", r"killed|SIGKILL"), next_step=True),
        Outcome(exits=(0,), shown=("PASSED", "INCONCLUSIVE")),
    )
)
FAULT = Fault(
    number=7,
    kind="kill-supervisor",
    what="SIGKILL for the supervisor",
    action=Kill(victim="supervisor"),
    moment=Moment(after="deploy", delay_s=0.5),
    expect=EXPECTED,
)
OUTPUT = "cluster c ended: its Supervisor was killed\n  → Run the tests again.\n=== 1 error in 9 s ===\n"


def ended(code: int | None, output: str) -> Ended:
    return Ended(exit=code, seconds=10, output=output)


GOOD = Observation(
    runs=(ended(1, OUTPUT),),
    journals=(Journal(path="run/recordings/t.jsonl", lines=100),),
    shown=ended(0, "ERROR test_it: ClusterError: …\n"),
    next_run=ended(0, "1 passed\n"),
)


def seen(**changed: object) -> Observation:
    return msgspec.structs.replace(GOOD, **changed)


def reasons(observation: Observation, expect: Expectation = EXPECTED) -> tuple[str, ...]:
    return judging.judge(msgspec.structs.replace(FAULT, expect=expect), observation).reasons


def test_all_as_expected_is_perfect() -> None:
    row = judging.judge(FAULT, GOOD)
    assert row.perfect
    assert row.reasons == ()


@pytest.mark.parametrize(
    ("observation", "question"),
    [
        pytest.param(seen(processes_left=("etcd --data-dir x",)), "left over", id="processes"),
        pytest.param(seen(left_after_run=("state/locks/c.lock",)), "left over", id="files after the run"),
        pytest.param(seen(left_after_next=("tmp/x",)), "left over", id="files after the next run"),
        pytest.param(seen(disturbed=("/keep was changed",)), "left over", id="touched"),
        pytest.param(
            seen(journals=(Journal(path="r", lines=2, broken=("line 2 of 2 has no end",)),)), "lost", id="line"
        ),
        pytest.param(seen(unfinished=("run-1",)), "lost", id="result"),
        pytest.param(seen(journals=(), shown=None), "lost", id="recording"),
        pytest.param(seen(shown=ended(3, "no recording\n")), "lost", id="not shown"),
        pytest.param(seen(shown=ended(0, "some table\n")), "lost", id="no verdict shown"),
        pytest.param(seen(runs=(ended(2, OUTPUT),)), "message", id="exit code"),
        pytest.param(seen(runs=(ended(None, OUTPUT),)), "message", id="not ended"),
        pytest.param(seen(runs=(ended(1, OUTPUT.replace("killed", "gone")),)), "message", id="cause"),
        pytest.param(seen(runs=(ended(1, OUTPUT.replace("→", "-")),)), "message", id="next step"),
        pytest.param(seen(runs=(ended(1, OUTPUT + "If a flag is refused, see x\n"),)), "message", id="wrong cause"),
        pytest.param(seen(shown=ended(0, "FAILED test_it: x\n")), "message", id="verdict"),
        pytest.param(seen(next_run=ended(1, "E  it is broken\n")), "next run", id="next run failed"),
        pytest.param(seen(next_run=ended(None, "deploy: begins\n")), "next run", id="next run not ended"),
        pytest.param(seen(next_run=None), "next run", id="no next run"),
    ],
)
def test_each_thing_that_is_wrong_is_the_one_reason(
    observation: Observation, question: str, snapshot: SnapshotAssertion
) -> None:
    (reason,) = reasons(observation)
    assert reason.startswith(f"{question}: ")
    assert reason == snapshot


def test_a_next_step_may_stand_in_what_pytest_shows_of_an_error() -> None:
    output = OUTPUT.replace("  → Run", "E         → Run")
    assert reasons(seen(runs=(ended(1, output),))) == ()


def test_one_of_several_outcomes_is_enough() -> None:
    passed = seen(runs=(ended(0, "1 passed\n"),), shown=ended(0, "PASSED test_it: 3 checks\n"))
    assert reasons(passed) == ()


def test_every_run_of_several_is_judged(snapshot: SnapshotAssertion) -> None:
    (reason,) = reasons(seen(runs=(ended(1, OUTPUT), ended(-11, ""))))
    assert "exit code -11" in reason
    assert reason == snapshot


def test_files_of_a_killed_program_may_stay_until_the_next_run_and_no_longer(snapshot: SnapshotAssertion) -> None:
    later = msgspec.structs.replace(EXPECTED, until_next_run=("state/locks/",))
    assert reasons(seen(left_after_run=("state/locks/c",)), later) == ()
    (reason,) = reasons(seen(left_after_run=("state/locks/c",), left_after_next=("state/locks/c",)), later)
    assert reason == snapshot(name="the next run")
    (reason,) = reasons(seen(left_after_run=("state/locks/c", "tmp/x")), later)
    assert reason.endswith(": tmp/x")
    assert reason == snapshot(name="the run")
    assert reasons(seen(processes_left=("etcd",)), later) == ("left over: 1 processes: etcd",)


def test_files_that_the_run_left_are_one_reason(snapshot: SnapshotAssertion) -> None:
    (reason,) = reasons(seen(left_after_run=("x",), left_after_next=("x",)))
    assert reason == snapshot


def test_a_run_that_ends_before_its_recording_need_not_have_one() -> None:
    early = Expectation(outcomes=(Outcome(exits=(1,)),))
    assert reasons(seen(journals=(), shown=None), early) == ()


def test_a_full_disk_has_no_room_for_a_result() -> None:
    full = msgspec.structs.replace(EXPECTED, result=False)
    assert reasons(seen(unfinished=("run-1",)), full) == ()


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ("Traceback (most recent call last):\n", "a traceback"),
        ("INTERNALERROR> x\n", "pytest's INTERNALERROR"),
        ('  File "/x/pytest_grovescale/session/run.py", line 7, in turn\n', "a frame of this package"),
        ("/x/pytest_grovescale/session/clusters.py:12: in on_cluster\n", "a frame of this package"),
        ("sys:1: RuntimeWarning: coroutine 'trigger' was never awaited\n", "a warning about this package's coroutines"),
        ("Exception ignored in: <stdout>\n", "an ignored exception"),
        ("the supervisor did not start\n  → Please report this.\n", "a request to report a defect"),
    ],
)
def test_internals_of_the_package_are_no_message(output: str, what: str) -> None:
    assert judging.internals(output) == [what]
    assert f"message: {what}" in reasons(seen(runs=(ended(1, OUTPUT + output),)))


def test_what_pytest_says_of_ctrl_c_is_no_traceback() -> None:
    output = "!!! KeyboardInterrupt !!!\n/x/pytest_grovescale/kube/portal.py:84: KeyboardInterrupt\n(to show a full"
    assert judging.internals(output) == []


def test_a_fault_that_was_skipped_or_did_not_strike_is_never_perfect(snapshot: SnapshotAssertion) -> None:
    skipped = judging.judge(FAULT, Observation(skipped="not root"))
    missed = judging.judge(FAULT, Observation(missed="the run had ended"))
    assert not skipped.perfect
    assert skipped.reasons == ("skipped: not root",)
    assert not missed.perfect
    assert "\n".join(missed.reasons) == snapshot
