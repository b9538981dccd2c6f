"""Which run comes when: interleaved, shuffled within rounds, resumed where it was."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.bench.store import Slot, complete_rounds, interleaved, left, looks, shuffled

sizes = st.lists(st.integers(1, 5000).map(str), min_size=1, max_size=6, unique=True)


def test_pairs_take_turns_in_who_begins() -> None:
    assert [slot.arm for slot in interleaved("noop", 4)] == list("abbaabba")


@given(pairs=st.integers(1, 40))
def test_neither_arm_is_later_on_average_than_by_one_half_run(pairs: int) -> None:
    order = [slot.arm for slot in interleaved("deploy", pairs)]
    places = {arm: sum(at for at, one in enumerate(order) if one == arm) for arm in "ab"}
    assert abs(places["a"] - places["b"]) <= 1


@given(values=sizes, repeats=st.integers(1, 5), seed=st.integers())
def test_a_sweep_runs_every_value_once_in_each_round(values: list[str], repeats: int, seed: int) -> None:
    slots = shuffled("sweep", values, repeats, seed=seed)
    assert slots == shuffled("sweep", values, repeats, seed=seed)
    assert [slot.round for slot in slots] == sorted(slot.round for slot in slots)
    assert Counter((slot.round, slot.arm) for slot in slots) == Counter(
        (repeat, value) for repeat in range(repeats) for value in values
    )


def test_a_sweep_is_not_in_order_of_size() -> None:
    values = [str(n) for n in range(1, 9)]
    orders = [[s.arm for s in shuffled("sweep", values, 3) if s.round == repeat] for repeat in range(3)]
    assert any(order != values for order in orders)
    assert orders[0] != orders[1]


@given(pairs=st.integers(1, 20), done=st.integers(0, 40))
def test_what_is_left_after_any_number_of_runs_is_the_rest_of_the_plan(pairs: int, done: int) -> None:
    planned = interleaved("noop", pairs)
    assert left(planned, planned[:done]) == planned[done:]


@given(pairs=st.integers(1, 20), data=st.data())
def test_complete_rounds_are_those_without_a_gap(pairs: int, data: st.DataObject) -> None:
    planned = interleaved("noop", pairs)
    done = data.draw(st.sets(st.sampled_from(planned)))
    rounds = complete_rounds(done, "noop", ("a", "b"))
    assert all({(n, "a"), (n, "b")} <= {(s.round, s.arm) for s in done} for n in range(rounds))
    assert not {(rounds, "a"), (rounds, "b")} <= {(s.round, s.arm) for s in done}
    assert complete_rounds(done, "deploy", ("a", "b")) == 0


@pytest.mark.parametrize(
    ("pairs", "expected"), [(2, (2,)), (5, (5,)), (6, (5, 6)), (10, (5, 10)), (14, (7, 14)), (15, (8, 15))]
)
def test_looks_are_planned_one_on_the_way_and_one_at_the_end(pairs: int, expected: tuple[int, ...]) -> None:
    assert looks(pairs) == expected
    assert looks(pairs + 1, warmup=1) == tuple(look + 1 for look in expected)


def test_the_name_of_a_slot_is_a_file_name() -> None:
    assert Slot(part="deploy", round=3, arm="b").name == "deploy-03-b"
    assert Slot(part="sweep", round=0, arm="a/b c").name == "sweep-00-a_b_c"
