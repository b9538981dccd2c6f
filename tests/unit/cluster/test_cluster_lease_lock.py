"""Whose turn it is on a shared cluster: who may share, who waits, in what order, and who is given up."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.cluster import lease_lock
from pytest_grovescale.cluster.lease_lock import EMPTY, Claim, Observer, Order

LASTS_S = 30.0


def claim(name: str, *, alone: bool = False, operator_of: str = "", renewed: str = "") -> Claim:
    return Claim(id=name, who=name, alone=alone, operator_of=operator_of, renewed=renewed, lasts_s=LASTS_S)


def order_of(*claims: Claim) -> Order:
    order = EMPTY
    for one in claims:
        order = lease_lock.stands(order, one)
    return order


def holding(order: Order) -> list[str]:
    return [one.id for one in order.holders]


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (claim("a"), claim("b"), True),
        (claim("a", alone=True), claim("b"), False),
        (claim("a"), claim("b", alone=True), False),
        (claim("a", operator_of="x"), claim("b", operator_of="x"), True),
        (claim("a", operator_of="x"), claim("b", operator_of="y"), False),
        (claim("a", operator_of="x"), claim("b"), True),
    ],
)
def test_which_tests_may_have_a_turn_together(first: Claim, second: Claim, together: bool) -> None:
    assert holding(order_of(first, second)) == (["a", "b"] if together else ["a"])
    assert lease_lock.exclude(first, second) is lease_lock.exclude(second, first)


def test_no_one_passes_a_waiting_measurement() -> None:
    order = order_of(claim("test"), claim("measurement", alone=True), claim("late"))
    assert holding(order) == ["test"]
    assert [one.id for one in lease_lock.ahead_of(order, claim("late"))] == ["measurement"]
    order = lease_lock.without(order, {"test"})
    assert holding(order) == ["measurement"]
    assert holding(lease_lock.without(order, {"measurement"})) == ["late"]


def test_a_renewal_keeps_the_place() -> None:
    order = order_of(claim("a", alone=True), claim("b"), claim("c", alone=True))
    renewed = lease_lock.stands(order, claim("b", renewed="later"))
    assert [one.id for one in renewed.claims] == ["a", "b", "c"]
    assert renewed.waiting[0].renewed == "later"


def test_a_claim_unchanged_for_its_time_is_given_up_whatever_its_clock_says() -> None:
    observer = Observer()
    ahead = claim("fast-clock", renewed="2999-01-01T00:00:00.000000Z")
    behind = claim("slow-clock", renewed="1970-01-01T00:00:00.000000Z")
    assert observer.given_up(order_of(ahead, behind), 100.0) == set()
    behind = msgspec.structs.replace(behind, renewed="1970-01-01T00:00:05.000000Z")
    assert observer.given_up(order_of(ahead, behind), 100.0 + LASTS_S) == set()
    assert observer.given_up(order_of(ahead, behind), 100.1 + LASTS_S) == {"fast-clock"}
    assert observer.given_up(order_of(ahead, behind), 100.1 + 2 * LASTS_S) == {"fast-clock", "slow-clock"}


def test_who_comes_back_is_observed_again() -> None:
    observer = Observer()
    observer.given_up(order_of(claim("a")), 0.0)
    observer.given_up(EMPTY, 10.0)
    assert observer.given_up(order_of(claim("a")), 10.0 + LASTS_S) == set()


CLAIMS = st.builds(
    claim,
    st.sampled_from([f"claim-{number}" for number in range(6)]),
    alone=st.booleans(),
    operator_of=st.sampled_from(["", "here", "there"]),
)
STEPS = st.lists(st.one_of(CLAIMS, st.sampled_from([f"claim-{number}" for number in range(6)])), max_size=40)


@given(STEPS)
def test_no_one_is_excluded_and_no_one_waits_for_nothing(steps: list[Claim | str]) -> None:
    order = EMPTY
    stood: dict[str, Claim] = {}
    for step in steps:
        if isinstance(step, str):
            order = lease_lock.without(order, {step})
            stood.pop(step, None)
        else:
            # What a claim is does not change while it stands; its renewal does.
            order = lease_lock.stands(order, stood.setdefault(step.id, step))
        holders = order.holders
        assert not any(lease_lock.exclude(a, b) for a in holders for b in holders if a.id != b.id)
        assert all(lease_lock.ahead_of(order, waiting) for waiting in order.waiting)
        assert {one.id for one in order.claims} == set(stood)
        assert msgspec.json.decode(msgspec.json.encode(order), type=Order) == order


@given(st.lists(CLAIMS, max_size=12, unique_by=lambda one: one.id))
def test_everybody_gets_a_turn_in_the_order_of_coming(claims: list[Claim]) -> None:
    order = order_of(*claims)
    served: list[str] = []
    while order.claims:
        assert order.holders, "somebody always has a turn"
        first = order.holders[0]
        served.append(first.id)
        order = lease_lock.without(order, {first.id})
    assert sorted(served) == sorted(one.id for one in claims)
    places = {name: served.index(name) for name in served}
    for index, one in enumerate(claims):
        for later in claims[index + 1 :]:
            if lease_lock.exclude(one, later):
                assert places[one.id] < places[later.id]
