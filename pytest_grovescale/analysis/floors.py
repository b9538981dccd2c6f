"""Floors of milestones, which a test measured itself and declared with ``scale.floor``."""

from __future__ import annotations

from .contents import Contents

FLOOR = "floor"
"""Label of the mark that holds one."""


def floor_detail(milestone: str, seconds: float) -> str:
    """Return a floor as the detail of a mark."""
    return f"{milestone} {seconds!r}"


def floors_of(contents: Contents) -> dict[str, float]:
    """Return milestone, or ``phase/milestone``, → seconds; the last declaration of each."""
    details = (mark.detail.rpartition(" ") for mark in contents.marks if mark.label == FLOOR)
    return {milestone: float(seconds) for milestone, _, seconds in details}
