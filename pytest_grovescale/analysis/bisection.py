"""The result of a bisection: which commit changed a figure, and what was measured of each."""

from __future__ import annotations

import msgspec

SCHEMA_VERSION = 1


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a bisection knows of one commit."""

    commit: str
    subject: str
    ratios: tuple[float, ...] = ()
    """Of its figure over the good commit's, one for each measurement."""
    probability: float = 0.0
    """That it is the guilty one."""
    skipped: str = ""
    """Why it cannot be measured; empty where it can."""


class Bisection(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a search, or its result: what ``grovescale bisect --json`` prints."""

    schema_version: int = SCHEMA_VERSION
    metric: str
    good: str
    steps: tuple[Step, ...]
    """All commits after the good one, the oldest first."""
    guilty: tuple[str, ...] = ()
    """The commit that changed the figure; several where those between cannot be measured; empty without one."""
    probability: float
    """Of the answer: of the guilty commits together, or of no change."""
    change: float
    """Expected ratio of the figure after the guilty commit to that before."""
    low: float
    """95 % interval of the ratio."""
    high: float
    over: bool
    """False: it gave up, or goes on."""
    left_out: int = 0
    """Pairs that other programs disturbed."""
