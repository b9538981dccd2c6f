"""Pages in their folders: reads the profiles of runs, and writes ``report.html``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.history import History
from ...analysis.phase_result import FunctionRow, ProfileResult
from ...analysis.profiles.functions import function_table
from ...analysis.profiles.phase_profiles import PhaseProfile, read_stacks
from ...analysis.profiles.stacks import Stacks
from ...analysis.result import CheckResult, Result
from ...analysis.scaling import Sweep
from ...analysis.timeline import Timeline
from ...atomic_write import replacing
from ...errors import GrovescaleError, RecordingError
from .page import NO_BACKGROUND, Background, render_comparison, render_history, render_run, render_sweep
from .profiles import Flame, ProfilePair, difference_of, flame_of
from .tiles import Against

if TYPE_CHECKING:
    from ...analysis.comparison import Comparison

NAME = "report.html"


class PageError(GrovescaleError):
    """A page could not be written. Everything else of the run is complete."""


def write_run(
    folder: Path,
    result: Result,
    timelines: Mapping[str, Timeline],
    *,
    baselines: Mapping[str, Against] | None = None,
    to: Path | None = None,
) -> Path:
    """Write the page of the run in ``folder`` and return its path; ``to``: another path.

    ``timelines``: by `TestResult.recording`; ``baselines``: by `TestResult.test`. Raises PageError.
    """
    target = to or folder / NAME
    flames: dict[str, Flame] = {}
    functions: dict[str, tuple[FunctionRow, ...]] = {}
    for profile in _profiles(result):
        if (stacks := _stacks(folder, profile)) is None:
            continue
        if (flame := flame_of(stacks)) is not None:
            flames[profile.file] = flame
        if profile.functions:
            functions[profile.file] = function_table(stacks, cpu_s=profile.cpu_s, worth=profile.independent)
    _write(
        target,
        lambda: render_run(
            result,
            timelines=timelines,
            flames=flames,
            functions=functions,
            baselines=baselines,
            folder=seen_from(target, folder),
        ),
    )
    return target


def write_comparison(
    folder: Path,
    comparisons: Sequence[Comparison],
    background: Background = NO_BACKGROUND,
    *,
    to: Path | None = None,
) -> Path:
    """Write the page of the comparison in ``folder`` and return its path. Raises PageError."""
    target = to or folder / NAME
    _write(target, lambda: render_comparison(comparisons, background))
    return target


def write_sweep(folder: Path, sweep: Sweep, checks: Sequence[CheckResult] = (), *, to: Path | None = None) -> Path:
    """Write the page of the sweep in ``folder`` and return its path. Raises PageError."""
    target = to or folder / NAME
    _write(target, lambda: render_sweep(sweep, checks, folder=seen_from(target, folder)))
    return target


def write_history(history: History, *, to: Path) -> Path:
    """Write the page of a history and return its path. Raises PageError."""
    _write(to, lambda: render_history(history))
    return to


def profile_pairs(
    pairs: Sequence[tuple[PhaseProfile, PhaseProfile]], folders: tuple[Path, Path], *, page: Path
) -> tuple[ProfilePair, ...]:
    """Return profiles of two runs (`chosen.matched`) with their differences, for the page that will link to them.

    ``folders``: the two runs'.
    """
    seen = seen_from(page, folders[0]), seen_from(page, folders[1])
    return tuple(
        ProfilePair(
            before=one,
            after=other,
            before_folder=seen[0],
            after_folder=seen[1],
            flame=_difference(folders[0], one.profile, folders[1], other.profile),
        )
        for one, other in pairs
    )


def _stacks(folder: Path, profile: ProfileResult) -> Stacks | None:
    """Return a profile's stacks; None for a file that cannot be read: the profile's `problem` says why."""
    try:
        return read_stacks(folder, profile)
    except RecordingError:
        return None


def _difference(before: Path, one: ProfileResult, after: Path, other: ProfileResult) -> Flame | None:
    try:
        stacks = read_stacks(before, one), read_stacks(after, other)
    except RecordingError:
        return None
    return difference_of(*stacks, before_cpu_s=one.cpu_s, after_cpu_s=other.cpu_s)


def _profiles(result: Result) -> Iterator[ProfileResult]:
    for test in result.tests:
        for phase in test.phases:
            yield from (profile for profile in phase.profiles if profile.file)


def seen_from(page: Path, folder: Path) -> str:
    """Return a folder as a link relative to a page; empty for the page's own."""
    relative = Path(os.path.relpath(folder.resolve(), page.resolve().parent)).as_posix()
    return "" if relative == "." else relative


def _write(target: Path, render: Callable[[], str]) -> None:
    """Write a page atomically: a browser that loads it must not see half of it."""
    try:
        with replacing(target) as file:
            file.write(render().encode())
    except OSError as error:
        raise PageError(
            f"{target} cannot be written: {error.strerror}",
            next_step="Give a file in a folder that exists and can be written, on a disk with free space.",
        ) from error
    except Exception as error:
        # A page that fails must not lose its run.
        raise PageError(
            f"{target} cannot be made: {type(error).__name__}: {error}",
            next_step="All figures are in result.json. This is a defect: please report it, with that file.",
        ) from error
