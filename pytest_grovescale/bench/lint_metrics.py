"""``grovescale lint-metrics``: reports the faults in an endpoint's response. Needs no cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

import msgspec

from .. import redaction
from ..analysis.metrics.snapshot import Surface, surface_of
from ..checks import budgets, snapshot_checks
from ..checks.metrics import lint as syntax
from ..checks.metrics.difference import difference
from ..checks.metrics.families import Problem, Rule
from ..checks.metrics.lint import LintRules, lint
from ..checks.run import unknown
from ..endpoints import Credentials
from ..errors import ExitCode, ExpositionError, UsageError
from ..recording.scraping.target import Redaction
from ..report import lint as report
from .fetch import STDIN, AnswerError, answer_of


class LintWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of ``grovescale lint-metrics``."""

    source: str
    """URL, file, or ``-``."""
    against: str = ""
    """The endpoint before a change, available without credentials; empty: no comparison."""
    budgets: str = ""
    """A file of checks like ``budgets.yaml``, of any tests; empty: none."""
    rules: LintRules = LintRules()
    credentials: Credentials = Credentials()
    timeout_s: float = 10.0
    json: bool = False
    hints: bool = False
    """Whether text shows what is no fault, too; JSON always has it."""


def lint_metrics(wanted: LintWanted, *, write: Callable[[str], None]) -> int:
    """Write the faults of an endpoint; return 0 for none, 1 for faults.

    Raises AnswerError for a source that cannot be fetched or read, UsageError and DefinitionError for invalid
    arguments.
    """
    declared = _declared(wanted.budgets)
    surface, faults = read_source(wanted.source, wanted.credentials, wanted.timeout_s)
    _refuse_unknown(wanted.rules, surface)
    # The token is sent to the endpoint only.
    before = read_source(wanted.against, Credentials(), wanted.timeout_s)[0] if wanted.against else None
    found = report.Found(
        lint=lint(surface, wanted.rules, syntax=faults, now_s=time.time() if "://" in wanted.source else None),
        against=difference(before, surface) if before is not None else None,
        budgets=snapshot_checks.judge(declared, surface) if wanted.budgets else None,
    )
    write(report.json(found) if wanted.json else report.text(found, hints=wanted.hints))
    return ExitCode.FAILED if found.faults else ExitCode.PASSED


def _declared(file: str) -> list[budgets.Declared]:
    """Return the checks of all tests in a file. Raises DefinitionError."""
    if not file:
        return []
    by_test = budgets.read(Path(file), Path.cwd())
    return [one for checks in by_test.values() for one in checks]


def _refuse_unknown(wanted: LintRules, surface: Surface) -> None:
    """Raise UsageError for an exclusion that is neither a rule nor a family, and for a family without a bound.

    Patterns may match nothing: they are for future families.
    """
    if wanted.max_series_family and wanted.max_series is None:
        raise UsageError("--family is whose series are counted", next_step="Say how many there may be: --max-series N.")
    rules, families = get_args(Rule), {*surface.families, *surface.by_family()}
    for name in wanted.ignore:
        if "*" not in name and name not in rules and not any(fnmatchcase(family, name) for family in families):
            raise UsageError(f"--ignore {name}: {unknown('rule or family', name, rules)}")


def read_source(source: str, credentials: Credentials, timeout_s: float) -> tuple[Surface, list[Problem]]:
    """Return what a source serves, and what is wrong with the response as such. Raises AnswerError."""
    name = "standard input" if source == STDIN else source
    answer = answer_of(source, credentials, timeout_s=timeout_s)
    try:
        exposition, faults = syntax.read(
            answer.body,
            answer.content_type,
            encoding=answer.encoding,
            now_s=time.time() if "://" in source else None,
        )
    except ExpositionError as error:
        of_bytes = "" if error.message.startswith("line ") else "It was taken for protobuf, since it is no text."
        raise AnswerError(f"{name}: {error.message}", next_step=error.next_step or of_bytes) from None
    surface = surface_of(Redaction()(exposition), target=redaction.text(name))
    if not surface.samples and not surface.families:
        wrong = "".join(f"; {fault.says}" for fault in faults[:1])
        raise AnswerError(f"{name}: no metrics at all{wrong}", next_step="Check the path, often /metrics.")
    return surface, faults
