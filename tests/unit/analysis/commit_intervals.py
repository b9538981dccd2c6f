"""When the API server committed each change of an object, for comparison with what a writer knows."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_grovescale.analysis.audit_times import Interval, Unknown, WriteLog, pair_what_can_be
from pytest_grovescale.analysis.recording_index import Contents
from pytest_grovescale.recording.records import AnyRecord


def server_intervals(records: Iterable[AnyRecord], resource: str) -> dict[tuple[str, str], list[Interval]]:
    """Return (namespace, name) → when each change of an object was committed, for those where that is certain.

    ``resource`` is named as in a WatchSpec; times are ns of the recorder's clock. Raises RecordingError for a recording
    without records.
    """
    contents = Contents()
    for record in records:
        contents.feed(record)
    intervals: dict[tuple[str, str], list[Interval]] = {}
    if not contents.opened.audited:
        return intervals
    log = WriteLog(contents.requests, contents.clock)
    for story in contents.watches.values():
        for key, events in story.objects.items() if story.opened.spec.resource == resource else ():
            pairs = pair_what_can_be(log, story, events)
            if not isinstance(pairs, Unknown):
                intervals[key] = [pairs.interval(event) for event in pairs.events]
    return intervals
