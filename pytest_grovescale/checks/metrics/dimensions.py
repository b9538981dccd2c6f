"""Dimensions: what labels split families by, and what names of families or labels by hand split instead.

One dimension has one name in all families, so that a query can join them; what differs in one dimension only is one
family with a label, and what is spread over ranges or quantiles a histogram:
https://prometheus.io/docs/practices/naming/#labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ...exposition.families import Series
from .families import Problem, Served, written
from .label_spelling import OF_OUTCOMES

_STATISTIC = re.compile(
    r"p?(?:50|75|9\d)|p99\.?9+|p100|p0|0?\.(?:5|50|75|9\d*)|avg|mean|average|median|min|max|std_?dev", re.I
)
_ENDS = frozenset({"min", "max"})
"""As of a setting."""
_BOUND = r"\d+(?:\.\d+)? ?[a-z%]*"
_RANGE = re.compile(
    rf"(?:[<>≤≥]=?|(?:lt|gt|le|ge|under|over|above|below|up_?to)[ _-]?) ?{_BOUND}"
    rf"|{_BOUND} ?(?:-|–|to|_to_|\.\.) ?{_BOUND}|{_BOUND}(?:\+|[ _]?plus)",
    re.IGNORECASE,
)
_OPEN_ENDED = re.compile(r"^[<>≤≥]|^(?:lt|gt|le|ge|under|over|above|below|up_?to)|(?:\+|plus)$", re.IGNORECASE)
"""Of ranges of sizes one has no end; those of ports or cores all have one."""
_MONTH = re.compile(r"(?:19|20)\d\d-\d\d")
_FEW_RANGES = 3

_SHORT = 4
"""Letters of a word that stands for a longer one."""
_OF_CONTROLLERS = re.compile(r"reconcil\w*|requeues?|requeued|workers?|queue")
"""Words of what every controller does."""


_STATES = frozenset(
    {"pending", "running", "failed", "succeeded", "completed", "unknown", "terminating", "creating", "deleting"}
    | {"starting", "stopping", "stopped", "degraded", "scheduled", "unhealthy", "provisioning", "updating", "error"}
)
"""States of which a thing is in one; ready and available ones may be among the running."""

_VERBS = frozenset({"create", "update", "delete", "patch", "get", "list", "watch"})

_INDEX = re.compile(r"0x[0-9a-f]+|\d+")
_STATUS = re.compile(r"[1-5](?:xx|\d\d)", re.IGNORECASE)

_SIDES = frozenset(
    {"up", "down", "rx", "tx", "in", "out", "read", "write", "reads", "writes", "receive", "transmit"}
    | {"local", "remote", "cpu", "memory", "io", "data", "metadata"}
)
"""Words of what is not added up: two directions, two resources."""

_NO_THINGS = frozenset(
    {"collector", "module", "component", "subsystem", "plugin", "direction", "mode", "type", "verb", "method"}
    | {"operation", "op", "action"}
    | OF_OUTCOMES
)
"""Labels whose values are words of any name: ``down``, ``receive``."""

_OF_THINGS = frozenset({"setting", "option", "parameter", "param", "config", "config_key", "key"})
"""Labels of which each value is a thing of its own; a key may also be that of a map."""

_BOOLEANS = frozenset({"true", "false", "0", "1", "yes", "no", "on", "off"})
"""Values that labels share by chance."""


def problems(families: Sequence[Served]) -> Iterator[Problem]:
    """Yield dimensions of two names, those in the names of families, and histograms and summaries by hand."""
    yield from _two_names(families)
    yield from _instead_of_a_label(families)
    yield from _word_in_name(families)
    yield from _numbered(families)
    yield from _values_in_names(families)
    for family in families:
        if not family.of_library:
            for label, values in sorted(family.labels().items()):
                yield from _by_hand(family, label, values)
                yield from _things_by_a_label(family, label, values)


def _two_names(families: Iterable[Served]) -> Iterator[Problem]:
    """Yield a label that other families have under a longer name, with the same values: no query can join them."""
    by_label: dict[str, dict[str, dict[str, Series]]] = {}
    for family in families:
        if not family.of_library:
            for label, values in family.labels().items():
                by_label.setdefault(label, {})[family.name] = values
    for short, of_short in sorted(by_label.items()):
        for long, of_long in sorted(by_label.items()):
            if short == long or not _is_short_for(short, long) or not of_short.keys().isdisjoint(of_long):
                continue
            shared = set().union(*of_short.values()) & set().union(*of_long.values())
            if len(shared) > 1 and not shared <= _BOOLEANS:
                name, values = next(iter(of_short.items()))
                says = f"its label {short} has the values that {long} has in {next(iter(of_long))}"
                fix = f"name the label {long} everywhere, or the other one {short}"
                one = written(next(iter(values.values())))
                yield Problem(family=name, rule="label-variants", says=says, series=one, fix=fix)


def _is_short_for(short: str, long: str) -> bool:
    """Return whether a label's name is another one cut short: ``ns``, ``namespace``; ``tenant``, ``tenant_id``."""
    low, high = (re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in (short, long))
    if high in (f"{low}_name", f"{low}_id") or (low == high and short > long):
        return True
    rest = iter(high)
    return len(low) <= _SHORT < len(high) and low[0] == high[0] and all(letter in rest for letter in low)


