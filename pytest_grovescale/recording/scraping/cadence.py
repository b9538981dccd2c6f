"""The scrape schedule: each target has its own fixed grid, so that many targets are not scraped at once."""

from __future__ import annotations

import math
import zlib


def offset(name: str, interval: float) -> float:
    """Return the offset of a target's grid, s: the same for a name in each run, spread over the interval."""
    return zlib.crc32(name.encode()) / 2**32 * interval


def due(after: float, interval: float, shift: float) -> float:
    """Return the first grid time after a moment, s. Missed grid times are skipped."""
    return (math.floor((after - shift) / interval) + 1) * interval + shift
