"""Counts of work done, one per switch and defect that requests alone cannot prove.

They are no metrics: a manager of controller-runtime has none like them, and /metrics must look like one. They are
served as JSON at /debug/counts of the health port.
"""

from __future__ import annotations

import msgspec


class Counts(msgspec.Struct):
    """Totals since the process started; high-water marks are named so."""

    pods_scanned: int = 0
    """Pods looked at while the pods of a clique were selected."""
    pod_selections: int = 0
    """Times that the pods of a clique were selected."""
    podcliqueset_reads: int = 0
    """Private copies of a PodCliqueSet taken from the cache."""
    components_at_once_max: int = 0
    """Most components of one PodCliqueSet that were in progress at the same time."""
    clique_passes_unchanged: int = 0
    """Reconciles of a clique that found nothing to do."""
    clique_passes_repeated: int = 0
    """Those of them after which all was read and compared once more, for nothing."""
    status_writes: int = 0
    status_writes_skipped: int = 0
    """Status writes left out because nothing had changed."""
    status_writes_deferred: int = 0
    """Times that a changed, unsettled status was left for later."""
    watch_starts: int = 0
    watch_cuts: int = 0
    """Watch streams that ended, by either side."""
    watch_resumes: int = 0
    """Watch streams taken up again at the last resourceVersion seen."""
    lists: int = 0
    """Full lists: at start, and after 410 Gone."""
    watch_events: int = 0
    pods_created: int = 0
    versions_kept: int = 0
    """Versions of objects that defect leak holds."""
    keys_in_hand: int = 0
    """Keys that wait, wait for their delay, or are worked on, of all controllers: 0 means at rest. No total."""
