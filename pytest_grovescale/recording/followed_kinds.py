"""Follows the objects that the operator makes, of whatever kind: each collection is watched from the first create on.

A test names the objects that it waits for. What else the operator makes (Services, ConfigMaps, its own kinds) shows in
the audit log only by name; whether such an object is left behind, who owns it, and whether a write changed it, only a
watch shows.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from .conditions import WatchSpec
from .object_cache import ObjectKey
from .records import Request
from .watches import Watch, Watches

MAX_FOLLOWED = 24
"""Collections that are followed; a further one is not."""

FIELDS = ("metadata.deletionTimestamp",)

_NOT_FOLLOWED = frozenset({"events", "leases", "endpointslices", "endpoints"})
"""Kinds without an owner that goes with the workload, or that controllers of Kubernetes make and remove themselves."""

_WORKLOADS = frozenset({"apps", "batch"})
"""API groups that are followed although others make the objects: a controller of Kubernetes, for the operator's."""

_LOOK_S = 0.02


class FollowedKinds:
    """The collections that objects of the operator are in, and which objects it has made there.

    ``operator``: its user name in the audit log; empty for none.
    """

    def __init__(self, watches: Watches, *, operator: str, others: frozenset[str]) -> None:
        self._watches = watches
        self._operator = operator
        self._others = others
        """User names of the harness and the recorder, whose objects the test knows."""
        self._followed: dict[str, Watch] = {}
        self._made: dict[str, set[ObjectKey]] = defaultdict(set)
        """Collection → the objects that the operator has made in it, of those that the log names."""

    def created(self, request: Request, path: str) -> None:
        """Take in a request that made an object in the collection at ``path``; follow that, if it is not followed."""
        by_operator = request.user == self._operator
        in_between = request.group in _WORKLOADS and request.user not in self._others
        if not self._operator or request.resource in _NOT_FOLLOWED or not (by_operator or in_between):
            return
        if path not in self._followed:
            if len(self._followed) >= MAX_FOLLOWED:
                return
            resource = f"{request.resource}.{request.group}" if request.group else request.resource
            self._followed[path] = self._watches.follow(WatchSpec(resource=resource, path=path, fields=FIELDS))
        if by_operator and request.name:
            self._made[path].add((request.namespace, request.name))

    def forget(self) -> None:
        """Take what the operator has made so far as part of itself: a Lease, a Secret with its certificate."""
        self._made.clear()

    async def settled(self, timeout: float) -> None:
        """Return when all objects that the operator has made are gone, or have an owner with which they go.

        Or after ``timeout`` seconds: what is there then, the operator has left behind.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while loop.time() < deadline:
            if not any(self._followed[path].unowned(keys) for path, keys in self._made.items()):
                return
            await asyncio.sleep(_LOOK_S)
