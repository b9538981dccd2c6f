"""Live queries of a test: to the run's own Prometheus, or an existing one."""

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
"""Time to wait for the end of a process that stopped answering, s, to report that end as the cause."""


class Live:
    """An open Prometheus; created in ``opening``."""

    def __init__(self, api: Api, own: Server | None = None) -> None:
        self.api = api
        self.server = own
        """Process of the run's own Prometheus; None for an existing one."""

    async def query(self, query: str, *, at: float | None = None, timeout_s: float = QUERY_S) -> Answer:
        """Return the result of an instant query, now or ``at`` a Unix time (s). Raises QueryError, PrometheusError."""
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
        increase: Sequence[str] = (),
        rate: Sequence[str] = (),
        by: Sequence[str] = (),
        window_s: float,
    ) -> Statistics:
        """Return latest values, increases and rates, all of one point in time; see ``statistics.Statistics``.

        A failed query is part of the result; a run's own Prometheus that has died raises PrometheusError.
        """
        asked = statistics.asked_for(gauge, increase, rate)
        found = await statistics.statistics(self.api, asked, by=by, window_s=window_s)
        if any(failed.kind == UNREACHABLE for failed in found.failed.values()):
            await self._check()
        return found

    async def _check(self) -> None:
        if self.server is not None:
            await asyncio.to_thread(self.server.check, within_s=DYING_S)
