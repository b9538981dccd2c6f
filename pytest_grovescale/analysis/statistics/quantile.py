"""Quantiles of measured values, without interpolation: each is one of the values."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(values: Sequence[int], q: float) -> float:
    """Return the smallest value that at least the share ``q`` of them does not exceed. ``values`` is not empty."""
    ordered = sorted(values)
    return ordered[max(0, -int(-q * len(ordered) // 1) - 1)]
