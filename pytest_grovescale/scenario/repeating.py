"""Repetition of triggers: each once the operator is done with the last, until a profile has enough samples.

One no-op reconcile costs some hundredths of a second: at 100 Hz that is a handful of samples, too few for a table. So a
profiling pass repeats them automatically; a measured phase has only the triggers of the test.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .settling import Process, Rest, Wait, cpu_ns, until_done, until_rest

if TYPE_CHECKING:
    from .phase import Phase
    from .scale import ProgressView
    from .workloads import WorkloadHandle

ENOUGH_CPU_S = 4.5
"""CPU seconds that give the 400 samples of a table, and some more that fall between functions."""

TIMES_HOLD = 3.0
LONGEST_S = 60.0
"""Maximum duration of the repetition, s; also limited to a multiple of the phase's hold."""

_REST_S = 1.0
_REST_OVER_S = 0.2


def limit_s(hold: float, left: float) -> float:
    """Return for how long triggers may be repeated, s.

    ``hold``: rest of the phase's hold; ``left``: time until its timeout.
    """
    return max(min(TIMES_HOLD * hold, LONGEST_S, left), 0.0)


def repeat_triggers(phase: Phase, operator: Process, *, limit: float, progress: ProgressView) -> int:
    """Repeat the phase's triggers, each once the operator is idle again, and return how often.

    Returns when the operator has used `ENOUGH_CPU_S` since, or after ``limit`` s. Raises what ends the phase.
    """
    workloads = list(dict.fromkeys(phase.triggered))
    if limit <= 0 or not workloads:
        return 0
    progress.say(
        f"{phase.name}: triggers are repeated for the profile, until the operator has used {ENOUGH_CPU_S:g} s of CPU "
        f"({limit:.0f} s at most)"
    )
    began, before, rounds = time.monotonic(), cpu_ns(operator), 0
    while (used := (cpu_ns(operator) - before) / 1e9) < ENOUGH_CPU_S and time.monotonic() - began < limit:
        until_rest(operator, 0.0, limit_s=_REST_S, over_s=_REST_OVER_S, wait=phase.pass_time)
        _trigger(workloads)
        rounds += 1
    until_rest(operator, 0.0, limit_s=_REST_S, over_s=_REST_OVER_S, wait=phase.pass_time)
    progress.say(f"{phase.name}: {rounds} rounds of triggers, {used:.1f} s of CPU")
    return rounds


def trigger_until_done(
    operator: Process, workloads: Sequence[WorkloadHandle], idle: float, *, limit_s: float, wait: Wait
) -> Rest:
    """Repeat each workload's last trigger, and return when the operator is done with it; see `until_done`."""
    asked_ns = cpu_ns(operator)
    _trigger(workloads)
    return until_done(operator, idle, asked_ns, limit_s=limit_s, wait=wait)


def _trigger(workloads: Sequence[WorkloadHandle]) -> None:
    for workload in workloads:
        workload.trigger_again()
