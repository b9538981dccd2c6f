"""The stack of each asyncio task of this process, as text, which external tools cannot see.

A waiting coroutine is on no thread's stack; up to Python 3.13 only the process itself can follow it to where it
waits. `asyncio.Task.print_stack` does not: of a suspended task it shows only the outermost call.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any


def text() -> str:
    """Return the stacks of all tasks but the calling one, each as Python prints a stack."""
    asking = asyncio.current_task()
    return "\n".join(_stack(task) for task in asyncio.all_tasks() if task is not asking)


def _stack(task: asyncio.Task[Any]) -> str:
    frames = [
        traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        for frame in _frames(task.get_coro())
    ]
    lines = traceback.StackSummary.from_list(frames).format()
    return "".join([f"Task {task.get_name()} (most recent call last):\n", *lines])


def _frames(awaited: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of what it awaits, as far as they are Python code."""
    while awaited is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(awaited, f"{kind}_frame")), "")
        frame = getattr(awaited, f"{kind}_frame", None)
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