def _instead_of_a_label(families: Sequence[Served]) -> Iterator[Problem]:
    """Yield families that count the same of a program's controllers, each with one's name in its own."""
    known = {
        _word(value)
        for family in families
        for label, values in family.labels().items()
        if label in ("controller", "kind", "resource") or family.name.startswith("workqueue_")
        for value in values
    }

    def may_be_named(family: Served, place: int, word: str) -> bool:
        of_controllers = any(map(_OF_CONTROLLERS.fullmatch, family.name.split("_")))
        return bool(place) and of_controllers and not _OF_CONTROLLERS.fullmatch(word)

    for same in _apart_in_a_word(families, may_be_named):
        listed = {word: one for word, one in same.items() if _word(word) in known}
        said = {word: one for word, one in same.items() if _names_many(word, one.family.help)}
        named = listed if len(listed) > 1 else said if len(said) >= _FEW_RANGES else {}
        if named:
            yield _apart(next(iter(named.values())), sorted(named), "controller")


def _word_in_name(families: Iterable[Served]) -> Iterator[Problem]:
    """Yield gauges that differ in the word for a state, and counters that differ in that for a verb."""
    telling = {"gauge": _STATES | {"ready"}, "counter": _VERBS}
    for same in _apart_in_a_word(families, lambda family, _, word: word in telling.get(family.family.type, ())):
        if len(same) >= _FEW_RANGES:
            first = next(iter(same.values()))
            yield _apart(first, sorted(same), "state" if first.family.type == "gauge" else "operation")


def _values_in_names(families: Sequence[Served]) -> Iterator[Problem]:
    """Yield families whose names differ in a label's values elsewhere: ``s3_requests`` beside ``backend="s3"``."""
    by_label: dict[str, set[str]] = {}
    for family in families:
        for label, values in family.own_labels().items() if not family.of_library else ():
            if label.lower() not in _NO_THINGS:
                by_label.setdefault(label, set()).update(values.keys() - _BOOLEANS - _SIDES)
    known = set().union(*by_label.values())
    for same in _apart_in_a_word(families, lambda _, place, word: bool(place) and word in known):
        for label, listed in sorted(by_label.items()):
            named = sorted(same.keys() & listed)
            if len(named) > 1 and not any(label in family.labels() for family in same.values()):
                yield _apart(same[named[0]], named, label)
                break


