"""The lock on a cluster that other machines use too: a queue in one Lease object on its API server.

All claims are in an annotation of the Lease; its spec is a summary for ``kubectl get lease``. Every change replaces the
whole object at the resourceVersion that was read, so that of two concurrent changes the API server accepts one, and the
other is repeated. First come, first served: no claim passes a waiting one that it would delay. Claims are renewed in
the background; waiting processes drop expired ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import getpass
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import msgspec

from .. import durations
from ..errors import ClusterError, GrovescaleError
from ..kube.client import Client
from ..kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, ServerUnavailable
from . import state

Say = Callable[[str], None]

NAMESPACE = "grovescale"
"""Created if missing; it stays, as the Lease does, without holders."""
NAME = "turns"
ANNOTATION = "grovescale.io/turns"

_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_REQUEST_S = 10.0
_AT_ONCE_S = 0.1
"""Longest delay before a retry after a conflict, s."""


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


EMPTY = Order()


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


class Rhythm(NamedTuple):
    """Intervals of the lock, s."""

    lasts: float = 30.0
    """A claim that is not renewed for so long expires. A machine that a measurement saturates may renew late."""
    renew: float = 5.0
    look: float = 1.0
    """Polling interval of a waiting process."""


RHYTHM = Rhythm()


def claim(*, alone: bool, operator: bool, cluster: str = "", rhythm: Rhythm = RHYTHM) -> Claim:
    """Return a claim of this process; ``operator``: its test uses an operator that this machine starts. ``cluster``:
    the name of the one whose nodes it uses."""
    host = socket.gethostname()
    return Claim(
        id=f"{host}-{os.getpid()}-{secrets.token_hex(4)}",
        who=f"{_user()}@{host} (pid {os.getpid()})",
        alone=alone,
        operator_of=f"{host}:{state.root()}" if operator else "",
        cluster=cluster,
        lasts_s=rhythm.lasts,
    )


async def standing(client: Client) -> Order:
    """Return all claims. Raises ApiError, ClusterError."""
    try:
        answer = await client.request("GET", f"{_LEASES}/{NAME}", timeout=_REQUEST_S)
    except NotFound:
        return EMPTY
    return _order(msgspec.json.decode(answer, type=dict[str, Any]))


class SharedTurn:
    """One test's hold on the lock. All methods run in the client's event loop; ``take`` first, ``give_back`` last."""

    def __init__(self, client: Client, claim: Claim, *, rhythm: Rhythm = RHYTHM) -> None:
        self._board = _Board(client)
        self._claim = claim
        self._rhythm = rhythm
        self._observer = Observer()
        self._stood = False
        self._renewed_at = time.monotonic()
        """Time of the last accepted renewal, by this machine's clock."""
        self._lost = ""
        self._renewing: asyncio.Task[None] | None = None

    async def take(self, say: Say) -> None:
        """Return when this test holds the lock; it is renewed from then on. Raises ClusterError, ApiError."""
        began = time.monotonic()
        reported: list[str] = []
        while not holds(order := await self._look(), self._claim.id):
            ahead = [f"{other.who}{', measuring' * other.alone}" for other in ahead_of(order, self._claim)]
            if ahead and ahead != reported:
                say(f"waiting for a turn on this cluster behind {'; '.join(ahead)}")
                reported = ahead
            await asyncio.sleep(self._rhythm.look)
        if reported:
            say(f"waited {durations.text(time.monotonic() - began)} for its turn on this cluster")
        self._renewing = asyncio.create_task(self._keep())

    async def lost(self) -> str:
        """Return the reason if this test lost the lock for some time, as text; empty if it did not."""
        if not self._lost:
            try:
                await self._renew()
            except GrovescaleError as error:
                silent = durations.text(time.monotonic() - self._renewed_at)
                return f"whether the turn on this cluster was kept is not known for the last {silent}: {error.message}"
        return self._lost

    async def give_back(self, say: Say) -> None:
        """Release the lock; waiting tests continue at once. Idempotent."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
            self._renewing = None
        if not self._stood:
            return
        self._stood = False
        try:
            await self._board.change(lambda order: without(order, {self._claim.id}))
        except GrovescaleError as error:
            say(f"the turn on this cluster ends by itself in {durations.text(self._rhythm.lasts)}: {error.message}")

    async def _look(self) -> Order:
        """Return the order, with this claim and without expired ones."""
        self._stood = True
        try:
            return await self._change(self._enter)
        except ServerUnavailable:
            # A wait of hours must survive a restart of the API server; a claim must not survive its expiry.
            if time.monotonic() - self._renewed_at > self._rhythm.lasts:
                raise
            return EMPTY

    def _enter(self, order: Order) -> Order:
        now = time.monotonic()
        if given_up := self._observer.given_up(order, now) - {self._claim.id}:
            order = without(order, given_up)
        standing = any(other.id == self._claim.id for other in order.claims)
        fresh = standing and now - self._renewed_at < self._rhythm.renew
        return order if fresh else stands(order, self._renewed())

    async def _keep(self) -> None:
        while not self._lost:
            # The next renewal retries; `lost` reports the consequences.
            with contextlib.suppress(GrovescaleError):
                await self._renew()
            await asyncio.sleep(self._rhythm.renew)

    async def _renew(self) -> None:
        def renew(order: Order) -> Order:
            return stands(order, self._renewed()) if holds(order, self._claim.id) else order

        order = await self._change(renew)
        if not holds(order, self._claim.id):
            silent = durations.text(time.monotonic() - self._renewed_at)
            others = "; ".join(other.who for other in order.holders)
            self._lost = (
                f"the turn on this cluster was lost: it was not renewed for {silent}, and another process took one"
                + (f" ({others})" if others else "")
            )

    async def _change(self, change: Callable[[Order], Order]) -> Order:
        asked_at = time.monotonic()
        order = await self._board.change(change)
        mine = next((claim for claim in order.claims if claim.id == self._claim.id), self._claim)
        if mine.renewed != self._claim.renewed:
            self._claim, self._renewed_at = mine, asked_at
        return order

    def _renewed(self) -> Claim:
        return msgspec.structs.replace(self._claim, renewed=_now())


class _Board:
    """Reads and replaces the Lease."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def change(self, change: Callable[[Order], Order]) -> Order:
        """Replace the order by ``change(order)``, repeated after each conflict, and return the new order."""
        while True:
            try:
                lease = await self._read()
                order = _order(lease)
                changed = change(order)
                if changed != order:
                    await self._replace(lease, changed)
            except Conflict:
                await asyncio.sleep(random.uniform(0, _AT_ONCE_S))
            except Forbidden as error:
                raise ClusterError(
                    f"tests on a cluster that others use take turns, which needs the Lease {NAMESPACE}/{NAME}: "
                    + error.message,
                    next_step="Bind ClusterRole grovescale-harness-turns of fixtures/rbac/harness.yaml: get, create and"
                    " update on leases, and create on namespaces.",
                ) from error
            else:
                return changed

    async def _read(self) -> dict[str, Any]:
        while True:
            try:
                return await self._ask("GET", f"{_LEASES}/{NAME}")
            except NotFound:
                await self._make()

    async def _make(self) -> None:
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}, "spec": {}}
        with contextlib.suppress(AlreadyExists):
            try:
                await self._ask("POST", _LEASES, lease)
            except NotFound:
                await self._ask(
                    "POST",
                    "/api/v1/namespaces",
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
                )

    async def _replace(self, lease: dict[str, Any], order: Order) -> None:
        annotations = dict(lease["metadata"].get("annotations") or {})
        annotations[ANNOTATION] = msgspec.json.encode(order).decode()
        # With the resourceVersion that was read: a Conflict if it has changed since.
        metadata = {**lease["metadata"], "annotations": annotations}
        body = {**lease, "metadata": metadata, "spec": _spec(order, lease.get("spec") or {})}
        await self._ask("PUT", f"{_LEASES}/{NAME}", body)

    async def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        encoded = None if body is None else msgspec.json.encode(body)
        answer = await self._client.request(method, path, body=encoded, timeout=_REQUEST_S)
        return msgspec.json.decode(answer, type=dict[str, Any])


def _order(lease: dict[str, Any]) -> Order:
    text = (lease["metadata"].get("annotations") or {}).get(ANNOTATION, "{}")
    try:
        return msgspec.json.decode(text, type=Order)
    except msgspec.MsgspecError as error:
        raise ClusterError(
            f"the Lease {NAMESPACE}/{NAME} holds no turns that can be read: {error}",
            next_step=f"Was it changed by hand? When no test runs: kubectl -n {NAMESPACE} delete lease {NAME}",
        ) from error


def _spec(order: Order, before: dict[str, Any]) -> dict[str, Any]:
    """Return the Lease's own fields, for people: holder and start. They have no effect."""
    spec: dict[str, Any] = {"leaseTransitions": before.get("leaseTransitions", 0)}
    if not order.holders:
        return spec
    names = ", ".join(claim.who for claim in order.holders)
    changed = before.get("holderIdentity") != names
    return {
        "holderIdentity": names,
        "leaseDurationSeconds": max(1, round(max(claim.lasts_s for claim in order.holders))),
        "acquireTime": _now() if changed else before["acquireTime"],
        "renewTime": _now(),
        "leaseTransitions": spec["leaseTransitions"] + changed,
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return str(os.getuid())
