"""Context shared by all tests of a session."""

from __future__ import annotations

from dataclasses import dataclass

from ..bench.baselines import Baselines
from ..kube.portal import Portal
from ..options import Settings
from ..report.progress import Progress
from .folder import RunFolder


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
