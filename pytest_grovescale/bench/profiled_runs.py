"""What comes after the measuring: one run of each variant with profilers, for the page of the comparison."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ..analysis.profiles.chosen import PhaseProfile, cpu_profiles
from ..errors import GrovescaleError
from ..report import jsonfile
from ..report.html import files as pages
from ..report.html.profiles import ProfilePair
from . import measured
from .bench import Bench
from .deploy_pairs import Deploys
from .schedule import left
from .store import Plan, Store

PROFILE = "profile"
"""Part of the plan; its runs are compared with nothing."""


def run_profiled(bench: Bench) -> None:
    """Make the profiled runs that the plan asks for and that are still to be made.

    A variant that can't be profiled costs its profile, not the comparison.
    """
    with contextlib.ExitStack() as stack:
        measure = Deploys(bench, stack, profile="auto")
        for slot in left(bench.plan.part(PROFILE), bench.store.samples()):
            bench.screen.say(f"profiling {bench.plan.arms[slot.arm].label}")
            try:
                measure(slot)
            except measured.NothingMeasured as error:
                bench.screen.say(f"no profile: {error}")


def pairs(store: Store, plan: Plan, *, page: Path) -> tuple[ProfilePair, ...]:
    """Return the profiles of both variants beside each other, with links as seen from ``page``; empty without."""
    folders = [(store.run_folder(slot.name) / measured.LATEST).resolve() for slot in sorted(plan.part(PROFILE))]
    return pairs_of(folders[0], folders[1], page=page) if folders else ()


def pairs_of(a: Path, b: Path, *, page: Path) -> tuple[ProfilePair, ...]:
    """Return the profiles of two runs, by their folders, beside each other; empty where one of them has none."""
    sides: list[tuple[Path, tuple[PhaseProfile, ...]]] = []
    for folder in (a, b):
        try:
            sides.append((folder, cpu_profiles(jsonfile.read(folder / jsonfile.NAME))))
        except GrovescaleError:
            # Not made, or none of its profilers had anything: its own report says which, and why.
            return ()
    return pages.profile_pairs(sides[0], sides[1], page=page)
