"""Blocked workers by metrics: what is one, what is none, and what is undetermined."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.analysis.blocked_workers import workers_of_phase
from pytest_grovescale.analysis.controller_result import WorkerRow
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.profiling.stacks import DUMPED_AFTER_S, BlockedWorkers
from pytest_grovescale.recording.worker_history import WorkerHistory, blocked_now, spells

from .worker_pool import WorkerPool, moment, recording


def history_of(records: Sequence[rec.AnyRecord]) -> WorkerHistory:
    found = WorkerHistory()
    for record in records:
        found.feed(record)
    return found


def row(records: Sequence[rec.AnyRecord], *, longest: float = 10.0) -> WorkerRow:
    rows, why = workers_of_phase(history_of(records), "deploy", longest=longest)
    assert not why
    (found,) = rows
    return found


def test_five_workers_that_wait_twenty_seconds_each() -> None:
    found = row(recording(WorkerPool(), seconds=60))
    assert (found.workers, found.active_share, found.depth_max) == (5, 1.0, 95)
    assert found.busy_workers == pytest.approx(5)
    assert found.cores_per_worker == pytest.approx(0.003)
    # Three rounds of twenty seconds; in each the wait is seen from its eleventh second on, back to where it began.
    assert found.blocked_s == pytest.approx(55, abs=6)
    assert not found.blocked[0].starved
    assert found.blocked[0].start_s == pytest.approx(5, abs=5)


def test_waits_that_never_end_starve_the_queue() -> None:
    found = row(recording(WorkerPool(takes_s=1000), seconds=60))
    assert found.finished_per_s == 0
    assert found.unfinished_growth == pytest.approx(5)
    ((start, end, starved),) = [(spell.start_s, spell.end_s, spell.starved) for spell in found.blocked]
    assert (start, end, starved) == (0, 60, True)


def test_waits_that_end_one_after_the_other_keep_the_workers_as_well() -> None:
    """The queue falls, but only as fast as waits of twenty seconds let it."""
    found = row(recording(WorkerPool(shift_s=4), seconds=60))
    assert found.blocked_s > 30


def test_work_is_no_wait() -> None:
    assert row(recording(WorkerPool(cores=0.19), seconds=60)).blocked == ()


def test_short_reconciles_of_a_long_queue_are_no_wait() -> None:
    found = row(recording(WorkerPool(keys=10_000, takes_s=0.02), seconds=60))
    assert (found.blocked, found.problem) == ((), "")


def test_workers_that_wait_while_no_key_does_block_no_one() -> None:
    found = row(recording(WorkerPool(keys=5, takes_s=1000), seconds=60))
    assert found.active_share == 1
    assert found.blocked == ()


def test_one_stuck_worker_of_five_is_not_all_of_them() -> None:
    busy, stuck = WorkerPool(keys=10_000, takes_s=0.05, workers=4), WorkerPool(keys=1, takes_s=1000, workers=1)
    records = []
    for one, other in zip(recording(busy), recording(stuck), strict=True):
        if not isinstance(one, rec.Scraped) or not isinstance(other, rec.Scraped):
            records.append(one)
            continue
        both = {
            series: max(one.samples[series], other.samples[series])
            if "longest" in series
            else one.samples[series] + other.samples[series]
            for series in one.samples
        }
        records.append(rec.Scraped(at=one.at, target="operator", edge=one.edge, samples=both))
    assert row(records).blocked == ()


def test_each_controller_has_a_row_of_its_own() -> None:
    records = recording(WorkerPool(takes_s=1000), WorkerPool(controller="podclique", keys=50, takes_s=0.1), seconds=60)
    rows, _ = workers_of_phase(history_of(records), "deploy")
    assert {found.controller: bool(found.blocked) for found in rows} == {"podclique": False, "podcliqueset": True}


def test_queues_alone_tell_it_too() -> None:
    found = row(recording(WorkerPool(whole=False), seconds=60))
    assert (found.workers, found.active_share) == (None, None)
    assert found.busy_workers == pytest.approx(5)
    assert found.blocked


def test_the_cpu_time_that_the_operator_reports_of_itself_will_do() -> None:
    def serving(cores: float) -> list[rec.AnyRecord]:
        return [
            rec.Scraped(
                at=record.at,
                target="operator",
                edge=record.edge,
                samples=record.samples | {"process_cpu_seconds_total": cores * (record.at - moment(0)) / 1e9},
            )
            if isinstance(record, rec.Scraped)
            else record
            for record in recording(WorkerPool(), clock=False)
        ]

    assert row(serving(0.02)).blocked
    assert row(serving(0.9)).blocked == ()


def test_without_any_cpu_time_a_wait_looks_like_work() -> None:
    found = row(recording(WorkerPool(), clock=False))
    assert found.blocked == ()
    assert "CPU time" in found.problem


@pytest.mark.parametrize("every", [30.0, 1000.0])
def test_too_few_scrapes_tell_nothing(every: float) -> None:
    found = row(recording(WorkerPool(keys=20, takes_s=15), seconds=60, every=every), longest=2)
    assert found.blocked == ()
    assert "too few" in found.problem


def test_a_phase_shorter_than_a_wait_needs_no_scrapes_between_its_edges() -> None:
    found = row(recording(WorkerPool(keys=5, takes_s=1), seconds=6, every=100))
    assert (found.blocked, found.problem) == ((), "")


def test_a_restart_ends_a_spell() -> None:
    records = recording(WorkerPool(takes_s=1000), seconds=60)
    before = [record for record in recording(WorkerPool(takes_s=3), seconds=60) if record.at < moment(30)]
    after = [record for record in records if record.at >= moment(30)]
    found = row([*before, *after])
    assert all(spell.start_s >= 30 for spell in found.blocked)
    assert found.busy_workers is None


def test_a_queue_of_several_priorities_is_one() -> None:
    series = 'workqueue_depth{controller="podcliqueset",name="podcliqueset",priority="-100"}'
    records = [
        rec.Scraped(at=record.at, target="operator", edge=record.edge, samples=record.samples | {series: 7.0})
        if isinstance(record, rec.Scraped)
        else record
        for record in recording(WorkerPool())
    ]
    assert row(records).depth_max == 102


def test_queues_of_libraries_and_idle_controllers_have_no_row() -> None:
    idle = WorkerPool(controller="podclique", keys=0)
    library = WorkerPool(controller="DynamicServingCertificateController", keys=5)
    rows, _ = workers_of_phase(history_of(recording(idle, library)), "deploy")
    assert rows == ()


def test_an_operator_without_work_queues_is_not_reported_of() -> None:
    history = history_of([rec.Scraped(at=moment(0), target="operator", edge="start:deploy", samples={"up": 1.0})])
    assert "no workqueue_* families" in workers_of_phase(history, "deploy")[1]
    assert "not scraped" in workers_of_phase(history, "delete")[1]


def live_dumps(records: Sequence[rec.AnyRecord]) -> list[int]:
    """Return at which records the recorder would have dumped the operator's stacks."""

    async def feed() -> list[int]:
        dumped: list[int] = []

        async def dump(process: str) -> None:
            assert process == "operator"
            dumped.append(index)

        watch = BlockedWorkers(dump)
        for index, record in enumerate(records):  # noqa: B007 - dump() reads it
            watch.feed(record)
            await asyncio.sleep(0)
        await watch.close()
        return dumped

    return asyncio.run(feed())


