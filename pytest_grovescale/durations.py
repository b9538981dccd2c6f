"""Durations in users' notation (``30s``, ``2m``, ``1h30m``, ``250ms``) and in reports."""

from __future__ import annotations

import math
import re

from .errors import UsageError

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def seconds(value: str | float) -> float:
    """Return a duration in seconds; a bare number already is in seconds.

    Raises UsageError for anything else, negative durations included.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if 0 <= value < math.inf:
            return float(value)
    elif isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        if text and re.fullmatch(rf"(?:{_PART.pattern})+", text):
            return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(text))
    raise UsageError(f"{value!r} is not a duration", next_step="Write it as 30s, 2m, 1h30m or 250ms.")


def text(value: float) -> str:
    """Return seconds as a short text with three significant figures: ``412 ms``, ``3.42 s``, ``2m05s``."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes}m{rest:02d}s"


def rough(estimate: float) -> str:
    """Return estimated seconds, rounded as an estimate: ``8 s``, ``40 s``, ``4m10s``."""
    step = 1 if estimate < 10 else 5 if estimate < 60 else 10
    rounded = max(1, step * round(estimate / step))
    return f"{rounded} s" if rounded < 120 else text(rounded)
