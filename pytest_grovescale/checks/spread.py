"""How far the CPU of a no-op in one run may be from what the same operator uses in the next.

The clock is exact to the ns, but the same work does not take the same time twice: caches, other guests of the machine,
the heap and hash seed of a process. A bound within that spread is not decided by one run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ..analysis.idle import OverIdle

WINDOW = 0.065
"""Standard deviation of one window's CPU as a share of it, from window to window of an operator: that of the windows in
``bench/recorded_noise.json``, some 20 s with up to 100 triggers, minutes apart, on 2 cores with nothing else to do."""

TRIGGER = 0.22
"""The same of a single trigger's cost, from trigger to trigger. The log ratio of two windows side by side had one of
5.5 to 9 % with 21 triggers in each, and of 3 to 5 % with 64: that is √2 × 22 % / √triggers."""

SURE = 1.96
"""Standard deviations to either side that hold 95 %."""

_ALPHA = 0.05

LEAST_SAVED = 3
"""So many runs of a baseline tell their own spread."""


class Ratio(NamedTuple):
    """A figure as a multiple of a baseline's."""

    figure: float
    reach: float
    """How far it may be off either way, in 95 of 100 cases."""
    why: str
    """Where that is from, in words."""


def busy_s(used: OverIdle) -> float:
    """Return the standard deviation of what the phase used, s."""
    return math.hypot(WINDOW * used.busy_s, TRIGGER * max(used.difference_s, 0.0) / math.sqrt(_triggers(used)))


def idle_s(used: OverIdle) -> float:
    """Return the standard deviation of what its idle twin used, s."""
    return WINDOW * used.idle_s


def difference_s(used: OverIdle) -> float:
    """Return the standard deviation of what the triggers cost, s."""
    return math.hypot(busy_s(used), idle_s(used))


def of_ratio(ratio: float, below: float, deviation: float, deviation_below: float) -> float:
    """Return the standard deviation of a ratio of two figures, ``below`` the one that is divided by."""
    return math.hypot(deviation, ratio * deviation_below) / below


def over_saved(now_s: float, saved_s: Sequence[float], used: OverIdle, *, name: str) -> Ratio:
    """Return what a trigger costs as a multiple of what it cost in a baseline's newest run, the first of ``saved_s``.

    The spread is that of the baseline's runs, or that of recorded windows where they are too few to tell.
    """
    before, number = saved_s[0], len(saved_s)
    ratio = now_s / before
    if number < LEAST_SAVED:
        share = math.hypot(WINDOW, TRIGGER / math.sqrt(_triggers(used)))
        deviation = of_ratio(ratio, before, difference_s(used) / _triggers(used), share * before)
        why = f"{stated(used)}; {LEAST_SAVED} runs saved as {name} tell this machine's own"
        return Ratio(ratio, SURE * deviation, why)
    # Brings in scipy, which most runs have no use for.
    from ..analysis.statistics.student import quantile

    one = statistics.stdev(saved_s)
    share = one / statistics.mean(saved_s)
    why = f"single runs vary by {share:.1%} (standard deviation), as the {number} saved as {name} do"
    return Ratio(ratio, quantile(number - 1, _ALPHA) * of_ratio(ratio, before, one, one), why)


def stated(used: OverIdle) -> str:
    """Return in words how far single runs vary, where nothing tells it of this machine."""
    number = _triggers(used)
    triggers = f"{number} trigger{'s' * (number > 1)}"
    return (
        f"single runs vary by {WINDOW:.1%}, and {triggers} by {TRIGGER / math.sqrt(number):.1%} more"
        " (standard deviations, recorded on 2 cores of a virtual machine)"
    )


def _triggers(used: OverIdle) -> int:
    return max(used.phase.triggers, 1)
