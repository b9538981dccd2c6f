"""Progress output of a run: the terminal itself, while pytest captures the tests' output."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO

import pytest


def open_screen(config: pytest.Config, *, worker: bool) -> TextIO:
    """Return a stream to the terminal. An xdist worker has the terminal at its standard error only."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        return os.fdopen(os.dup(2 if worker else 1), "w", encoding="utf-8", buffering=1)
