"""What a Prometheus of ours does not hold although it should: failed writes, failed scrapes. None of it is silent."""

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
"""Counters of its own that must stay at 0; the disk is full, mostly."""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """In words; empty where nothing is wrong."""

    lost: list[str] = []
    """Samples that were scraped and are not kept."""
    unseen: list[str] = []
    """Scrapes that failed; of a target that was restarted meanwhile they are to be expected."""


async def faults(api: Api, *, since: float) -> Faults:
    """Return what went wrong since a moment (s since the epoch). Raises PrometheusError."""
    own = await api.own_metrics()
    now = api.now()
    window = f"{max(round(now - since), 1)}s"
    answer = await api.query(f"sum by (job) (count_over_time(up[{window}]) - sum_over_time(up[{window}]))", at=now)
    failed = answer.by("job") if isinstance(answer, Vector) else {}
    counts = {job: int(count) for (job,), count in failed.items()}
    return Faults(lost=lost(own), unseen=unseen(await api.targets(), counts))


def lost(exposition: str) -> list[str]:
    """Return what a Prometheus' own metrics say of samples that it could not keep."""
    found = []
    for name, what in _WRITES.items():
        match = re.search(rf"^{name} (\S+)$", exposition, re.MULTILINE)
        if match and float(match[1]) > 0:
            found.append(f"{what} ({float(match[1]):g} times): see its log, and whether the disk is full")
    return found


def unseen(targets: list[ScrapedTarget], failed: dict[str, int]) -> list[str]:
    """Return the targets that could not be scraped: now, or ``failed`` times (target → failed scrapes)."""
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
