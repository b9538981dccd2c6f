"""``no_blocked_workers()``: what it says of a recording, with stacks and without."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.metrics.history import history_of
from pytest_grovescale.analysis.result import CheckResult
from pytest_grovescale.checks import NoBlockedWorkers
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.recording import records as rec
from tests.unit.analysis.simulated import Simulation
from tests.unit.analysis.worker_pool import WorkerPool, moment, recording

WAITS = """\
Task podcliqueset-{n} (most recent call last):
  File "/src/op/controller.py", line 70, in Controller._work
    result = await self._reconcile(key)
  File "/src/op/plugins.py", line {line}, in until_available
    await asyncio.sleep(POLL_S)
  File "/usr/lib/python3.11/asyncio/tasks.py", line 649, in sleep
    return await future
"""


def judged(records: Sequence[rec.AnyRecord], check: NoBlockedWorkers | None = None) -> CheckResult:
    whole = [Simulation().items[0][2], *records]
    return judge(check or NoBlockedWorkers(), Run(analyse(whole), metrics=lambda: history_of(whole)))


def with_stacks(records: Sequence[rec.AnyRecord], *texts: str, at: float = 20.5) -> list[rec.AnyRecord]:
    lines = rec.Lines(at=moment(at), source="stacks:operator", lines="\n".join(texts).splitlines())
    return sorted([*records, lines], key=lambda record: record.at)


def test_blocked_workers_fail_with_their_stacks(snapshot: SnapshotAssertion) -> None:
    stacks = [WAITS.format(n=n, line=31) for n in range(4)] + [WAITS.format(n=4, line=47)]
    found = judged(with_stacks(recording(WorkerPool()), *stacks))
    assert (found.verdict, found.phase, found.unit, found.bound) == ("fail", "deploy", "s", 0)
    assert found.figure is not None
    assert found.figure > 50
    assert "src/op/plugins.py:31" in found.text
    assert found.text == snapshot(name="text")
    assert "\n".join(found.evidence) == snapshot(name="evidence")


def test_without_stacks_the_verdict_is_the_same_and_says_so() -> None:
    failure = rec.SourceFailed(at=moment(20.5), source="stacks:operator", message="py-spy is not permitted")
    for extra, said in (([], "none were dumped"), ([failure], "py-spy is not permitted")):
        found = judged(sorted([*recording(WorkerPool()), *extra], key=lambda record: record.at))
        assert found.verdict == "fail"
        assert any(line.startswith("No stacks") and said in line for line in found.evidence)


@pytest.mark.parametrize(
    ("file", "hint"), [("/src/op/main.py", False), ("/usr/lib/python3.11/asyncio/base_events.py", True)]
)
def test_stacks_that_show_no_worker_are_no_evidence(file: str, hint: bool, snapshot: SnapshotAssertion) -> None:
    found = judged(with_stacks(recording(WorkerPool()), 'Thread 1 (idle): "MainThread"', f"    run ({file}:1)"))
    assert found.verdict == "fail"
    assert "\n".join(found.evidence) == snapshot
    assert any("`stacks:` in its definition" in line for line in found.evidence) is hint


def test_the_dump_with_most_waiting_workers_counts(snapshot: SnapshotAssertion) -> None:
    early = with_stacks(recording(WorkerPool()), WAITS.format(n=0, line=1), at=3)
    both = with_stacks(early, *(WAITS.format(n=n, line=31) for n in range(5)), at=20)
    text = judged(both).text
    assert "src/op/plugins.py:31" in text
    assert text == snapshot


def test_starved_workers_did_nothing(snapshot: SnapshotAssertion) -> None:
    assert judged(recording(WorkerPool(takes_s=1000))).text == snapshot


def test_a_sound_operator_passes_with_its_figures() -> None:
    found = judged(recording(WorkerPool(keys=2000, takes_s=0.05)))
    assert (found.verdict, found.figure) == ("pass", 0)
    assert "none" in found.text
    assert found.evidence[0].startswith("deploy: podcliqueset: S ")


@pytest.mark.parametrize(("longest", "verdict"), [("10s", "fail"), ("30s", "pass")])
def test_how_long_a_reconcile_may_take_is_the_tests_to_say(longest: str, verdict: str) -> None:
    assert judged(recording(WorkerPool()), NoBlockedWorkers(longest=longest)).verdict == verdict


def test_queues_alone_are_named_as_the_source() -> None:
    found = judged(recording(WorkerPool(whole=False)))
    assert found.verdict == "fail"
    assert "some 5 workers of podcliqueset" in found.text
    assert "by its work queue alone" in found.text


@pytest.mark.parametrize(
    "records",
    [
        recording(WorkerPool(keys=20, takes_s=15), every=1000),
        recording(WorkerPool(keys=0)),
        [record for record in recording(WorkerPool()) if not isinstance(record, rec.Scraped)],
    ],
    ids=["few scrapes", "idle", "no scrape"],
)
def test_what_cannot_be_reported_is_inconclusive(records: Sequence[rec.AnyRecord], snapshot: SnapshotAssertion) -> None:
    found = judged(records, NoBlockedWorkers(longest="2s"))
    assert (found.verdict, found.figure) == ("inconclusive", None)
    assert found.text == snapshot
    assert any("--grovescale-scrape-interval" in line for line in found.evidence)


def test_without_cpu_time_more_scrapes_would_not_help(snapshot: SnapshotAssertion) -> None:
    found = judged(recording(WorkerPool(), clock=False))
    assert found.verdict == "inconclusive"
    assert "process_cpu_seconds_total" in found.text
    assert found.text == snapshot
    assert found.evidence == ()


def test_a_phase_is_named() -> None:
    assert judged(recording(WorkerPool()), NoBlockedWorkers(phase="deploy")).verdict == "fail"
    assert "no phase 'delete'" in judged(recording(WorkerPool()), NoBlockedWorkers(phase="delete")).text


def test_a_controller_that_is_blocked_is_found_whatever_else_is_in_doubt() -> None:
    """Found is found: too few scrapes hide waits, and make none up."""
    found = judged(recording(WorkerPool(takes_s=1000), seconds=100, every=25), NoBlockedWorkers(longest="2s"))
    assert found.verdict == "fail"


def test_windows_in_which_nothing_is_to_be_done_need_no_scrapes_between_their_edges() -> None:
    """As in `recording`, then a steady-state phase of thirty seconds that is scraped at its edges only."""
    deploy = recording(WorkerPool(keys=2000, takes_s=0.05))
    still = WorkerPool(keys=2000, takes_s=0.05)
    steady: list[rec.AnyRecord] = [
        rec.Scraped(at=moment(61), target="operator", edge="start:steady-state", samples=still.samples(61)),
        rec.PhaseStarted(at=moment(61), phase="steady-state", timeout_ns=60),
        rec.Scraped(at=moment(91), target="operator", edge="end:steady-state", samples=still.samples(91)),
        rec.PhaseEnded(at=moment(91), phase="steady-state", outcome="passed"),
    ]
    assert judged([*deploy, *steady]).verdict == "pass"
    assert judged([*deploy, *steady], NoBlockedWorkers(phase="steady-state")).verdict == "inconclusive"
    assert judged(steady).verdict == "inconclusive"
