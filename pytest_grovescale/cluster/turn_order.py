"""Queue of the lock on a cluster that several machines use: holders, waiting claims, and expiry.

Plain data and functions on it. All claims are in one Lease object, which is replaced as a whole, so that of two
concurrent changes one is repeated. First come, first served: no claim passes a waiting one that it would delay.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import msgspec


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One test's claim on the lock, held or waiting."""

    id: str
    who: str
    """User and machine, for people."""
    alone: bool
    """Whether the test measures; the others share the lock."""
    operator_of: str = ""
    """Machine and state folder whose operator the test uses; empty: none. An operator reconciles all namespaces, so
    operators of two machines would work on the same objects."""
    cluster: str = ""
    """Name of the cluster whose nodes the test uses."""
    renewed: str = ""
    """Time of the last renewal by its owner's clock. Others only compare it for changes."""
    lasts_s: float
    """Validity, s: without a renewal for so long, the claim expires when another test wants the lock."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """All claims on a cluster."""

    holders: tuple[Claim, ...] = ()
    waiting: tuple[Claim, ...] = ()
    """Waiting claims, in order of arrival."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims, holders first."""
        return self.holders + self.waiting


NOBODY = Order()


def exclude(one: Claim, other: Claim) -> bool:
    """Return whether two claims cannot hold the lock at the same time."""
    if one.alone or other.alone:
        return True
    return bool(one.operator_of and other.operator_of and one.operator_of != other.operator_of)


def holds(order: Order, name: str) -> bool:
    """Return whether the claim with that id holds the lock."""
    return any(claim.id == name for claim in order.holders)


def ahead_of(order: Order, claim: Claim) -> list[Claim]:
    """Return the claims that a claim waits for: holders and earlier ones."""
    earlier = []
    for other in order.waiting:
        if other.id == claim.id:
            break
        earlier.append(other)
    return [other for other in (*order.holders, *earlier) if other.id != claim.id and exclude(other, claim)]


def stands(order: Order, claim: Claim) -> Order:
    """Return the order with a claim renewed in its place, or added at the end of the waiting ones."""
    if not any(other.id == claim.id for other in order.claims):
        return advanced(msgspec.structs.replace(order, waiting=(*order.waiting, claim)))
    return Order(holders=_with(order.holders, claim), waiting=_with(order.waiting, claim))


def without(order: Order, names: AbstractSet[str]) -> Order:
    """Return the order without the claims of those ids; claims that waited only for them now hold the lock."""
    return advanced(
        Order(
            holders=tuple(claim for claim in order.holders if claim.id not in names),
            waiting=tuple(claim for claim in order.waiting if claim.id not in names),
        )
    )


def advanced(order: Order) -> Order:
    """Return the order in which every claim that can hold the lock does."""
    holders, waiting = list(order.holders), list[Claim]()
    for claim in order.waiting:
        blocked = any(exclude(claim, other) for other in (*holders, *waiting))
        (waiting if blocked else holders).append(claim)
    return Order(holders=tuple(holders), waiting=tuple(waiting))


def _with(claims: tuple[Claim, ...], renewed: Claim) -> tuple[Claim, ...]:
    return tuple(renewed if claim.id == renewed.id else claim for claim in claims)


class Observer:
    """Detects expired claims by its own clock alone, independent of other machines' clocks.

    As client-go's leader election does: only the time for which a claim was seen unchanged counts.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}

    def given_up(self, order: Order, now: float) -> set[str]:
        """Check the claims at ``now`` (monotonic, s) and return the ids of the expired ones."""
        before, self._seen = self._seen, {}
        for claim in order.claims:
            renewed, since = before.get(claim.id, (None, now))
            self._seen[claim.id] = (claim.renewed, since if renewed == claim.renewed else now)
        return {claim.id for claim in order.claims if now - self._seen[claim.id][1] > claim.lasts_s}
