"""What all tests of a session share: settings, folder, connections, progress output."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

from ..bench.baselines import Baselines
from ..kube.portal import Portal
from ..options import Settings
from ..report.progress import Progress
from .run_folder import RunFolder


@dataclass
class Session:
    """Created once; passed to each test."""

    id: str
    """Id of the run; the same for all xdist workers."""
    settings: Settings
    folder: RunFolder
    baselines: Baselines
    progress: Progress

    def __post_init__(self) -> None:
        self.searched: dict[Path, int] = {}
        """Logs of operators that were searched for credentials → up to which byte."""
        self._portal: Portal | None = None

    @property
    def portal(self) -> Portal:
        """The bridge to asynchronous code, created at first use."""
        if self._portal is None:
            self._portal = Portal()
        return self._portal

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._portal is not None:
            self._portal.close()
            self._portal = None


def open_screen(config: pytest.Config, *, worker: bool) -> TextIO:
    """Return a stream to the terminal. An xdist worker has the terminal at its standard error only."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        return os.fdopen(os.dup(2 if worker else 1), "w", encoding="utf-8", buffering=1)
