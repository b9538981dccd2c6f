"""Checks that one scrape can judge, of an endpoint or a saved response. The others are named: they need a run."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import msgspec

from ..analysis.metrics.history import MetricsHistory, TargetHistory
from ..analysis.metrics.snapshot import Surface
from ..analysis.result import OPERATOR, CheckResult, TestResult
from ..errors import NotMeasuredError
from ..recording.records import Machine, Scraped
from .budgets import Declared
from .check import Check, text_of
from .judge import inconclusive, result_of
from .metrics.builtin_duplicates import since_start
from .metrics.families import served
from .metrics.preinitialized_series import PreinitializedSeries
from .run import Metrics, Run

SCRAPE = "the scrape"
"""The phase that it is the end of: an endpoint that does not say whether it was at rest is taken to have been, as at a
phase's end."""

_NEEDS_RUN = "needs a run"

_NO_TEST = TestResult(
    test="",
    run="",
    version="",
    scenario_outcome="passed",
    started="",
    seconds=0,
    machine=Machine(fingerprint="", cpu="", cores=0, memory_bytes=0, kernel="", python=""),
)


class Unjudged(msgspec.Struct, frozen=True, kw_only=True):
    """A check that one scrape cannot judge."""

    check: str
    source: str
    why: str
    """Half a sentence: ``needs a run``."""


class OneScrape(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on one scrape."""

    checks: tuple[CheckResult, ...]
    unjudged: tuple[Unjudged, ...] = ()


def judge(declared: Iterable[Declared], surface: Surface) -> OneScrape:
    """Judge each check once, however often it is declared: those of the operator's endpoint are of this one.

    What the endpoint does not serve is inconclusive, as in a run.
    """
    by_text: dict[str, Declared] = {}
    for one in declared:
        by_text.setdefault(text_of(one.check), one)
    # A large endpoint takes its time, so that each history is built only when a check needs it.
    histories = {
        "alone": functools.cache(lambda: _alone(surface)),
        "since_start": functools.cache(lambda: _since_start(surface)),
    }
    verdicts = [_verdict(one.check, one.source, histories) for one in by_text.values()]
    return OneScrape(
        checks=tuple(one for one in verdicts if isinstance(one, CheckResult)),
        unjudged=tuple(one for one in verdicts if isinstance(one, Unjudged)),
    )


def _alone(surface: Surface) -> MetricsHistory:
    """Return the scrape as the only one."""
    target = TargetHistory(surface.target)
    scrape = Scraped(
        at=0, target=OPERATOR, edge=f"end:{SCRAPE}", samples=surface.samples, families=dict(surface.families)
    )
    target.feed(scrape, SCRAPE)
    target.native |= surface.native
    return _of_operator(target)


def _since_start(surface: Surface) -> MetricsHistory:
    """Return the scrape as the second of two, the first one at the start of its process."""
    return _of_operator(since_start(surface.target, served(surface), surface.samples, phase=SCRAPE))


def _of_operator(target: TargetHistory) -> MetricsHistory:
    history = MetricsHistory()
    history.targets[OPERATOR] = target
    return history


def _verdict(check: Check, source: str, histories: Mapping[str, Metrics]) -> CheckResult | Unjudged:
    if why := _why_not(check):
        return Unjudged(check=text_of(check), source=source, why=why)
    try:
        outcome = check.judge(Run(_NO_TEST, metrics=histories[check.one_scrape]))
    except NotMeasuredError as error:
        if isinstance(check, PreinitializedSeries):
            # All that it lacks is a second scrape.
            return Unjudged(check=text_of(check), source=source, why=_NEEDS_RUN)
        return inconclusive(text_of(check), error, phase="", source=source)
    return result_of(check, outcome, source)


def _why_not(check: Check) -> str:
    if check.of_sweep:
        return "is judged by runs of several sizes: grovescale sweep"
    if getattr(check, "phase", ""):
        return _NEEDS_RUN
    target = getattr(check, "target", OPERATOR)
    if target != OPERATOR:
        return f"is of the target {target}"
    return "" if check.one_scrape else _NEEDS_RUN
