"""Series that are there from the first scrape on. A rate over one that comes late misses its first increase."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from ...analysis.metrics.counters import counts
from ...analysis.metrics.history import TargetHistory
from ...analysis.metrics.idleness import has_worked
from ...errors import NotMeasuredError
from ...exposition.families import family_of, parse, text
from ..check import CheckArgumentError, Outcome, at_most, first
from ..run import Run, unknown
from .families import RESERVED, fits
from .target import TargetCheck, ValuesOf, check_selectors, values_of

_TO_DO = "set it to 0 when the program starts"


class _LabelSet(NamedTuple):
    """One label set of a family; a histogram's buckets, sum and count are one."""

    labels: Mapping[str, str]
    series: list[str]


class _Positional(TargetCheck, frozen=True):
    families: list[str]


class PreinitializedSeries(_Positional, tag="preinitialized_series", frozen=True, kw_only=True):
    """Whether these families' series are all there, with 0, from the first scrape on.

    ``labels`` declares which there have to be: one for each combination of the values. Without it they are those that
    the run showed at any time. A family that never came was not initialized either: that is what it looks like where
    nothing ever failed.

    Series that count have to be 0 until the operator has taken up work, by its own count of it. What had counted before
    the first scrape may have begun with 0 or come with its first count: that stays undecided.
    """

    one_scrape = "alone"

    labels: dict[str, ValuesOf] = msgspec.field(default_factory=dict)
    """Label → all of its values, of each of the families; or a selector of the series whose values they are."""

    def validate(self) -> None:
        if not self.families:
            raise CheckArgumentError(
                "preinitialized_series() names no family", next_step='Give families=["my_errors_total"].'
            )
        if empty := [label for label, values in self.labels.items() if not values]:
            raise CheckArgumentError(
                f"preinitialized_series(labels={self.labels}): {empty[0]} has no value, so none is demanded"
            )
        check_selectors(self.labels)

    def judge_target(self, run: Run) -> Outcome:
        target = run.metrics().target(self.target)
        target.surface()
        by_family = _label_sets(target, self.families)
        declared = values_of(self.labels, target)
        missing = [line for family in self.families for line in _missing(family, declared, by_family, target)]
        counted = _counted(by_family, target)
        worked = has_worked(target, 0)
        if worked is False:
            missing += [
                f"{name} began with {value:g}, before anything was reconciled; {_TO_DO}" for name, value in counted
            ]
        if not missing and len(target.moments) < 2:
            raise NotMeasuredError(f"{target.target} was scraped only once: what comes later was not seen")
        complete = [f"{family}: {len(sets)} label sets" for family, sets in sorted(by_family.items())]
        return at_most(
            "",
            f"label sets of {', '.join(self.families)} that were not there, with 0, from the first scrape on",
            len(missing),
            0,
            doubts=[] if worked is False else _doubts([name for name, _ in counted]),
            evidence=first(missing) or complete,
        )


def _label_sets(target: TargetHistory, patterns: list[str]) -> dict[str, dict[str, _LabelSet]]:
    """Return family → label set as text → its series."""
    by_family: dict[str, dict[str, _LabelSet]] = defaultdict(dict)
    for series in target.series:
        parts = parse(series)
        family = family_of(parts.name, target.families)
        if any(fits(family, pattern) for pattern in patterns):
            reserved = RESERVED.get(target.families[family].type) if family in target.families else None
            labels = {label: value for label, value in parts.labels.items() if label != reserved}
            by_family[family].setdefault(text(family, labels), _LabelSet(labels, [])).series.append(series)
    return by_family


def _missing(
    pattern: str, declared: Mapping[str, list[str]], by_family: dict[str, dict[str, _LabelSet]], target: TargetHistory
) -> Iterator[str]:
    """Yield each label set that came late, went away, or never came though it was declared."""
    families = [family for family in sorted(by_family) if fits(family, pattern)]
    if not families:
        yield _never(pattern, target)
    for family in families:
        for name, label_set in by_family[family].items():
            yield from _of_label_set(name, label_set.series, target)
        yield from _never_served(family, declared, by_family[family])


def _of_label_set(name: str, series: list[str], target: TargetHistory) -> Iterator[str]:
    there = [all(value is not None for value in at) for at in zip(*map(target.values, series), strict=True)]
    if all(there):
        return
    if not there[0]:
        came = target.when(there.index(True)) if any(there) else "in parts only"
        yield f"{name} came {came}; {_TO_DO}"
    else:
        yield f"{name} was not there {target.when(there.index(False))}, though it had been before"


def _never_served(family: str, declared: Mapping[str, list[str]], served: Mapping[str, _LabelSet]) -> Iterator[str]:
    """Yield the combinations of declared values that no label set has; it may have other labels beside them."""
    if not declared:
        return
    there = {tuple(one.labels.get(label) for label in declared) for one in served.values()}
    for values in itertools.product(*declared.values()):
        if values not in there:
            yield f"{text(family, dict(zip(declared, values, strict=True)))} was never served; {_TO_DO}"


def _never(pattern: str, target: TargetHistory) -> str:
    if pattern in target.families:
        return f"{pattern} has no series, only a TYPE line; give it all its label sets when the program starts"
    near = unknown("family", pattern, sorted(target.families)).partition("there are:")[0].rstrip("; ")
    return f"{pattern} was never served: {near}"


def _counted(by_family: dict[str, dict[str, _LabelSet]], target: TargetHistory) -> list[tuple[str, float]]:
    """Return the label sets that count and were not at 0 when they were first seen, each with what it showed."""
    nonzero = []
    for label_sets in by_family.values():
        for name, label_set in label_sets.items():
            counting = [series for series in label_set.series if counts(parse(series).name, target.families)]
            values = [value for series in counting if (value := target.value(series, 0))]
            if values:
                nonzero.append((name, values[0]))
    return nonzero


def _doubts(counted: list[str]) -> list[str]:
    if not counted:
        return []
    more = f" and {len(counted) - 1} more" if len(counted) > 1 else ""
    return [f"{counted[0]}{more} had counted before the first scrape: whether it began with 0 was not seen"]
