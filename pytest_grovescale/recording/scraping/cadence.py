"""When a target is due: a steady grid of its own, so that many targets do not come all at once."""

from __future__ import annotations

import math
import zlib


def offset(name: str, interval: float) -> float:
    """Return by how much a target's grid is shifted, s: the same for a name in each run, spread over the interval."""
    return zlib.crc32(name.encode()) / 2**32 * interval


def due(after: float, interval: float, shift: float) -> float:
    """Return the first moment of the grid later than a moment, s. Moments that were missed are left out."""
    return (math.floor((after - shift) / interval) + 1) * interval + shift
