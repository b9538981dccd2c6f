"""What a test asks while it runs: a Prometheus of its own, or one that is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..errors import PrometheusError
from . import statistics
from .answers import Answer, QueryError
from .api import QUERY_S, Api
from .server import Server
from .statistics import UNREACHABLE, Statistics

DYING_S = 2.0
"""A process of ours that is not reached may be about to end: so long is its end waited for, to tell of that."""


class Live:
    """An open Prometheus; ``opening`` makes it."""

    def __init__(self, api: Api, own: Server | None = None) -> None:
        self.api = api
        self.server = own
        """The process, of one of our own."""

    async def query(self, query: str, *, at: float | None = None, timeout_s: float = QUERY_S) -> Answer:
        """Return the answer to an instant query, now or ``at`` a moment. Raises QueryError, PrometheusError."""
        try:
            return await self.api.query(query, at=at, timeout_s=timeout_s)
        except QueryError:
            raise
        except PrometheusError:
            await self._check()
            raise

    async def statistics(
        self,
        *,
        gauge: Sequence[str] = (),
        diff: Sequence[str] = (),
        rate: Sequence[str] = (),
        by: Sequence[str] = (),
        window_s: float,
    ) -> Statistics:
        """Return latest values, increases and rates, all of one moment; see ``statistics.Statistics``.

        A query that fails is an answer; a Prometheus of our own that has died is raised as PrometheusError.
        """
        asked = statistics.asked_for(gauge, diff, rate)
        found = await statistics.statistics(self.api, asked, by=by, window_s=window_s)
        if any(failed.kind == UNREACHABLE for failed in found.failed.values()):
            await self._check()
        return found

    async def _check(self) -> None:
        if self.server is not None:
            await asyncio.to_thread(self.server.check, within_s=DYING_S)
