"""Data missing in the run's own Prometheus: failed writes, failed scrapes. All of it is reported."""

from __future__ import annotations

import re

import msgspec

from .answers import Vector
from .api import Api, ScrapedTarget

_WRITES = {
    "prometheus_tsdb_wal_writes_failed_total": "samples could not be written",
    "prometheus_tsdb_checkpoint_creations_failed_total": "checkpoints of its log could not be written",
    "prometheus_tsdb_compactions_failed_total": "blocks could not be written",
}
"""Prometheus' own counters that must stay at 0; usual cause: a full disk."""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Descriptions of faults; empty if there are none."""

    lost: list[str] = []
    """Scraped samples that were not stored."""
    unseen: list[str] = []
    """Failed scrapes; expected for a target that was restarted meanwhile."""


async def faults(api: Api, *, since: float) -> Faults:
    """Return the faults since a Unix time (s). Raises PrometheusError."""
    own = await api.own_metrics()
    now = api.now()
    window = f"{max(round(now - since), 1)}s"
    answer = await api.query(f"sum by (job) (count_over_time(up[{window}]) - sum_over_time(up[{window}]))", at=now)
    failed = answer.by("job") if isinstance(answer, Vector) else {}
    counts = {job: int(count) for (job,), count in failed.items()}
    return Faults(lost=lost(own), unseen=unseen(await api.targets(), counts))


def lost(exposition: str) -> list[str]:
    """Return descriptions of lost samples, from a Prometheus' own metrics."""
    found = []
    for name, what in _WRITES.items():
        match = re.search(rf"^{name} (\S+)$", exposition, re.MULTILINE)
        if match and float(match[1]) > 0:
            found.append(f"{what} ({float(match[1]):g} times): see its log, and whether the disk is full")
    return found


def unseen(targets: list[ScrapedTarget], failed: dict[str, int]) -> list[str]:
    """Return the targets with failed scrapes: now, or ``failed`` times (target → number)."""
    found = []
    for target in targets:
        name = target.labels.get("job", target.scrape_url)
        if target.health == "down":
            found.append(f"target {name} is down: {target.last_error}")
        elif failed.get(name):
            found.append(f"{failed[name]} scrapes of target {name} failed; it is up again")
        elif target.health == "unknown":
            found.append(f"target {name} was not scraped yet")
    return found if targets else ["it has no targets"]
