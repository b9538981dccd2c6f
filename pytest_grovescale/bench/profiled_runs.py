"""After the measurement: one profiled run of each variant, and the comparison of their profiles."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..analysis.profiles.comparison import NotProfiled, ProfilesCompared, alone, failed, functions_compared
from ..analysis.profiles.functions import TOP
from ..analysis.profiles.phase_profiles import PhaseProfile, every_cpu_profile, matched, with_whole_table
from ..errors import GrovescaleError, RecordingError
from ..report import result_file
from ..report.html import files as pages
from ..report.html.profiles import ProfilePair
from . import measured
from .deploy_runs import SequentialRuns
from .driver import Bench
from .from_results import RecordedPair
from .store import PROFILE, Plan, Store, left


class Profiled(NamedTuple):
    """The profiles of both variants: as tables, and for the page of the comparison."""

    compared: ProfilesCompared = ProfilesCompared()
    pairs: tuple[ProfilePair, ...] = ()


class ProfiledRun(NamedTuple):
    """A finished run of a variant whose profiles are requested."""

    variant: str
    folder: Path


def run_profiled(bench: Bench) -> tuple[NotProfiled, ...]:
    """Make the remaining profiled runs of the plan; return those that failed.

    A variant that cannot be profiled lacks its profile; the comparison stands.
    """
    missing = []
    with contextlib.ExitStack() as stack:
        measure = SequentialRuns(bench, stack, profile="auto")
        for slot in left(bench.plan.part(PROFILE), bench.store.samples()):
            variant = bench.plan.arms[slot.arm].label
            bench.screen.say(f"profiling {variant}")
            try:
                measure(slot)
            except GrovescaleError as error:
                bench.screen.say(f"no profile: {error}")
                missing.append(NotProfiled(variant=variant, why=error.message, next_step=error.next_step))
    return tuple(missing)


def of_comparison(store: Store, plan: Plan, missing: Sequence[NotProfiled], *, page: Path) -> Profiled:
    """Return the profiles of both variants, with links relative to ``page``; empty when none were requested.

    ``missing``: the runs that `run_profiled` could not make.
    """
    made = store.samples()
    runs = [
        ProfiledRun(plan.arms[slot.arm].label, (store.run_folder(slot.name) / measured.LATEST).resolve())
        for slot in sorted(plan.part(PROFILE))
        if slot in made
    ]
    return of_runs(runs, missing, page=page)


def of_recordings(pairs: Sequence[RecordedPair], names: tuple[str, str], *, page: Path) -> Profiled:
    """Return the profiles of the last run of each side that has some."""
    last = pairs[-1]
    runs = [ProfiledRun(name, one.folder) for name, one in zip(names, last, strict=True)]
    return of_runs(runs, page=page)


def of_runs(runs: Sequence[ProfiledRun], missing: Sequence[NotProfiled] = (), *, page: Path) -> Profiled:
    """Return the compared profiles of two runs, and reasons for missing ones; ``missing``: reasons known before.

    With fewer than two runs there is nothing to compare.
    """
    found = [_read(run) for run in runs]
    missing = [*missing, *(why for _, reasons in found for why in reasons)]
    if len(runs) < 2:
        return Profiled(ProfilesCompared(missing=tuple(missing)))
    (before, _), (after, _) = found
    missing += alone((runs[0].variant, runs[1].variant), before, after, missing)
    pairs = matched(before, after)
    return Profiled(
        ProfilesCompared(functions=functions_compared(pairs, top=TOP), missing=tuple(missing)),
        pages.profile_pairs(pairs, (runs[0].folder, runs[1].folder), page=page),
    )


def _read(run: ProfiledRun) -> tuple[tuple[PhaseProfile, ...], tuple[NotProfiled, ...]]:
    """Return a run's CPU profiles with all their functions, and its recordings' records of other profiles."""
    try:
        result = result_file.read(run.folder / result_file.NAME)
    except RecordingError as error:
        return (), (NotProfiled(variant=run.variant, why=error.message, next_step=error.next_step),)
    profiles = tuple(with_whole_table(run.folder, one) for one in every_cpu_profile(result))
    return profiles, failed(run.variant, result)
