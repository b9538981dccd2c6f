"""Which checks a test has: those of its marker, those of the ``budgets.yaml`` beside it, and those that every run has.

A file is reviewed and changed without touching code:

    tests:
      test_thousand_pods:
        - noop_writes: {max: 0}
        - cpu: {phase: deploy, max: 4s}
      "test_*":
        - hot_loop

It applies to the tests of its own folder. A key is a test's name, with or without its parameters or its file
(``test_a[big]``, ``test_scale.py::test_a``), or a pattern with ``*`` and ``?``; all keys that match a test apply to it.

Every run has checks that need no bound of anyone's, whether declared or not; what fails of these is a finding. They are
only such as a sound operator passes at any size and speed: what depends on the machine needs a declared bound.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from .. import errors
from ..analysis.findings import COUNTING, RULES, may_have_findings
from ..analysis.findings.grouping import by_severity, joined
from ..analysis.result import CheckResult, Finding, Severity, TestResult
from ..definitions import Mistakes, load, where
from ..errors import DefinitionError, UsageError
from ..suggestions import did_you_mean
from .check import Arguments, Bundle, Check, bundles, kinds, tag_of, text_of
from .metrics.buckets import HistogramBuckets
from .metrics.builtin_duplicates import NoBuiltinDuplicates
from .metrics.counter_resets import CounterResets
from .metrics.error_rates import ErrorRatio
from .metrics.function_names import FunctionNameLabels
from .metrics.names import MetricNames
from .metrics.series import SeriesGrowth
from .run import Baselines, no_baselines, unknown

FILE = "budgets.yaml"
_NEAR = ("budgets.yml", "budget.yaml", "budget.yml")
"""Names that were meant to be it: bounds that no one reads would pass in silence."""

_DEFINED = re.compile(r"^\s*(?:async\s+)?def\s+(\w+)", re.MULTILINE)
_PATTERN = re.compile(r"[*?]")


class Declared(NamedTuple):
    """A check of a test, and where it was declared: ``tests/scale/budgets.yaml:4``, ``marker``."""

    check: Check
    source: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    tests: dict[str, list[str | dict[str, Any]]]


def read(path: Path, root: Path) -> dict[str, list[Declared]]:
    """Return key → checks of a budgets file; sources are relative to ``root``.

    Raises DefinitionError with ``file:line``, of all mistakes at once: for an unknown check or argument, a bad value,
    and a plain name that no test beside the file has: its bounds would apply to nothing.
    """
    content = load(path, _File)
    mistakes = Mistakes()
    defined = {name for file in path.parent.glob("*.py") for name in _DEFINED.findall(file.read_text("utf-8"))}
    declared: dict[str, list[Declared]] = {}
    for key, entries in content.tests.items():
        name = re.sub(r"\[.*\]$", "", key.rpartition("::")[2])
        if not _PATTERN.search(key) and name not in defined:
            what = unknown("test", name, sorted(n for n in defined if n.startswith("test")))
            mistakes.errors.append(_wrong(path, ("tests", key), what))
        declared[key] = []
        for index, entry in enumerate(entries):
            place = ("tests", key, index)
            with mistakes.noted():
                declared[key] += [Declared(check, _source(path, place, root)) for check in _checks(path, place, entry)]
    mistakes.demand_none()
    return declared


def declared_for(
    folder: Path, names: Sequence[str], arguments: Sequence[object], *, root: Path
) -> tuple[Declared, ...]:
    """Return the checks for a test in ``folder`` with these names; ``arguments`` are its marker's.

    Raises UsageError for an argument that is no check, DefinitionError for a wrong file.
    """
    path = folder / FILE
    if not path.is_file() and (near := next((name for name in _NEAR if (folder / name).is_file()), "")):
        raise DefinitionError(f"{folder / near} is not read", next_step=f"Name it {FILE}, or have it elsewhere.")
    by_key = _read_once(path, root, path.stat().st_mtime_ns) if path.is_file() else {}
    return (
        *_marked(arguments),
        *(
            declared
            for key, entries in by_key.items()
            if any(name == key or fnmatch.fnmatchcase(name, key) for name in names)
            for declared in entries
        ),
    )


@functools.lru_cache(maxsize=32)
def _read_once(path: Path, root: Path, changed_ns: int) -> dict[str, list[Declared]]:
    """Return a file's checks; a folder of many tests reads it once."""
    return read(path, root)


