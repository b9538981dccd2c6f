"""Counters that started anew."""

from __future__ import annotations

from collections import defaultdict

from ...analysis.metrics.counters import Reset, counting, resets, restarts
from ...analysis.metrics.history import MetricsHistory, TargetHistory, TypeChange
from ...errors import NotMeasuredError
from ...exposition.series import parse
from ..finding import Finding, at_most, shown
from .evidence import first
from .shape import CounterResets

_SHOWN = 5


def judge(check: CounterResets, metrics: MetricsHistory) -> Finding:
    """Judge how often a counter began anew in a process that went on; one count for each family and scrape.

    A family that changes its type is judged while it was a counter; what it did as another leaves a doubt. Raises
    NotMeasuredError where no counter was seen twice.
    """
    target = metrics.target(check.target)
    if len(target.moments) < 2:
        raise NotMeasuredError(f"{target.target} was scraped {len(target.moments)} times: a fall needs two")
    if not any(any(counting(target, parse(series).name)) for series in target.series):
        raise NotMeasuredError(f"{target.target} says of none of its metrics that it is a counter")
    began = restarts(target)
    found: dict[tuple[int, str], list[Reset]] = defaultdict(list)
    for reset in resets(target):
        if reset.scrape not in began:
            found[reset.scrape, reset.family].append(reset)
    evidence = [_line(target, found[key]) for key in sorted(found)[:_SHOWN]]
    evidence += [f"the process was restarted {target.when(scrape)}, its counters with it" for scrape in sorted(began)]
    doubts = [
        _retyped(target, change)
        for change in target.type_changes
        if "counter" in (change.before, change.after) and change.scrape not in began
    ]
    return at_most(
        "",
        f"counters that began anew{_explained(began)}",
        len(found),
        check.max,
        doubts=doubts[:_SHOWN],
        evidence=[*evidence, *first(doubts, _SHOWN)],
    )


def _retyped(target: TargetHistory, change: TypeChange) -> str:
    turned = f"{change.family}, a {change.before}, is a {change.after} from {target.when(change.scrape)} on"
    return f"{turned}: a fall of what is no counter tells nothing"


def _explained(began: set[int]) -> str:
    if not began:
        return ""
    return f", beside {len(began)} restart{'s' if len(began) > 1 else ''} of the process"


def _line(target: TargetHistory, of_family: list[Reset]) -> str:
    first = of_family[0]
    more = f" and {len(of_family) - 1} more series" if len(of_family) > 1 else ""
    fell = f"{shown(first.before, '', 6)} → {shown(first.after, '', 6)}"
    return f"{target.when(first.scrape)}: {first.series} {fell}{more}"
