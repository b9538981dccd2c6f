"""Waiting for something that nothing announces: looked at again and again, up to a limit."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_S = 0.02


def wait_until(holds: Callable[[], object], what: str, seconds: float = 120) -> None:
    """Return when ``holds`` does; raise AssertionError with ``what`` was waited for after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(_LOOK_S)
