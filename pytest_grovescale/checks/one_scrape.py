"""Checks that one scrape can tell, of an endpoint or a saved answer of one. The others are named: they need a run."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec

from ..analysis.metrics.history import OPERATOR, MetricsHistory, TargetHistory
from ..analysis.metrics.surface import Surface
from ..analysis.result import CheckResult
from ..errors import NotMeasuredError
from ..recording.records import Scraped
from .budgets import Declared
from .check import text_of
from .finding import Finding
from .judge import inconclusive, result_of
from .lint.served import served
from .lint.values import since_start
from .metrics import buckets, cardinality, duplicates, functions, initialised, invariants, names
from .metrics.shape import (
    FunctionNameLabels,
    HistogramBuckets,
    Initialised,
    Invariant,
    Labels,
    MetricNames,
    NoBuiltinDuplicates,
    Series,
)
from .shape import AnyCheck

SCRAPE = "the scrape"
"""The phase that it is the end of: one that does not tell whether it was at rest is taken to have been, as there."""

_NEEDS_RUN = "needs a run"


class Unjudged(msgspec.Struct, frozen=True, kw_only=True):
    """A check that one scrape cannot tell."""

    check: str
    source: str
    why: str
    """Half a sentence: ``needs a run``."""


class OneScrape(msgspec.Struct, frozen=True, kw_only=True):
    """What checks say of one scrape."""

    checks: tuple[CheckResult, ...]
    unjudged: tuple[Unjudged, ...] = ()


def judge(declared: Iterable[Declared], surface: Surface) -> OneScrape:
    """Judge each check once, however many ask for it: those of the operator's endpoint are of this one.

    What the endpoint does not tell is inconclusive, as in a run.
    """
    asked: dict[str, Declared] = {}
    for one in declared:
        asked.setdefault(text_of(one.check), one)
    scrape = _Scrape(surface)
    found = [_verdict(one.check, one.source, scrape) for one in asked.values()]
    return OneScrape(
        checks=tuple(one for one in found if isinstance(one, CheckResult)),
        unjudged=tuple(one for one in found if isinstance(one, Unjudged)),
    )


class _Scrape:
    """One scrape as histories, each made once it is asked for: a large endpoint takes its time."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    @functools.cached_property
    def alone(self) -> MetricsHistory:
        """Itself."""
        surface = self._surface
        target = TargetHistory(surface.target)
        scrape = Scraped(
            at=0, target=OPERATOR, edge=f"end:{SCRAPE}", samples=surface.samples, families=dict(surface.families)
        )
        target.feed(scrape, SCRAPE)
        target.native |= surface.native
        return _of_operator(target)

    @functools.cached_property
    def since_start(self) -> MetricsHistory:
        """The second of two, the first one at the start of its process."""
        surface = self._surface
        return _of_operator(since_start(surface.target, served(surface), surface.samples, phase=SCRAPE))


def _of_operator(target: TargetHistory) -> MetricsHistory:
    history = MetricsHistory()
    history.targets[OPERATOR] = target
    return history


def _verdict(check: AnyCheck, source: str, scrape: _Scrape) -> CheckResult | Unjudged:
    if why := _why_not(check):
        return Unjudged(check=text_of(check), source=source, why=why)
    try:
        finding = _finding(check, scrape)
    except NotMeasuredError as error:
        if isinstance(check, Initialised):
            # All that it lacks is a second scrape.
            return Unjudged(check=text_of(check), source=source, why=_NEEDS_RUN)
        return inconclusive(text_of(check), error, phase="", source=source)
    if finding is None:
        return Unjudged(check=text_of(check), source=source, why=_NEEDS_RUN)
    return result_of(check, finding, source)


def _why_not(check: AnyCheck) -> str:
    if check.of_sweep:
        return "is judged by runs of several sizes: grovescale sweep"
    if getattr(check, "phase", ""):
        return _NEEDS_RUN
    target = getattr(check, "target", OPERATOR)
    return "" if target == OPERATOR else f"is of the target {target}"


def _finding(check: AnyCheck, scrape: _Scrape) -> Finding | None:
    """Return what a check finds; None of one that takes more than a scrape. Raises NotMeasuredError."""
    match check:
        case Series():
            return cardinality.series(check, scrape.alone)
        case Labels():
            return cardinality.labels(check, scrape.alone)
        case MetricNames():
            return names.judge(check, scrape.alone)
        case HistogramBuckets():
            return buckets.judge(check, scrape.alone)
        case FunctionNameLabels():
            return functions.judge(check, (), scrape.alone)
        case Initialised():
            return initialised.judge(check, scrape.alone)
        case NoBuiltinDuplicates():
            return duplicates.judge(check, scrape.since_start)
        case Invariant():
            return invariants.judge(check, scrape.since_start)
        case _:
            return None
