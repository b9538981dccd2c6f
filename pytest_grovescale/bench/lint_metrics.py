"""``grovescale lint-metrics``: an endpoint's answer in, faults out. Needs no cluster."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..analysis.metrics.surface import Surface, surface_of
from ..checks.lint import syntax
from ..checks.lint.difference import difference
from ..checks.lint.lint import Wanted, lint
from ..checks.lint.problem import Problem
from ..endpoints import Credentials
from ..errors import ExpositionError
from ..report import lint as report
from .answers import STDIN, AnswerError, answer_of

CLEAN, FAULTS, UNREADABLE = 0, 1, 2
"""Exit codes."""


class LintWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at, and how."""

    source: str
    """URL, file, or ``-``."""
    against: str = ""
    """The same before a change, to be had without credentials; empty: nothing to compare with."""
    rules: Wanted = Wanted()
    credentials: Credentials = Credentials()
    timeout_s: float = 10.0
    json: bool = False


def lint_metrics(wanted: LintWanted, *, write: Callable[[str], None], say: Callable[[str], None]) -> int:
    """Write the faults of an endpoint; return 0 where there are none, 1 for faults, 2 where it could not be read."""
    try:
        surface, faults = _read(wanted.source, wanted.credentials, wanted.timeout_s)
        # The token is for the endpoint alone.
        before = _read(wanted.against, Credentials(), wanted.timeout_s)[0] if wanted.against else None
    except AnswerError as error:
        say(f"grovescale: {error}")
        return UNREADABLE
    found = lint(surface, wanted.rules, syntax=faults)
    changed = difference(before, surface) if before is not None else None
    write(report.json(found, changed) if wanted.json else report.text(found, changed))
    return FAULTS if found.problems else CLEAN


def _read(source: str, credentials: Credentials, timeout_s: float) -> tuple[Surface, list[Problem]]:
    """Return what a source serves, and its wrong lines. Raises AnswerError."""
    name = "standard input" if source == STDIN else source
    answer = answer_of(source, credentials, timeout_s=timeout_s)
    try:
        exposition, faults = syntax.read(*answer)
    except ExpositionError as error:
        of_bytes = "" if error.message.startswith("line ") else "It was taken for protobuf, since it is no text."
        raise AnswerError(f"{name}: {error.message}", next_step=error.next_step or of_bytes) from None
    surface = surface_of(exposition, target=name)
    if not surface.samples and not surface.families:
        raise AnswerError(f"{name}: no metrics at all", next_step="Check the path, often /metrics.")
    return surface, faults
