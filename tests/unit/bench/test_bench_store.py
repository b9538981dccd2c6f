"""A comparison on disk: any prefix of finished runs, whatever killed the driver, resumes to the same plan."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import random
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.contention import RunContention
from pytest_grovescale.bench.compare import fewest_to_come, is_over, so_far, to_come, to_discard
from pytest_grovescale.bench.driver import Bench
from pytest_grovescale.bench.noop_windows import Windows
from pytest_grovescale.bench.screen import Screen
from pytest_grovescale.bench.store import (
    PLAN,
    PROFILE,
    SAMPLES,
    SCHEMA_VERSION,
    Plan,
    Sample,
    Slot,
    Store,
    interleaved,
    left,
    pairs,
)
from pytest_grovescale.cluster.machine_lock import MachineLock
from pytest_grovescale.errors import RecordingError, UsageError
from tests.golden import masked
from tests.unit.bench.planned import plan, sample


def cpu(slot: Slot) -> float:
    """A figure that is noise and 20 % more for B, the same whenever it is asked for."""
    return random.Random(slot.name).gauss(1.0, 0.01) * (1.2 if slot.arm == "b" else 1.0)


def go_on(store: Store, planned: Plan, runs: int | None = None) -> list[Slot]:
    """Make the runs that are left, at most so many, as a driver does; return them."""
    made: list[Slot] = []
    for part in planned.comparisons:
        while not is_over(planned, store.samples(), part):
            if runs is not None and len(made) >= runs:
                return made
            slot = left(planned.part(part), store.samples())[0]
            store.keep(sample(slot, cpu(slot)))
            made.append(slot)
    return made


@settings(max_examples=30)
@given(size=st.integers(2, 8), killed_after=st.lists(st.integers(0, 12), max_size=4))
def test_a_killed_comparison_ends_as_one_that_was_not(size: int, killed_after: list[int]) -> None:
    planned = plan(size)
    with tempfile.TemporaryDirectory() as folder:
        straight = Store.create(Path(folder), planned)
        whole = go_on(straight, planned)
        broken_off = Store.create(Path(folder), planned)
        made = []
        for runs in killed_after:
            store = Store(broken_off.folder)
            made += go_on(store, store.plan(), runs)
            # What a kill in the middle of a write leaves.
            (store.folder / SAMPLES / ".noop-00-a.json.123").write_text('{"schema_ver')
        made += go_on(broken_off, broken_off.plan())
        assert made == whole
        assert broken_off.samples() == straight.samples()
        for part in planned.comparisons:
            found = so_far(planned, broken_off.samples(), part)
            assert found == so_far(planned, straight.samples(), part)
            assert found.verdict == "regression" or size == 2


def test_the_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    planned = plan(3, gated=("noop_cpu",))
    assert Store.create(tmp_path, planned).plan() == planned
    assert Store.latest(tmp_path, "compare").plan() == planned


def test_pairs_know_who_was_first(tmp_path: Path) -> None:
    planned = plan(3, ("noop",))
    samples = {slot: sample(slot) for slot in planned.slots[:5]}
    assert [pair.first for pair in pairs(samples, planned.slots, "noop")] == ["a", "b"]


def test_the_default_gates_are_what_the_part_measures(tmp_path: Path) -> None:
    planned = plan(3)
    samples = {slot: sample(slot) for slot in planned.slots}
    assert so_far(planned, samples, "noop").plan.gated == ("noop_cpu",)
    assert so_far(planned, samples, "deploy").plan.gated == ("cpu:deploy",)


def test_a_gate_that_nothing_measures_is_reported_after_the_warm_up(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    planned = plan(3, ("noop",), gated=("noop_writes",))
    samples = {slot: sample(slot) for slot in planned.slots[:2]}
    with pytest.raises(UsageError, match=r"noop_writes[\s\S]*: noop_cpu") as caught:
        so_far(planned, samples, "noop")
    assert str(caught.value) == snapshot


def test_a_broken_variant_ends_its_part_once_the_pair_is_there() -> None:
    planned = plan(4, ("deploy",))
    first = {planned.slots[0]: sample(planned.slots[0], broken="deploy: timed out")}
    assert not is_over(planned, first, "deploy")
    both = first | {planned.slots[1]: sample(planned.slots[1])}
    assert is_over(planned, both, "deploy")
    found = so_far(planned, both, "deploy")
    assert found.verdict == "broken"
    assert found.broken[0].why == "deploy: timed out"


def test_of_a_part_that_a_look_has_settled_nothing_is_to_come() -> None:
    planned = plan(10)
    samples = {slot: sample(slot, cpu(slot)) for slot in planned.part("noop")[:12]}
    assert left(planned.slots, samples) == (*planned.part("noop")[12:], *planned.part("deploy"))
    assert to_come(planned, samples) == planned.part("deploy")
    begun = {slot: sample(slot, cpu(slot)) for slot in planned.part("noop")[:4]}
    assert to_come(planned, begun) == planned.slots[4:]


def test_two_drivers_do_not_work_on_one_comparison(tmp_path: Path) -> None:
    store = Store.create(tmp_path, plan())
    with store.alone(), pytest.raises(UsageError, match="is being worked on"), Store(store.folder).alone():
        pass
    with store.alone():
        pass


def test_nothing_to_resume_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--resume FOLDER"):
        Store.latest(tmp_path, "compare")
    with pytest.raises(RecordingError, match="no such file"):
        Store(tmp_path).plan()


def test_a_newer_plan_is_refused(tmp_path: Path) -> None:
    store = Store.create(tmp_path, plan())
    file = store.folder / PLAN
    file.write_text(file.read_text().replace('"schema_version": 1', f'"schema_version": {SCHEMA_VERSION + 1}', 1))
    with pytest.raises(RecordingError, match="schema version 2"):
        store.plan()


def test_a_damaged_sample_is_named(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    store = Store.create(tmp_path, plan())
    (store.folder / SAMPLES / "noop-00-a.json").write_text("{")
    with pytest.raises(RecordingError, match=r"noop-00-a\.json ") as caught:
        store.samples()
    assert masked(str(caught.value), {store.folder: "folder"}) == snapshot


def test_a_full_disk_is_reported_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    planned = plan()
    store = Store.create(tmp_path, planned)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordingError, match=r"No space left[\s\S]*--resume") as caught:
        store.keep(sample(planned.slots[0]))
    assert masked(str(caught.value), {store.folder: "folder"}) == snapshot
    assert list((store.folder / SAMPLES).iterdir()) == []


def test_runs_in_parallel_have_those_that_were_alone_beside_them() -> None:
    planned = plan(pairs=2, parts=("deploy",))
    parallel = msgspec.structs.replace(planned.comparisons["deploy"], parallel=True)
    planned = msgspec.structs.replace(
        planned,
        slots=(*planned.slots, *interleaved(PROFILE, 1)),
        comparisons={"deploy": parallel},
    )

    def counted(slot: Slot) -> Sample:
        made = sample(slot)
        requests = 15_600.0 if slot.part == PROFILE else 17_837.0
        return msgspec.structs.replace(
            made, run=msgspec.structs.replace(made.run, metrics=made.run.metrics | {"api:deploy": requests}, objects=10)
        )

    found = so_far(planned, {slot: counted(slot) for slot in planned.slots}, "deploy")
    assert [(row.arm, row.key, row.parallel, row.alone) for row in found.alone] == [
        ("a", "api:deploy", 1783.7, 1560.0),
        ("b", "api:deploy", 1783.7, 1560.0),
    ]


def test_the_fewest_runs_to_come_are_those_up_to_the_next_look() -> None:
    planned = plan(pairs=10, parts=("noop",))
    assert planned.comparisons["noop"].looks == (6, 10)
    samples = {slot: sample(slot) for slot in planned.slots[:5]}
    assert len(to_come(planned, samples)) == 15
    assert fewest_to_come(planned, samples) == planned.slots[5:12]
    noisy = {slot: sample(slot, 1 + 0.3 * (slot.round % 3) * (slot.arm == "b")) for slot in planned.slots[:12]}
    assert fewest_to_come(planned, noisy) == to_come(planned, noisy) == planned.slots[12:]


def contended(one: Sample, share: float) -> Sample:
    contention = RunContention(share=share, phase="deploy")
    return msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, contention=contention))


def limited(pairs_: int, repeats: int) -> Plan:
    """A plan of one part whose pairs are repeated at more than 25 %."""
    planned = plan(pairs_, ("noop",), gated=("noop_cpu",))
    comparison = msgspec.structs.replace(planned.comparisons["noop"], max_contention=0.25, repeats=repeats)
    return msgspec.structs.replace(planned, comparisons={"noop": comparison})


def measure(store: Store, planned: Plan, shares: list[float]) -> list[int]:
    """Make all pairs as a driver does, with these contentions one after the other; return the numbers made."""
    made: list[int] = []
    while True:
        if (
            number := to_discard(planned, store.samples(), "noop", len(store.discarded(planned.slots, "noop")))
        ) is not None:
            found = store.samples()
            a, b = (found[Slot(part="noop", round=number, arm=arm)] for arm in "ab")
            store.discard(a, b)
            continue
        if is_over(planned, store.samples(), "noop"):
            return made
        number = left(planned.part("noop"), store.samples())[0].round
        share = shares[len(made)]
        made.append(number)
        for arm in "ab":
            slot = Slot(part="noop", round=number, arm=arm)
            # A contended pair has figures that would be seen.
            store.keep(contended(sample(slot, cpu(slot) + 10 * share), share))


def test_contended_pairs_are_made_again_and_stay_when_repeats_are_used_up(tmp_path: Path) -> None:
    planned = limited(4, repeats=3)
    store = Store.create(tmp_path, planned)
    # The warm-up, pair 2 twice, pair 3 once, then there are no repeats.
    assert measure(store, planned, [0.9, 0.5, 0.4, 0.1, 0.3, 0.0, 0.8]) == [0, 1, 1, 1, 2, 2, 3]
    discarded = store.discarded(planned.slots, "noop")
    assert [(one.round, one.pair.contention.share, one.pair.first) for one in discarded] == [
        (1, 0.5, "b"), (1, 0.4, "b"), (2, 0.3, "a"),
    ]  # fmt: skip
    found = so_far(planned, store.samples(), "noop", discarded)
    assert [(one.pair, one.contention.share, one.contended, one.discarded) for one in found.contention] == [
        (1, 0.9, True, False), (2, 0.5, True, True), (2, 0.4, True, True), (2, 0.1, False, False),
        (3, 0.3, True, True), (3, 0.0, False, False), (4, 0.8, True, False),
    ]  # fmt: skip
    assert [pair.a.contention for pair in pairs(store.samples(), planned.slots, "noop")] == [
        RunContention(share=share, phase="deploy") for share in (0.9, 0.1, 0.0, 0.8)
    ]
    assert any("3 of at most 3 repeats" in warning for warning in found.warnings)
    assert any(warning.startswith("1 pair is contended, of 4") for warning in found.warnings)


def test_a_driver_killed_after_a_discard_makes_both_runs_again(tmp_path: Path) -> None:
    planned = limited(3, repeats=3)
    store = Store.create(tmp_path, planned)
    for slot in planned.slots[:4]:
        store.keep(contended(sample(slot), 0.5))
    found = store.samples()
    store.discard(*(found[Slot(part="noop", round=1, arm=arm)] for arm in "ab"))
    again = Store(store.folder)
    assert {slot.round for slot in left(planned.slots, again.samples())} == {1, 2}
    again.keep(contended(sample(planned.slots[2]), 0.1))
    assert left(planned.slots, again.samples())[0] == planned.slots[3]


def test_a_window_that_is_measured_again_has_a_name_of_its_own_in_its_recording(tmp_path: Path) -> None:
    planned = limited(3, repeats=3)
    store = Store.create(tmp_path, planned)
    windows = Windows(Bench(store, planned, MachineLock(-1, None), Screen(io.StringIO())), contextlib.ExitStack())
    again = Slot(part="noop", round=1, arm="a")
    assert windows._name(again) == "noop-2"
    store.discard(*(contended(sample(Slot(part="noop", round=1, arm=arm)), 0.5) for arm in "ab"))
    assert windows._name(again) == "noop-2-repeat-1"
    assert windows._name(Slot(part="noop", round=2, arm="a")) == "noop-3"


def test_broken_pairs_and_unmeasured_ones_are_not_made_again(tmp_path: Path) -> None:
    planned = limited(3, repeats=3)
    samples = {slot: sample(slot) for slot in planned.slots[:4]}
    assert to_discard(planned, samples, "noop", 0) is None
    broken = {slot: contended(sample(slot, broken="deploy: timeout"), 0.5) for slot in planned.slots[:4]}
    assert to_discard(planned, broken, "noop", 0) is None
    busy = {slot: contended(one, 0.5) for slot, one in samples.items()}
    assert to_discard(planned, busy, "noop", 2) == 1
    assert to_discard(planned, busy, "noop", 3) is None
