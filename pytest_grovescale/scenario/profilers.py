"""Which profiler a phase asks for, of those of its test's second pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from ..errors import UsageError
from ..recording.profiling.plan import Profiler
from ..recording.protocol import ProfileTarget

Asked = bool | Profiler
"""``True``: what the run or the test's marker says; ``False`` is ``off``."""

Aim = Callable[[Profiler | None], ProfileTarget | str]
"""Returns how the operator is profiled, or why it cannot be; None: as the run or the test's marker says."""


def no_operator(asked: Profiler | None) -> str:
    """Stand for the aim of a test without an operator."""
    return "the test runs without an operator"


def profiler_of(phase: str, asked: object) -> Profiler | None:
    """Return the profiler that a phase asks for; None where it leaves that open. Raises UsageError for anything else.

    What is no bool and no name is refused: a 0, or a name in another case, would be taken for what it does not mean.
    """
    if isinstance(asked, bool):
        return None if asked else "off"
    for name in get_args(Profiler):
        if asked == name:
            found: Profiler = name
            return found
    names = ", ".join(repr(name) for name in get_args(Profiler))
    raise UsageError(f"phase {phase!r}: profile={asked!r} is no profiler", next_step=f"Use {names}, True or False.")
