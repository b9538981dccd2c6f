"""Label values that are names of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ...analysis.blocked.dumps import read_dump
from ...analysis.metrics.history import OPERATOR, MetricsHistory
from ...analysis.profiles.stacks import Stacks
from ...analysis.result import PhaseResult, ProfileResult
from ...errors import NotMeasuredError, RecordingError
from ...recording.workers.history import Dump
from ..finding import Finding, at_most
from ..lint.functions import FunctionLabel, fix, function_labels, in_words
from ..lint.identifiers import bare, words
from ..lint.served import own
from ..lint.source import functions_in
from .cardinality import unread
from .evidence import first
from .shape import FunctionNameLabels

Functions = Mapping[tuple[str, ...], str]
"""A function's name in words → where it was found."""


Profiles = Callable[[ProfileResult], Stacks]
"""The stacks of a profile, from its file; RecordingError where it cannot be read."""


def no_profiles(profile: ProfileResult) -> Stacks:
    """Stand for profiles that are not at hand."""
    raise RecordingError(f"{profile.file}: not at hand", next_step="Give the run's folder, with its profiles.")


def judge(
    check: FunctionNameLabels,
    phases: Iterable[PhaseResult],
    metrics: MetricsHistory,
    profiles: Profiles = no_profiles,
) -> Finding:
    """Judge the labels of all families that were ever served and that no library brought.

    A value is the name of a function where the source, a profile or a dump of stacks has it. What only looks like one
    is no proof; where the whole source is at hand and does not have it, it is none.
    """
    target = metrics.target(check.target)
    families = list(own(target.whole(), ignore=check.ignore))
    if not families:
        raise NotMeasuredError(f"{target.target} serves no family of its own")
    source = _source(check.source)
    # Of several pods each is a target, <process>/<pod>; all run the same code.
    process = check.target.partition("/")[0]
    profiled, unreadable = _profiled(phases, process, profiles)
    dumped = _dumped(metrics.workers.dumps) if process == OPERATOR else {}
    known = {**dumped, **profiled, **source}
    found = list(function_labels(families, known))
    certain = [label for label in found if label.certain]
    looks = [] if source else [label for label in found if not label.certain]
    doubts = [f"{label.family}: {in_words(label)}, and no source says whether they are" for label in looks]
    return at_most(
        "",
        "labels whose values are names of functions",
        len(certain),
        0,
        doubts=[*doubts, *unreadable, *unread(target)],
        evidence=first([_line(label, known) for label in [*certain, *looks]]),
    )


def _line(label: FunctionLabel, known: Functions) -> str:
    places = [f"{value} is {known[name]}" for value in label.values[:3] if (name := words(bare(value))) in known]
    where = f"; {', '.join(places)}" if places else ""
    return f"{label.series}: {in_words(label)}{where}; {fix(label)}"


def _source(folder: str) -> dict[tuple[str, ...], str]:
    if not folder:
        return {}
    try:
        found = functions_in(Path(folder))
    except OSError as error:
        raise NotMeasuredError(f"the operator's source cannot be read: {error}") from None
    if not found:
        raise NotMeasuredError(f"{folder} has no source in Python or Go")
    return found


def _profiled(
    phases: Iterable[PhaseResult], process: str, profiles: Profiles
) -> tuple[dict[tuple[str, ...], str], list[str]]:
    """Return the functions in all profiles of the target's process, and why others could not be read."""
    found: dict[tuple[str, ...], str] = {}
    unreadable: list[str] = []
    for phase in phases:
        for profile in phase.profiles:
            if profile.process != process or not profile.file:
                continue
            try:
                functions = profiles(profile).functions
            except RecordingError as error:
                unreadable.append(f"the profile of {phase.name}: {error.message}")
            else:
                found |= {words(bare(one.name)): f"a function in the profile of {phase.name}" for one in functions}
    return found, unreadable


def _dumped(dumps: Iterable[Dump]) -> dict[tuple[str, ...], str]:
    """Return the functions in whose midst threads, tasks or goroutines were when stacks were dumped."""
    return {
        words(bare(frame.function)): f"a function on a stack of {dump.phase}"
        for dump in dumps
        for stack in read_dump(dump.lines)
        for frame in stack.frames
    }
