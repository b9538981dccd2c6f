"""Whose turn it is on a cluster that several machines use: who holds one, who waits, and who was given up.

Plain data and functions on it. All of it stands in one Lease object, which is replaced as a whole, so that of two who
change it at the same time one has to look again. First come, first served: nobody passes who would keep a waiting one
from its turn.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import msgspec


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One test's turn, held or waited for."""

    id: str
    who: str
    """For people: who runs it, and where."""
    alone: bool
    """A test that measures; the others share."""
    operator_of: str = ""
    """Machine and state folder whose operator the test uses; empty: none. An operator reconciles all namespaces, so
    that those of two machines would work on the same objects."""
    cluster: str = ""
    """Name of the cluster whose nodes the test uses."""
    renewed: str = ""
    """Moment of the last renewal by its owner's clock. Others only see whether it changes."""
    lasts_s: float
    """Who has not renewed it for so long has lost it, as soon as somebody else wants a turn."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """All claims on a cluster."""

    holders: tuple[Claim, ...] = ()
    waiting: tuple[Claim, ...] = ()
    """In the order in which they came."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All of them."""
        return self.holders + self.waiting


NOBODY = Order()


def exclude(one: Claim, other: Claim) -> bool:
    """Return whether two turns cannot be held at the same time."""
    if one.alone or other.alone:
        return True
    return bool(one.operator_of and other.operator_of and one.operator_of != other.operator_of)


def holds(order: Order, name: str) -> bool:
    """Return whether the claim of that id has its turn."""
    return any(claim.id == name for claim in order.holders)


def ahead_of(order: Order, claim: Claim) -> list[Claim]:
    """Return whom a claim waits for: holders, and those who came before it."""
    earlier = []
    for other in order.waiting:
        if other.id == claim.id:
            break
        earlier.append(other)
    return [other for other in (*order.holders, *earlier) if other.id != claim.id and exclude(other, claim)]


def stands(order: Order, claim: Claim) -> Order:
    """Return the order with a claim renewed in its place, or at the end of those who wait."""
    if not any(other.id == claim.id for other in order.claims):
        return advanced(msgspec.structs.replace(order, waiting=(*order.waiting, claim)))
    return Order(holders=_with(order.holders, claim), waiting=_with(order.waiting, claim))


def without(order: Order, names: AbstractSet[str]) -> Order:
    """Return the order without the claims of those ids: whoever waited for them only has its turn now."""
    return advanced(
        Order(
            holders=tuple(claim for claim in order.holders if claim.id not in names),
            waiting=tuple(claim for claim in order.waiting if claim.id not in names),
        )
    )


def advanced(order: Order) -> Order:
    """Return the order in which everybody who can have a turn has it."""
    holders, waiting = list(order.holders), list[Claim]()
    for claim in order.waiting:
        blocked = any(exclude(claim, other) for other in (*holders, *waiting))
        (waiting if blocked else holders).append(claim)
    return Order(holders=tuple(holders), waiting=tuple(waiting))


def _with(claims: tuple[Claim, ...], renewed: Claim) -> tuple[Claim, ...]:
    return tuple(renewed if claim.id == renewed.id else claim for claim in claims)


class Observer:
    """Tells whose claims are given up, by its own clock alone: what other machines take for the time says nothing.

    As client-go's leader election does it: what matters is for how long one has seen a claim unchanged.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}

    def given_up(self, order: Order, now: float) -> set[str]:
        """Look at the claims at a moment (monotonic, s) and return the ids of those not renewed for their time."""
        before, self._seen = self._seen, {}
        for claim in order.claims:
            renewed, since = before.get(claim.id, (None, now))
            self._seen[claim.id] = (claim.renewed, since if renewed == claim.renewed else now)
        return {claim.id for claim in order.claims if now - self._seen[claim.id][1] > claim.lasts_s}