@given(
    pool=st.builds(
        WorkerPool,
        keys=st.integers(0, 60),
        workers=st.integers(1, 5),
        takes_s=st.sampled_from([0.1, 1.0, 4.0, 15.0, 500.0]),
        shift_s=st.sampled_from([0.0, 0.7, 5.0]),
        cores=st.sampled_from([0.0, 0.04, 0.06, 1.0]),
        whole=st.booleans(),
    ),
    every=st.sampled_from([0.5, 1.0, 5.0, 17.0]),
    seconds=st.sampled_from([8.0, 45.0, 130.0]),
)
def test_the_recorder_sees_live_what_the_analysis_finds(pool: WorkerPool, every: float, seconds: float) -> None:
    records = recording(pool, every=every, seconds=seconds)
    inside = [record for record in records if not (isinstance(record, rec.Scraped) and record.edge.startswith("end:"))]
    history = history_of(inside)
    readings = history.of_phase(pool.controller, "deploy")
    found = [seconds for seconds in DUMPED_AFTER_S if spells(readings, history.cpu, seconds)]
    dumps = live_dumps(records)
    assert bool(dumps) == bool(found)
    assert len(dumps) <= len(found)


@given(st.integers(4, 400), st.sampled_from([0.02, 4.0, 20.0, 1000.0]), st.sampled_from(DUMPED_AFTER_S))
def test_what_is_forgotten_would_have_answered_nothing(seconds: int, takes_s: float, longest: float) -> None:
    whole, kept = WorkerHistory(), WorkerHistory()
    for record in recording(WorkerPool(takes_s=takes_s), seconds=seconds):
        for history in (whole, kept):
            history.feed(record)
        kept.forget(max(DUMPED_AFTER_S))
        for controller, readings in filter(lambda named: named[1], whole.readings.items()):
            answer = blocked_now(readings, whole.cpu, longest)
            assert blocked_now(kept.readings[controller], kept.cpu, longest) == answer
    most = max(DUMPED_AFTER_S) + 5
    assert all(len(readings) <= most for readings in kept.readings.values())
    assert max(len(kept.cpu.clock), len(kept.cpu.scraped), len(kept.scrapes)) <= most
