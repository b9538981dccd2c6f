"""Follows the objects that the operator makes, of whatever kind: each collection is watched from the first create on.

A test names the objects that it waits for. What else the operator makes (Services, ConfigMaps, its own kinds) shows in
the audit log only by name; whether such an object is left behind, who owns it, and whether a write changed it, only a
watch shows.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from .conditions import KEPT_PATHS, WatchSpec
from .object_cache import ObjectKey
from .records import Request
from .watches import Watch, Watches

MAX_FOLLOWED = 24
"""Collections that are followed; a further one is not."""

LEASE_FIELDS = ("spec.leaseDurationSeconds",)

_LEASES = 4
"""Leases that are followed."""

_NOT_FOLLOWED = frozenset({"events", "endpointslices", "endpoints"})
"""Kinds without an owner that goes with the workload, or that controllers of Kubernetes make and remove themselves."""

_WORKLOADS = frozenset({"apps", "batch"})
"""API groups that are followed although others make the objects: a controller of Kubernetes, for the operator's."""

_LOOK_S = 0.02

_QUIET_NS = 1_000_000_000
"""Time after the last change of any object for which an operator may still be catching up with it, ns."""


class FollowedKinds:
    """The collections that objects of the operator and the workload are in, and which objects those are.

    ``operator`` and ``harness``: their user names in the audit log; without one for the operator nothing is followed.
    ``recorder``: its own.
    """

    def __init__(self, watches: Watches, *, operator: str, harness: str, recorder: str) -> None:
        self._watches = watches
        self._operator = operator
        self._harness = harness
        self._recorder = recorder
        self._followed: dict[str, Watch] = {}
        self._made: dict[str, set[ObjectKey]] = defaultdict(set)
        """Collection → the objects that the operator has made in it, of those that the log names; `_workload`, the
        harness."""
        self._workload: dict[str, set[ObjectKey]] = defaultdict(set)
        self._leases: set[ObjectKey] = set()
        self._began = False

    def begin(self) -> None:
        """Note that a phase begins. What was made before the first is no workload, and part of the operator itself.

        A Lease, say, or a Secret with its certificate.
        """
        if not self._began:
            self._began = True
            self._made.clear()

    def created(self, request: Request, path: str) -> None:
        """Take in a request that made an object in the collection at ``path``; follow that, if it is not followed.

        Of Leases only those that the operator renews are followed, each by itself.
        """
        if request.resource == "leases":
            self._lease(request, path)
            return
        by_operator = request.user == self._operator
        by_harness = request.user == self._harness and self._began
        in_between = request.group in _WORKLOADS and request.user not in (self._harness, self._recorder)
        wanted = by_operator or by_harness or in_between
        if not self._operator or request.resource in _NOT_FOLLOWED or not wanted:
            return
        if path not in self._followed:
            if len(self._followed) >= MAX_FOLLOWED:
                return
            spec = WatchSpec(resource=request.qualified, path=path, fields=KEPT_PATHS)
            self._followed[path] = self._watches.follow(spec)
        if request.name and (by_operator or by_harness):
            (self._made if by_operator else self._workload)[path].add((request.namespace, request.name))

    def _lease(self, request: Request, path: str) -> None:
        key = request.namespace, request.name
        if request.user == self._operator and request.name and key not in self._leases and len(self._leases) < _LEASES:
            self._leases.add(key)
            selector = f"metadata.name={request.name}"
            self._watches.follow(
                WatchSpec(resource=request.qualified, path=path, field_selector=selector, fields=LEASE_FIELDS)
            )

    async def settled(self, timeout: float) -> None:
        """Return when the workload is gone, and with it, or to go with their owners, all that the operator has made.

        And a second after the last change: only then what the operator serves can be held against what is there. Or
        after ``timeout`` seconds: what is there then, the operator has left behind.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while loop.time() < deadline:
            if not self._unsettled() and self._watches.quiet_ns() >= _QUIET_NS:
                return
            await asyncio.sleep(_LOOK_S)

    def _unsettled(self) -> bool:
        return any(self._followed[path].holds(keys) for path, keys in self._workload.items()) or any(
            self._followed[path].holds(keys, unowned=True) for path, keys in self._made.items()
        )
