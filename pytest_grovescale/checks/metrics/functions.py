"""Label values that are names of functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ...analysis.metrics.history import MetricsHistory
from ...analysis.result import PhaseResult
from ...errors import NotMeasuredError
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


def judge(check: FunctionNameLabels, phases: Iterable[PhaseResult], metrics: MetricsHistory) -> Finding:
    """Judge the labels of all families that were ever served and that no library brought.

    A value is the name of a function where the source or a profile has it. What only looks like one is no proof; where
    the whole source is at hand and does not have it, it is none.
    """
    target = metrics.target(check.target)
    families = list(own(target.whole(), ignore=check.ignore))
    if not families:
        raise NotMeasuredError(f"{target.target} serves no family of its own")
    source = _source(check.source)
    known = {**_profiled(phases, check.target), **source}
    found = list(function_labels(families, known))
    certain = [label for label in found if label.certain]
    looks = [] if source else [label for label in found if not label.certain]
    doubts = [f"{label.family}: {in_words(label)}, and no source says whether they are" for label in looks]
    return at_most(
        "",
        "labels whose values are names of functions",
        len(certain),
        0,
        doubts=[*doubts, *unread(target)],
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


def _profiled(phases: Iterable[PhaseResult], process: str) -> dict[tuple[str, ...], str]:
    """Return the functions that profiles of the target's process have in their tables."""
    return {
        words(bare(row.function)): f"a function in the profile of {phase.name}"
        for phase in phases
        for profile in phase.profiles
        if profile.process == process
        for row in profile.functions
    }
