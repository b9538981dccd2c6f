"""Counts of work done, one per switch and defect that requests alone cannot prove.

They are not metrics: a manager of controller-runtime has none like them, and /metrics must look like one. They are
served as JSON at /debug/counts of the health port.
"""

from __future__ import annotations

import msgspec


class Counts(msgspec.Struct):
    """Totals since the process started; peak values end in ``_max``."""

    pods_scanned: int = 0
    """Pods examined while the pods of a clique were selected."""
    pod_selections: int = 0
    """How often the pods of a clique were selected."""
    podcliqueset_reads: int = 0
    """Private copies of a PodCliqueSet taken from the cache."""
    components_at_once_max: int = 0
    """Peak number of components of one PodCliqueSet in progress at the same time."""
    clique_passes_unchanged: int = 0
    """Reconciles of a clique that found nothing to do."""
    clique_passes_repeated: int = 0
    """How many of those were followed by a second, useless comparison (defect noop-cpu-10)."""
    status_writes: int = 0
    status_writes_skipped: int = 0
    """Status writes skipped because nothing had changed."""
    status_writes_deferred: int = 0
    """How often a changed, unsettled status was deferred."""
    watch_starts: int = 0
    watch_cuts: int = 0
    """Watch streams that ended, closed by either side."""
    watch_resumes: int = 0
    """Watch streams resumed at the last resourceVersion seen."""
    lists: int = 0
    """Full lists: at start, and after 410 Gone."""
    watch_events: int = 0
    pods_created: int = 0
    versions_kept: int = 0
    """Object versions held by the defect leak."""
    keys_in_hand: int = 0
    """Keys that wait, wait for their delay, or are worked on, of all controllers: 0 means idle. Not a total."""
