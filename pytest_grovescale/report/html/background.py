"""Background of a comparison's page: the runs, the settings in force in them, and their profiles."""

from __future__ import annotations

import msgspec

from ...analysis.comparability import InForce
from ...analysis.profiles.comparison import NotProfiled
from ...analysis.result import TestResult
from ...analysis.timeline import Timeline
from .profiles import ProfilePair


class RunLink(msgspec.Struct, frozen=True, kw_only=True):
    """One finished run."""

    page: str = ""
    """Its page as seen from the comparison's; empty where there is none."""
    broken: str = ""
    """Why its variant is broken in it; empty where it is not."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """The two runs of a pair, or of several pairs that are of the same two."""

    part: str
    pairs: str
    """``3``, ``1 to 16``."""
    a: RunLink | None
    """None: not run yet."""
    b: RunLink | None


class ShownRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of one variant that the page shows over time."""

    variant: str
    what: str
    """Description of the run."""
    test: TestResult
    timeline: Timeline
    page: str = ""
    """As of `RunLink`."""


class Background(msgspec.Struct, frozen=True, kw_only=True):
    """Everything on a comparison's page beside the figures."""

    profiles: tuple[ProfilePair, ...] = ()
    not_profiled: tuple[NotProfiled, ...] = ()
    in_force: InForce = InForce()
    runs: tuple[RunRow, ...] = ()
    shown: tuple[ShownRun, ...] = ()
    not_shown: tuple[str, ...] = ()
    """Why a variant's run is not shown."""


NO_BACKGROUND = Background()
