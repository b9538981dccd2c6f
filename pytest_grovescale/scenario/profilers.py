"""The profiler of a phase in its test's profiling pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from ..errors import UsageError
from ..recording.profiling.plan import Profiler
from ..recording.protocol import ProfileTarget

Asked = bool | Profiler
"""``True``: the run's option or the test's marker decides; ``False`` is ``off``."""

Aim = Callable[[Profiler | None], ProfileTarget | str]
"""Returns how the operator is profiled, or why it cannot be; None: as the run or the test's marker says."""


def no_operator(asked: Profiler | None) -> str:
    """Return that there is no operator: the aim of a test without one."""
    return "the test runs without an operator"


def profiler_of(phase: str, asked: object) -> Profiler | None:
    """Return the profiler that a phase requests; None where it leaves that open. Raises UsageError for anything else.

    Values other than bools and names are rejected: a 0, or a name in another case, would be misunderstood.
    """
    if isinstance(asked, bool):
        return None if asked else "off"
    for name in get_args(Profiler):
        if asked == name:
            found: Profiler = name
            return found
    names = ", ".join(repr(name) for name in get_args(Profiler))
    raise UsageError(f"phase {phase!r}: profile={asked!r} is no profiler", next_step=f"Use {names}, True or False.")
