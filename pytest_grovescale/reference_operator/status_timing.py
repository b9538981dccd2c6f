"""When a status is written: at once when no further change is expected, rarely while the object is in progress.

A clique of two pods passes through a dozen states between its creation and readiness. Published each, they would be
most of the operator's requests, without a reader. So an unsettled status waits until it has been unpublished for
an interval; a settled one, an error, or a change of availability is written immediately.
"""

from __future__ import annotations

import time
from typing import Any

from .counts import Counts


class StatusTiming:
    """Tracks since when objects (by uid) have had an unpublished status."""

    def __init__(self, interval: float, counts: Counts, *, skip_noop: bool) -> None:
        self._interval = interval
        self._counts = counts
        self.always = not skip_noop
        """baseline: every reconcile writes, also an unchanged status."""
        self._since: dict[str, float] = {}

    def delay(self, uid: str, published: Any, wanted: Any, *, settled: bool) -> float | None:
        """Return 0 if ``wanted`` is to be written now, None if never, else the seconds until then."""
        if self.always:
            return 0.0
        if wanted == published:
            self._since.pop(uid, None)
            self._counts.status_writes_skipped += 1
            return None
        if settled:
            return 0.0
        now = time.monotonic()
        left = self._since.setdefault(uid, now) + self._interval - now
        if left <= 0:
            return 0.0
        self._counts.status_writes_deferred += 1
        return left

    def written(self, uid: str) -> None:
        self._since.pop(uid, None)

    def forget(self, uid: str) -> None:
        """Drop a deleted object."""
        self._since.pop(uid, None)
