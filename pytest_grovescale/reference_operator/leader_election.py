"""Leader election by a Lease: only one of several replicas of this operator is active. Off by default."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import socket
from typing import Any

import msgspec

from .api_client import ApiClient, ApiError
from .resources import LEASE

log = logging.getLogger(__name__)

_NAME = "grove-reference-operator"
_DURATION_S, _RENEW_DEADLINE_S, _RETRY_S = 15, 10.0, 2.0


class LeadershipLost(Exception):
    """The lease could not be renewed in time; another candidate may hold it now."""


class Leadership:
    """One candidate of the election."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self.identity = f"{socket.gethostname()}_{os.getpid()}"
        self._seen: tuple[str, float] = ("", 0.0)

    async def acquire(self) -> None:
        """Wait until this candidate holds the lease."""
        while True:
            if await self._attempt():
                break
            await asyncio.sleep(_RETRY_S)
        log.info("leading as %s", self.identity)

    async def keep(self) -> None:
        """Renew the lease until cancelled. Raises LeadershipLost."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(_RETRY_S)
            if await self._attempt():
                renewed = loop.time()
            elif loop.time() - renewed > _RENEW_DEADLINE_S:
                raise LeadershipLost(f"{self.identity}: the lease could not be renewed for {_RENEW_DEADLINE_S:g} s")

    async def release(self) -> None:
        """Release the lease, so that the next candidate need not wait for its expiry."""
        try:
            lease = await self._read()
            if lease is not None and lease["spec"].get("holderIdentity") == self.identity:
                lease["spec"]["holderIdentity"] = ""
                await self._api.put(LEASE.path(self._namespace, _NAME), lease)
        except ApiError as error:
            log.warning("the lease was not released: %s", error)

    async def _attempt(self) -> bool:
        try:
            lease = await self._read()
            if lease is None:
                await self._api.post(LEASE.collection(self._namespace), self._body({}))
                return True
            if not self._may_take(lease):
                return False
            await self._api.put(LEASE.path(self._namespace, _NAME), self._body(lease))
        except (ApiError, TimeoutError) as error:
            log.warning("leader election: %s", error)
            return False
        return True

    async def _read(self) -> dict[str, Any] | None:
        try:
            answer = await self._api.get(LEASE.path(self._namespace, _NAME))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return dict(msgspec.json.decode(answer))

    def _may_take(self, lease: dict[str, Any]) -> bool:
        spec = lease["spec"]
        if spec.get("holderIdentity") in (self.identity, "", None):
            return True
        # Measured by this process's clock: the holder's may be off.
        now = asyncio.get_running_loop().time()
        if self._seen[0] != spec.get("renewTime", ""):
            self._seen = (spec.get("renewTime", ""), now)
        return now - self._seen[1] > float(spec.get("leaseDurationSeconds", _DURATION_S))

    def _body(self, lease: dict[str, Any]) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = lease.get("spec", {})
        changes = before.get("holderIdentity") != self.identity
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": lease.get("metadata", {"name": _NAME, "namespace": self._namespace}),
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": _DURATION_S,
                "acquireTime": now if changes else before.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": int(before.get("leaseTransitions", 0)) + (1 if changes and before else 0),
            },
        }