def _things_by_a_label(family: Served, label: str, values: Mapping[str, Series]) -> Iterator[Problem]:
    """Yield a gauge whose series are different things, named by a label: they have no unit, and no sum."""
    if family.family.type == "gauge" and label.lower() in _OF_THINGS and len(values) > 1:
        says = f"its series are {', '.join(list(values)[:3])} by {label}: different things, of which no unit holds"
        fix = "make a family for each, with its unit at the end of its name"
        one = written(next(iter(values.values())))
        yield Problem(family=family.name, rule="unit", says=says, series=one, fix=fix)


def _numbered(families: Iterable[Served]) -> Iterator[Problem]:
    """Yield families that differ in a number only: the index of one of several things, or a status of HTTP."""
    for same in _apart_in_a_word(families, lambda _, __, word: bool(_INDEX.fullmatch(word) or _STATUS.fullmatch(word))):
        words = sorted(same, key=lambda word: (len(word), word))
        statuses = all(map(_STATUS.fullmatch, words))
        numbers = [int(word, 16 if word.startswith("0x") else 10) for word in words if _INDEX.fullmatch(word)]
        indexes = len(numbers) == len(words) and numbers == list(range(numbers[0], numbers[0] + len(words)))
        if (statuses and len(words) > 1) or (indexes and len(words) >= _FEW_RANGES):
            yield _apart(same[words[0]], words[:4], "code" if statuses else "for the number")


def _apart_in_a_word(
    families: Iterable[Served], fits: Callable[[Served, int, str], bool]
) -> Iterable[Mapping[str, Served]]:
    """Return families of one type and the same labels whose names differ in one word that fits, by that word.

    ``fits``: is given a family of the program's own, a word of its name, and the word's place.
    """
    alike: dict[tuple[object, ...], dict[str, Served]] = {}
    for family in families:
        parts = family.name.split("_")
        for place, word in enumerate(parts):
            if not family.of_library and fits(family, place, word):
                key = (family.family.type, *sorted(family.labels()), place, *parts[:place], "", *parts[place + 1 :])
                alike.setdefault(key, {})[word] = family
    return alike.values()


def _apart(family: Served, words: Sequence[str], label: str) -> Problem:
    """Return that names differ in some words only."""
    says = f"its name differs from those of others in {', '.join(words)} only, so that no query adds them up"
    fix = f"make them one family, with a label {label}"
    return Problem(family=family.name, rule="label-in-name", says=says, fix=fix)


def _word(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower().removesuffix("s")


def _names_many(word: str, text: str) -> bool:
    """Return whether a help text has a word as that of things: in the plural, or as a kind of objects."""
    return re.search(rf"\b(?:{word.removesuffix('s')}(?:s|es)|{word.capitalize()})\b", text) is not None


def _by_hand(family: Served, label: str, values: Mapping[str, Series]) -> Iterator[Problem]:
    """Yield a histogram or a summary that was made by hand: a series for each range, or for each quantile."""
    example = written(next(iter(values.values())))
    of_all = all(map(_STATISTIC.fullmatch, values)) and not _ENDS.issuperset(values)
    if family.family.type == "gauge" and len(values) > 1 and of_all:
        says = f"its series are {', '.join(list(values)[:3])} by {label}, which cannot be added up or averaged again"
        fix = "make it a histogram; histogram_quantile() computes them over any time"
        yield Problem(family=family.name, rule="derived", says=says, series=example, fix=fix)
    ranges = [value for value in values if _RANGE.fullmatch(value) and not _MONTH.fullmatch(value)]
    open_ended = any(map(_OPEN_ENDED.search, ranges))
    if family.family.type in ("counter", "gauge") and len(ranges) >= _FEW_RANGES and len(ranges) >= len(values) - 1:
        says = f"its label {label} has ranges ({', '.join(ranges[:3])}), which make a histogram without a sum"
        fix = "make it a histogram of what is measured"
        one = written(values[ranges[0]])
        yield Problem(family=family.name, rule="derived", says=says, series=one, fix=fix, hint=not open_ended)
