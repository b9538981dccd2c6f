"""How many series there are, and with which labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...analysis.metrics.summary import series_by_family
from ...errors import NotMeasuredError
from ...exposition.series import Series as SeriesParts
from ..finding import Finding, at_most
from ..lint import size
from ..lint.served import Served, served, written
from .evidence import first
from .shape import Labels, Series


def series(check: Series, metrics: MetricsHistory) -> Finding:
    """Judge the number of series: the most that one scrape had, or that of a phase's end.

    Without ``family``, those of all families that no library brought.
    """
    target = metrics.target(check.target)
    surface = target.surface()
    counted = {found.name for found in size.counted(served(target.whole()), check.family)}
    every = series_by_family(target)
    counts = {name: of for name, of in every.items() if name in counted}
    if not any(map(any, (counts if check.family else every).values())) and check.max > 0:
        raise NotMeasuredError(f"{target.target} serves no series{_of(check.family)}", next_step=_families_of(target))
    totals = [sum(of[scrape] for of in counts.values()) for scrape in range(len(target.moments))]
    scrape = _end_of(check.phase, target) if check.phase else max(range(len(totals)), key=lambda index: totals[index])
    there = size.counted(served(target.surface(scrape)), check.family)
    return at_most(
        check.phase,
        f"series of {surface.target} {size.of(check.family)}",
        totals[scrape],
        check.max,
        doubts=() if check.phase else unread(target),
        evidence=[
            target.when(scrape) + ("" if check.phase else f", the most of {len(totals)} scrapes"),
            *map(size.in_words, size.largest(there)),
        ],
    )


def labels(check: Labels, metrics: MetricsHistory) -> Finding:
    """Judge names of labels and their values, of all series that were ever served.

    Labels that a library gave its own families are let off, except where ``family`` names such a family.
    """
    target = metrics.target(check.target)
    families = [found for found in served(target.whole(), pattern=check.family) if found.series]
    if not families:
        raise NotMeasuredError(f"{target.target} serves no series{_of(check.family)}", next_step=_families_of(target))
    broken = [text for found in families for text in _broken(check, found)]
    there = {label for found in families for label in _judged(check, found)}
    missing = sorted(set(check.allowed_values) - there)
    doubts = [f"no series has a label {label!r}" for label in missing] + unread(target)
    return at_most(
        "",
        "labels that are forbidden, or have a value that is not allowed",
        len(broken),
        0,
        doubts=doubts,
        evidence=first(broken),
    )


def unread(target: TargetHistory) -> list[str]:
    """Return why a target may have served more than was read: its last scrapes failed, and there is no telling."""
    if target.failures and target.failures[-1][0] > target.moments[-1].at:
        return [f"its last scrape failed ({target.failures[-1][1]})"]
    return []


def _broken(check: Labels, found: Served) -> Iterator[str]:
    """Yield each label that breaks a rule, with examples of its values."""
    for label, values in sorted(_judged(check, found).items()):
        if label in check.forbidden:
            yield f"{found.name} has the label {label}, with {_count(values)}: {_examples(values)}; take it away"
        elif label in check.allowed_values:
            others = {value: of for value, of in values.items() if value not in check.allowed_values[label]}
            if others:
                yield f"{found.name}: {label} has {_count(others)} that it may not have: {_examples(others)}"


def _judged(check: Labels, found: Served) -> dict[str, dict[str, SeriesParts]]:
    return found.labels() if check.family else found.own_labels()


def _count(values: Mapping[str, object]) -> str:
    return f"{len(values):,} value{'s' if len(values) != 1 else ''}"


def _examples(values: Mapping[str, SeriesParts]) -> str:
    return ", ".join(written(series) for series in list(values.values())[:2])


def _end_of(phase: str, target: TargetHistory) -> int:
    for scrape in reversed(target.of_phase(phase)):
        if target.moments[scrape].edge == f"end:{phase}":
            return scrape
    raise NotMeasuredError(f"{target.target} was not scraped at the end of {phase!r}")


def _of(family: str) -> str:
    return f" in {family}" if family else ""


def _families_of(target: TargetHistory) -> str:
    names = sorted(target.families)
    return f"Its families are: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}." if names else ""