def _marked(arguments: Sequence[object]) -> Iterator[Declared]:
    """Yield the checks in a marker's arguments. Raises UsageError for anything else."""
    for argument in arguments:
        if not isinstance(argument, Arguments):
            names = ", ".join(f"checks.{kind.__name__}" for kind in kinds().values())
            raise UsageError(f"{argument!r} is not a check", next_step=f"There are: {names}.")
        yield from (Declared(check, "marker") for check in _checks_in(argument))


def _checks_in(declared: Arguments) -> Iterator[Check]:
    if isinstance(declared, Bundle):
        yield from declared
    elif isinstance(declared, Check):
        yield declared


def _checks(path: Path, place: tuple[str | int, ...], entry: str | dict[str, Any]) -> Iterator[Check]:
    known: dict[str, type[Arguments]] = {**kinds(), **bundles()}
    named: dict[str, Any] = {entry: None} if isinstance(entry, str) else entry
    for name, arguments in named.items():
        kind = known.get(name)
        if kind is None:
            raise _wrong(path, (*place, name), unknown("check", name, known))
        if arguments is not None and not isinstance(arguments, dict):
            raise _wrong(path, (*place, name), f"takes arguments by name{_by_name(kind, arguments)}")
        yield from _checks_in(_created(path, (*place, name), kind, arguments or {}))


def _by_name(kind: type[Arguments], argument: object) -> str:
    """Return how a bare argument is written: by the first name that it can be meant for, if any."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    required = [name for name, field in fields.items() if field.required]
    for name in dict.fromkeys([*kind.positional, *required, *fields]):
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.convert(argument, fields[name].type)
            return f", as {{{name}: {json.dumps(argument, ensure_ascii=False, default=str)}}}"
    return ""


def _created(path: Path, place: tuple[str | int, ...], kind: type[Arguments], arguments: dict[str, Any]) -> Arguments:
    fields = msgspec.structs.fields(kind)
    for name in arguments:
        if name not in {field.name for field in fields}:
            raise _wrong(path, (*place, name), unknown("argument", name, (field.name for field in fields)))
    missing = [field.name for field in fields if field.required and field.name not in arguments]
    if missing:
        raise _wrong(path, place, f"needs {', '.join(missing)}")
    try:
        return kind(**arguments)
    except UsageError as error:
        raise _wrong(path, place, error.message, error.next_step) from None


def _wrong(path: Path, place: tuple[str | int, ...], what: str, next_step: str = "") -> DefinitionError:
    return DefinitionError(f"{where(path, place)}: {what}", next_step=next_step)


def _source(path: Path, place: tuple[str | int, ...], root: Path) -> str:
    line = where(path, place).removeprefix(f"{path}:").partition(":")[0]
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return f"{shown}:{line}"


Inconclusive = Literal["fail", "warn"]

TEST = "test"
"""Source of the checks that a test makes itself, with ``scale.check``."""


class Budget(NamedTuple):
    """The checks of a test's marker and of ``budgets.yaml``, judged after its run."""

    declared: tuple[Declared, ...] = ()
    enforced: bool = True
    """If False, they are judged and reported, and fail nothing. A check that the test makes itself always counts."""
    inconclusive: Inconclusive = "fail"
    baselines: Baselines = no_baselines

    def fails(self, check: CheckResult) -> bool:
        """Return whether a verdict fails the test."""
        return check.verdict == "fail" or (check.verdict == "inconclusive" and self.inconclusive == "fail")


def held_to(asked: tuple[Declared, ...], by_cluster: tuple[Declared, ...], *, profiled: bool) -> tuple[Declared, ...]:
    """Return the checks of a test's pass: a profiling pass measures nothing; only its stacks are judged."""
    if profiled:
        return tuple(declared for declared in asked if declared.check.of_profiled_pass)
    return (*asked, *by_cluster)


