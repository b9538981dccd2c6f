"""Families of an operator that say what another one of its own says."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...exposition.families import text
from .families import Problem, Served, written
from .relations import Key, Sums, stem_of, sums_of

_OF_NUMBERS = frozenset({"count", "number", "num", "total", "current", "of", "now"})
"""Words that say no more than that there is a number."""


def problems(own: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield each family of the operator's own that another one of them makes needless."""
    families = [family for family in own if family.series]
    yield from _named_twice(families, samples)
    yield from _observed_twice(families, samples)
    yield from _slices(families, samples)


def _named_twice(families: Iterable[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield families of one type whose names are the same words, if in another order those with the same values."""
    known: dict[tuple[object, ...], Served] = {}
    for family in families:
        if family.family.type not in ("counter", "gauge"):
            continue
        key = (family.family.type, *sorted(word for word in stem_of(family.name) if word not in _OF_NUMBERS))
        other = known.setdefault(key, family)
        labels = sorted(family.labels())
        if other is not family and stem_of(family.name) == stem_of(other.name):
            says = f"its name is that of {other.name} but for a plural"
            yield Problem(family=family.name, rule="duplicate", says=says, fix="keep one of the two, in the plural")
        elif other is not family and labels == sorted(other.labels()):
            values = sums_of(family, labels, samples)
            if any(values.values()) and values == sums_of(other, labels, samples):
                # What is there of the current kind is all there is in most moments.
                hint = ("current" in stem_of(family.name)) != ("current" in stem_of(other.name))
                says = f"it says what {other.name} says, of which it has the values"
                fix = "keep one of the two"
                one = written(family.series[0])
                yield Problem(family=family.name, rule="duplicate", says=says, series=one, fix=fix, hint=hint)


def _observed_twice(families: Iterable[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield histograms and summaries that have the sums and the counts of another one: all, and a sum not whole."""
    known: dict[frozenset[tuple[str, str, float]], Served] = {}
    for family in families:
        if family.family.type not in ("histogram", "summary"):
            continue
        ends = {
            (one.name.removeprefix(family.name), text("", one.labels), samples.get(written(one), math.nan))
            for one in family.series
            if one.name in (f"{family.name}_sum", f"{family.name}_count")
        }
        other = known.setdefault(frozenset(ends), family)
        if other is not family and any(end == "_sum" and value % 1 > 0 for end, _, value in ends):
            says = f"it has the sums and the counts of {other.name}"
            yield Problem(family=family.name, rule="duplicate", says=says, fix="keep one of the two")


def _slices(families: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield a counter with the values of another one at one value of a label."""
    counters = [family for family in families if family.family.type == "counter"]
    known: dict[tuple[tuple[str, ...], frozenset[tuple[Key, float]]], tuple[str, str]] = {}
    for family in families:
        labels = sorted(family.labels())
        for label in labels if family.family.type == "counter" else ():
            rest = [one for one in labels if one != label]
            by_value: dict[str, Sums] = defaultdict(dict)
            for (value, *key), number in sums_of(family, [label, *rest], samples).items():
                by_value[value][tuple(key)] = number
            for value, sums in by_value.items() if len(by_value) > 1 else ():
                part = f'{family.name}{{{label}="{value}"}}'
                known.setdefault((tuple(rest), frozenset(sums.items())), (family.name, part))
    for counter in counters:
        labels = sorted(counter.labels())
        sums = sums_of(counter, labels, samples)
        other, part = known.get((tuple(labels), frozenset(sums.items())), ("", ""))
        # One number is another one's by chance.
        shares = set(stem_of(counter.name)[1:]) & set(stem_of(other)[1:]) - {"total"}
        if other not in ("", counter.name) and len({*sums.values()} - {0.0}) > 1 and shares:
            says = f"it has the values of {part}"
            one = written(counter.series[0])
            yield Problem(
                family=counter.name, rule="duplicate", says=says, series=one, fix="take it away, and read that one"
            )
