"""Defect function-name-label: durations of function calls, by the function's name in the source."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from .histograms import Histogram

StepTimes = dict[str, Histogram]
"""Name of a function → durations of its calls, s."""

_BUCKETS = tuple(10.0**power for power in range(-6, 2))


@contextlib.contextmanager
def timed(steps: StepTimes, function: Callable[..., object]) -> Iterator[None]:
    """Observe the duration of the block, under the function's name."""
    start = time.perf_counter()
    try:
        yield
    finally:
        steps.setdefault(function.__qualname__, Histogram(_BUCKETS)).observe(time.perf_counter() - start)
