"""Counters that started again at 0 in a process that went on."""

from __future__ import annotations

from collections import defaultdict

from ...analysis.metrics.counters import Reset, counting, resets, restarts
from ...analysis.metrics.history import TargetHistory, TypeChange
from ...errors import NotMeasuredError
from ...exposition.families import parse
from ..check import Outcome, at_most, first, not_negative, shown
from ..run import Run
from .target import TargetCheck

_SHOWN = 5
UNDER_WAY = "_active_seconds"
"""End of the names of Micrometer's `LongTaskTimer`: a summary of what is under way, whose sum falls when it ends
(docs.micrometer.io/micrometer/reference/concepts/long-task-timers.html). Not the operator's to mend."""


class CounterResets(TargetCheck, tag="counter_resets", frozen=True, kw_only=True):
    """How often a counter started again in a process that went on, once for each family and scrape.

    A restart of the process explains it, and is named. A family that changes its type is judged while it was a counter;
    what it did as another type leaves a doubt.
    """

    max: int = 0

    def validate(self) -> None:
        not_negative(self, max=self.max)

    def judge_target(self, run: Run) -> Outcome:
        target = run.metrics().target(self.target)
        if len(target.moments) < 2:
            raise NotMeasuredError(f"{target.target} was scraped {len(target.moments)} times: a fall needs two")
        if not any(any(counting(target, parse(series).name)) for series in target.series):
            raise NotMeasuredError(f"{target.target} says of none of its metrics that it is a counter")
        restarted = restarts(target)
        by_scrape: dict[tuple[int, str], list[Reset]] = defaultdict(list)
        for reset in resets(target):
            explained = reset.family.endswith(UNDER_WAY) or any(
                reset.since < restart <= reset.scrape for restart in restarted
            )
            if not explained:
                by_scrape[reset.scrape, reset.family].append(reset)
        evidence = [_line(target, by_scrape[key]) for key in sorted(by_scrape)[:_SHOWN]]
        evidence += [
            f"the process was restarted {target.when(scrape)}, its counters with it" for scrape in sorted(restarted)
        ]
        doubts = [
            _retyped(target, change)
            for change in target.type_changes
            if "counter" in (change.before, change.after) and change.scrape not in restarted
        ]
        return at_most(
            "",
            f"counters that were reset{_explained(restarted)}",
            len(by_scrape),
            self.max,
            doubts=doubts[:_SHOWN],
            evidence=[*evidence, *first(doubts, _SHOWN)],
        )


def _retyped(target: TargetHistory, change: TypeChange) -> str:
    turned = f"{change.family}, a {change.before}, is a {change.after} from {target.when(change.scrape)} on"
    return f"{turned}: a fall of another type than a counter proves nothing"


def _explained(restarted: set[int]) -> str:
    if not restarted:
        return ""
    return f", beside {len(restarted)} restart{'s' if len(restarted) > 1 else ''} of the process"


def _line(target: TargetHistory, of_family: list[Reset]) -> str:
    first = of_family[0]
    more = f" and {len(of_family) - 1} more series" if len(of_family) > 1 else ""
    fell = f"{shown(first.before, '', 6)} → {shown(first.after, '', 6)}"
    return f"{target.when(first.scrape)}: {first.series} {fell}{more}"