NO_BUDGET = Budget()


_DEFAULTS: tuple[tuple[Check, Severity], ...] = (
    (CounterResets(), "defect"),
    (ErrorRatio(kind="persistent"), "defect"),
    (SeriesGrowth(), "waste"),
    (NoBuiltinDuplicates(), "waste"),
    (FunctionNameLabels(), "waste"),
    (HistogramBuckets(), "note"),
    (MetricNames(), "note"),
)

_EVIDENCE = 5
_ROW = re.compile(r"(\w+): ")
"""A line of evidence that begins with a family."""
_FAMILY = re.compile(r'family="([^"]+)"')


def ids() -> list[str]:
    """Return the ids of the findings that these checks can make."""
    return [_id(check) for check, _ in _DEFAULTS]


def refuse_unknown_rules(definition: Path, findings: Mapping[str, str]) -> None:
    """Raise DefinitionError, with its line, for an unknown rule that an operator's definition switches off.

    ``findings``: rule → reason, as in the definition; one without a reason is refused, too.
    """
    known = [*RULES, *ids()]
    for rule, reason in findings.items():
        place = where(definition, ("findings", rule))
        if rule not in known:
            hint = did_you_mean(rule, known)
            raise DefinitionError(
                f"{place}: no rule {rule!r}" + (f". {hint}" if hint else ""),
                next_step=f"There are: {', '.join(known)}.",
            )
        if not reason.strip():
            raise DefinitionError(
                f"{place}: no reason", next_step=f'Say why the rule does not apply: {rule}: "…"; reports show it.'
            )


def with_defaults(
    test: TestResult, judge: Callable[[Check], CheckResult], severity_of: Callable[[Check], Severity | None]
) -> TestResult:
    """Return a test's result with the findings of the default checks, and without what a declared check says already.

    What a failed check counts is not counted again by a rule; what names its cause stays.
    ``judge`` gives a check's verdict on this test, ``severity_of`` how severe a failure is, None for the usual.
    """
    if not may_have_findings(test):
        return test
    declared = {_name(check.check) for check in test.checks}
    failed = {_name(check.check) for check in test.checks if check.verdict in ("fail", "not enforced")}
    found = [one for one in test.findings if one.id not in COUNTING or _name(one.check) not in failed]
    # Errors that the test itself put in the operator's way are judged by how it recovers.
    raised = dict(test.findings_failed)
    faulted = any(phase.faults is not None for phase in test.phases)
    for check, severity in _DEFAULTS:
        if faulted and isinstance(check, ErrorRatio):
            continue
        if tag_of(check) not in declared and _id(check) not in test.findings_off:
            try:
                judged = judge(check)
                if judged.verdict == "fail":
                    _add(found, _finding(judged, check, severity_of(check) or severity))
            except errors.ISOLATED as error:
                raised[_id(check)] = errors.own_defect(error)
    return msgspec.structs.replace(test, findings=by_severity(found), findings_failed=raised)


def _add(found: list[Finding], judged: Finding) -> None:
    """Add a failed check's finding: to the first that this check would enforce, which says more, else as one more."""
    alike = [one for one in found if _name(one.check) == _name(judged.check) and one.severity != "note"]
    families = {family for one in alike for family in _FAMILY.findall(one.check)}
    # A check of all families says more than findings of some of them.
    others = {row[1] for line in judged.evidence if families and (row := _ROW.match(line))} - families
    if alike and not others:
        found[found.index(alike[0])] = joined(alike[0], [judged])
    else:
        found.append(judged)


def _finding(judged: CheckResult, check: Check, severity: Severity) -> Finding:
    return Finding(
        id=_id(check), severity=severity, text=judged.text, evidence=judged.evidence[:_EVIDENCE], check=text_of(check)
    )


def _name(text: str) -> str:
    """Return the name in a check's text: ``noop_writes`` of ``noop_writes(max=0)``."""
    return text.partition("(")[0]


def _id(check: Check) -> str:
    return tag_of(check).replace("_", "-")
