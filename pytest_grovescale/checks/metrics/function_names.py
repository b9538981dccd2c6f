"""Label values that are names of functions: they change with the code, and only its authors know them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from ...analysis.blocked_workers import read_dump
from ...analysis.phase_result import PhaseResult
from ...analysis.result import OPERATOR
from ...errors import NotMeasuredError, RecordingError
from ...exposition.families import Series
from ...recording.worker_history import Dump
from ..check import Outcome, at_most, first
from ..run import Profiles, Run
from .families import Problem, Served, own, written
from .target import OwnFamiliesCheck, unread

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN = re.compile(r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)*_*")
# Go writes a method that is used as a value with -fm, and functions without a name as .func1, .func1.2.
_METHOD = re.compile(r"[\w./-]*\(\*?\w+\)\.(\w+)(?:\.func\d+(?:\.\d+)*)*(?:-fm)?(?:\(\))?")
_FUNCTION = re.compile(r"(?:[\w.-]+/)*[a-z]\w*\.([A-Z]\w*)(?:\.func\d+(?:\.\d+)*)*")
_OF_CLASS = re.compile(r"_*[A-Z]\w*\.([a-z_]\w*)")
_CALL = re.compile(r"([A-Za-z_][\w.:]*)\(\)")

VERBS = frozenset(
    (
        *("add", "apply", "build", "calculate", "check", "cleanup", "collect", "compute", "configure", "create"),
        *("delete", "detect", "determine", "do", "enqueue", "ensure", "evaluate", "execute", "fetch", "fill"),
        *("filter", "find", "generate", "get", "handle", "init", "initialize", "is", "list", "load", "lookup"),
        *("maybe", "merge", "observe", "parse", "patch", "populate", "prepare", "process", "prune", "read"),
        *("reconcile", "record", "refresh", "release", "remove", "render", "reset", "resolve", "run", "save"),
        *("schedule", "select", "send", "set", "setup", "start", "stop", "submit", "sync", "teardown", "trigger"),
        *("try", "update", "upsert", "validate", "verify", "wait", "watch", "write"),
    )
)
"""First words of functions that do something."""

_DEFINITIONS = {
    ".py": re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+([A-Za-z_]\w*)[ \t]*[\[(]", re.MULTILINE),
    ".go": re.compile(r"^func[ \t]+(?:\([^)\n]*\)[ \t]*)?([A-Za-z_]\w*)[ \t]*[\[(]", re.MULTILINE),
}
"""Suffix → a definition of a function or method, at the start of a line as formatters of both languages put it."""

SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "vendor", "site-packages", "__pycache__", "testdata"})
"""Folders with the source of other programs, or none."""

MAX_BYTES = 4 << 20
"""Of a file; larger ones are generated."""


def words(name: str) -> tuple[str, ...]:
    """Return a name's words in lower case: ``("ensure", "finalizer")``; none for what is no identifier."""
    return tuple(word.lower() for word in _WORDS.findall(name)) if _PLAIN.fullmatch(name) else ()


def qualified(value: str) -> str:
    """Return the function that is named with its package, receiver or brackets, which only code does; else empty."""
    match = _METHOD.fullmatch(value) or _CALL.fullmatch(value)
    if match is not None:
        return match[1]
    match = _FUNCTION.fullmatch(value) or _OF_CLASS.fullmatch(value)
    # Kinds are written so too: v1.Pod, Deployment.apps.
    return match[1] if match is not None and does_something(words(match[1])) else ""


def bare(function: str) -> str:
    """Return a function's own name, of one as a profile has it: ``pkg.(*Type).Method.func1``, ``f (module.py)``."""
    name = function.split(" (", 1)[0]
    parts = [part for part in name.replace("[...]", "").split(".") if not re.fullmatch(r"func\d+|\d+|<\w+>", part)]
    return parts[-1].strip("()*") if parts else ""


def names_one(value: str) -> bool:
    """Return whether a value may be a function's name at all, plain or with what it belongs to: ``Class.method``."""
    return bool(words(bare(value))) and not any(character.isspace() for character in value)


def does_something(name: tuple[str, ...]) -> bool:
    """Return whether a name of several words begins with a verb, as functions' do."""
    return len(name) > 1 and name[0] in VERBS


def functions_in(folder: Path) -> dict[tuple[str, ...], str]:
    """Return functions' names in words → ``file:line`` of the first definition. Raises OSError."""
    places: dict[tuple[str, ...], str] = {}
    for path in sorted(_files(folder)):
        text = path.read_text(encoding="utf-8", errors="replace")
        for match in _DEFINITIONS[path.suffix].finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            places.setdefault(words(match[1]), f"{path.relative_to(folder)}:{line}")
    return places


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and path.name not in SKIPPED:
            yield from _files(path)
        elif path.suffix in _DEFINITIONS and path.is_file() and path.stat().st_size <= MAX_BYTES:
            yield path


Functions = Mapping[tuple[str, ...], str]
"""A function's name in words → where it is."""

SPEAKING = frozenset({"function", "func", "fn", "function_name", "func_name", "caller", "callee", "callsite"})
"""Labels whose own name says that they hold functions."""

_OF_OTHERS = frozenset(
    {"statement", "query", "command", "rpc", "api", "procedure", "api_call", "request", "grpc_method", "rpc_method"}
    | {"access_mode"}
)
"""Labels of what another program is asked for: its commands and calls begin with a verb, too."""

_ASKS = re.compile(r"(?<![^_])(?:requests|rpcs?|(?:api|admin|client)_calls?|queries|commands)(?![^_])")
"""Words of what counts or times them."""

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
            asked = label.lower() in _OF_OTHERS or _ASKS.search(family.name)
            if match is not None and match[0] == "looks" and asked:
                continue
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
