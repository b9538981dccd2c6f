"""Conditions and errors in a status, of which an unchanged one keeps its time; and when a status is written.

At once when no further change is expected, rarely while the object is in progress. A clique of two pods passes through
a dozen states between its creation and readiness. Published each, they would be most of the operator's requests,
without a reader. So an unsettled status waits until it has been unpublished for an interval; a settled one, an error,
or a change of availability is written immediately.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Sequence
from typing import Any

from .api_client import ApiError, error_type
from .counts import Counts
from .objects import Condition, LastError

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def now() -> str:
    """Return the current time in the API's format."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(timestamp: str) -> float:
    """Return the seconds since a time in the API's format."""
    then = datetime.datetime.fromisoformat(timestamp)
    return (datetime.datetime.now(datetime.UTC) - then).total_seconds()


def duration(text: str) -> float:
    """Return the seconds of a duration such as ``4h`` or ``1h30m0s`` (the schema admits no other)."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    return next((c for c in conditions if c.type == kind), None)


def condition(before: Sequence[Condition], kind: str, status: str, reason: str, message: str = "") -> Condition:
    """Return a condition; keeps the old transition time if the status is unchanged."""
    old = find(before, kind)
    since = old.last_transition_time if old is not None and old.status == status else now()
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=since)


def last_errors(before: Sequence[LastError], error: Exception | None) -> list[LastError]:
    """Return the status entry for an error: none for a transient one, the old entry if it is the same error."""
    if error is None:
        return []
    if not isinstance(error, ApiError) or not (error.persistent or error.already_exists):
        return list(before)
    code, text = f"ERR_{error_type(error).upper()}", error.message[:1024]
    if before and before[0].code == code and before[0].description == text:
        return list(before)
    return [LastError(code=code, description=text, observed_at=now())]


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
