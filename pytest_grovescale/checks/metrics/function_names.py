"""Label values that are names of functions: they change with the code, and only its authors know them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from ...analysis.blocked_workers import read_dump
from ...analysis.phase_result import PhaseResult
from ...analysis.result import OPERATOR
from ...errors import NotMeasuredError, RecordingError
from ...exposition.families import Series
from ...recording.worker_history import Dump
from ..outcome import Outcome, at_most, first
from ..run import Profiles, Run
from .families import Problem, Served, own, written
from .identifiers import bare, does_something, functions_in, names_one, qualified, words
from .target import OwnFamiliesCheck, unread

Functions = Mapping[tuple[str, ...], str]
"""A function's name in words → where it is."""

SPEAKING = frozenset({"function", "func", "fn", "function_name", "func_name", "caller", "callee", "callsite"})
"""Labels whose own name says that they hold functions."""

LEAST = 2
"""Values of a label that must look like functions: one may be a coincidence."""

MOST = 1_000
"""Values of a label; no program has a metric for each of more functions."""

How = Literal["known", "written", "looks"]
"""``known``: code has functions of these names; ``written``: only code writes names so (``pkg.(*T).Method``), or the
label says it; ``looks``: they begin with a verb, as functions do."""


class FunctionNameLabels(OwnFamiliesCheck, tag="function_name_labels", frozen=True, kw_only=True):
    """Whether label values are names of functions: they change with the code, and only its authors know them.

    A value is the name of a function where the operator's source, the stacks that were dumped while it waited, or a
    profile has it; the profiling pass, which has the profiles, is judged by this check as well. What only looks like
    one is no proof; where the whole source is at hand and does not have it, it is none.
    """

    of_profiled_pass = True
    failure_stands = True
    one_scrape = "alone"

    source: str = ""
    """Folder with the operator's source (Python, Go), relative to where the test is run from."""

    def judge_target(self, run: Run) -> Outcome:
        metrics = run.metrics()
        target = metrics.target(self.target)
        families = own(target.whole(), ignore=self.ignore)
        if not families:
            raise NotMeasuredError(f"{target.target} serves no family of its own")
        source = _source(self.source)
        # Of several pods each is a target, <process>/<pod>; all run the same code.
        process = self.target.partition("/")[0]
        profiled, unreadable = _profiled(run.test.phases, process, run.profiles)
        dumped = _dumped(metrics.workers.dumps) if process == OPERATOR else {}
        known = {**dumped, **profiled, **source}
        labels = list(function_labels(families, known))
        certain = [label for label in labels if label.certain]
        looks = [] if source else [label for label in labels if not label.certain]
        doubts = [f"{label.family}: {in_words(label)}, and no source says whether they are" for label in looks]
        return at_most(
            "",
            "labels whose values are names of functions",
            len(certain),
            0,
            doubts=[*doubts, *unreadable, *unread(target)],
            evidence=first([_line(label, known) for label in [*certain, *looks]]),
        )


class FunctionLabel(NamedTuple):
    """A label of one family whose values are names of functions."""

    family: str
    label: str
    values: tuple[str, ...]
    """Those of its values that are."""
    how: How
    series: str

    @property
    def certain(self) -> bool:
        return self.how != "looks"


def function_labels(families: Iterable[Served], known: Collection[tuple[str, ...]] = ()) -> Iterator[FunctionLabel]:
    """Yield labels at least half of whose values are names of functions; ``known`` are functions' names in words."""
    for family in families:
        for label, values in sorted(family.own_labels().items()):
            match = _functions_among(label, values, known) if len(values) <= MOST else None
            if match is not None:
                how, names = match
                yield FunctionLabel(family.name, label, names, how, written(values[names[0]]))


def problems(families: Iterable[Served]) -> Iterator[Problem]:
    """Yield the labels whose values are or look like functions' names, where there is no code to look them up."""
    for label in function_labels(families):
        yield Problem(
            family=label.family, rule="function-name", says=in_words(label), series=label.series, fix=fix(label)
        )


def in_words(label: FunctionLabel) -> str:
    """Return what a label's values are, with the first of them."""
    some = ", ".join(label.values[:3]) + (", …" if len(label.values) > 3 else "")
    verb = "look like" if label.how == "looks" else "are"
    return f"values of {label.label} {verb} names of functions ({some})"


def fix(label: FunctionLabel) -> str:
    """Return what to do instead."""
    return (
        f"take the label {label.label} away: which function takes the time is for a profile or a trace to say, and"
        " its name changes with the code"
    )


def _functions_among(
    label: str, values: Mapping[str, Series], known: Collection[tuple[str, ...]]
) -> tuple[How, tuple[str, ...]] | None:
    """Return which values of a label are names of functions, and how that is known; None where too few are."""
    speaking = label.lower() in SPEAKING
    tries: tuple[tuple[How, Iterable[str]], ...] = (
        ("written", (value for value in values if qualified(value) or (speaking and names_one(value)))),
        ("known", (value for value in values if len(name := words(bare(value))) > 1 and name in known)),
        ("looks", (value for value in values if does_something(words(bare(value))))),
    )
    for how, names in tries:
        functions = tuple(names)
        if len(functions) >= max(1 if speaking else LEAST, len(values) / 2):
            return how, functions
    return None


def _line(label: FunctionLabel, known: Functions) -> str:
    places = [f"{value} is {known[name]}" for value in label.values if (name := words(bare(value))) in known]
    where = f"; {', '.join(places[:3])}" if places else ""
    return f"{label.series}: {in_words(label)}{where}; {fix(label)}"


def _source(folder: str) -> dict[tuple[str, ...], str]:
    if not folder:
        return {}
    try:
        functions = functions_in(Path(folder))
    except OSError as error:
        raise NotMeasuredError(f"the operator's source cannot be read: {error}") from None
    if not functions:
        raise NotMeasuredError(f"{folder} has no source in Python or Go")
    return functions


def _profiled(
    phases: Iterable[PhaseResult], process: str, profiles: Profiles
) -> tuple[dict[tuple[str, ...], str], list[str]]:
    """Return the functions in all profiles of the target's process, and why others could not be read."""
    known: dict[tuple[str, ...], str] = {}
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
                known |= {words(bare(one.name)): f"a function in the profile of {phase.name}" for one in functions}
    return known, unreadable


def _dumped(dumps: Iterable[Dump]) -> dict[tuple[str, ...], str]:
    """Return the functions on the stacks of threads, tasks or goroutines that were dumped."""
    return {
        words(bare(frame.function)): f"a function on a stack of {dump.phase}"
        for dump in dumps
        for stack in read_dump(dump.lines)
        for frame in stack.frames
    }
