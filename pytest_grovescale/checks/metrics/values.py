"""Values of one response that contradict themselves, their type or their name.

Counters never fall below zero. Ratios, infos and times as https://prometheus.io/docs/practices/naming/ names them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from ...exposition.families import Series, text
from . import distributions
from .distributions import DURATION, LONGEST_S, LabelSet, others
from .families import Problem, Rule, Served, written
from .help_texts import COUNTS, says_a_time
from .units import unit_in

_WHEN = re.compile(r"_(?:timestamp|at|time|date|epoch|unix|unixtime|since)$")
"""The end of a name that promises a point in time; all but the first may be something else."""

_SMALLER = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
"""Unit → how many are a second."""

_PERCENT = 2.0
"""A ratio from here on is taken for percent: an overcommitment may be somewhat above 1."""

LATEST_S = 4.1e9
"""The year 2100: a time in seconds beyond it is one in milliseconds or less."""

FIRST_S = 1e9
"""September 2001: a time before it is a duration, or in another unit."""

_SPAN = re.compile(r"_(?:age|ago|uptime|lag|ttl|remaining|left|interval|timeout|backoff|staleness)(?:_\w+)?_seconds$")
"""The name of a time from one moment to another, which may well be longer than a year."""

_OF_THE_PAST = re.compile(r"_(?:age|ago|uptime|lag|staleness|delay)(?:_\w+)?_seconds$")
"""The name of a time since something, which is never below zero."""

_SHARE = re.compile(r"(?:hits?|miss(?:es)?|success(?:ful)?|errors?|failures?|availability)_ratio$")
"""The end of the name of a part of a whole, which is never more than that."""

_PARTS = re.compile(r"_(?:ratio|percent(?:age)?|share|fraction|average|avg|mean)_total$")
"""The end of the name of a counter of what does not add up."""

_A_MOMENT = re.compile(
    r"_(?:\w*time|\w*stamp|\w*expir\w*|created|creation|date|deadline|at|epoch|clock|now|since)(?=_)"
)
"""Words of a name in seconds that say: since 1970."""

_BUILD = re.compile(r"_(?:build|version)_info$")
_OF_BUILD = re.compile(r"version|revision|commit|branch|tag|build|date|sha|dirty|tree|modified", re.IGNORECASE)
"""Parts of the names of labels that say which build it is."""

_NO_VERSION = frozenset({"", "unknown", "unset", "undefined", "none", "(unknown)", "n/a", "0.0.0"})
"""What a program has for its version when its build does not set it."""

_THINGS = re.compile(
    r"(?:pods|nodes|replicas|objects|connections|threads|workers|items|entries|secrets|files|keys|resources|clients"
    r"|leases|watchers|instances|members|shards|jobs|tasks|services|containers|endpoints|sessions|subscribers"
    r"|[a-z]s_(?:in_?flight|under_way|queued|waiting|running))$"
)
"""The end of the name of what there are whole ones of only."""

_PLURAL = re.compile(r"[a-z]{3}[^\Ws]s$")
"""The end of a word for several things."""

_MAY_BE_PARTS = re.compile(
    r"ratio|average|avg|mean|median|rate\b|_rate|\bper\b|fraction|percent|estimat|weight|core|cpu|resource|load"
    r"|second|minute|hour|day|watt|volt|amp|credit|token|point|unit|degree|score|money|cost|price|dollar|euro",
    re.IGNORECASE,
)
"""What a name or a help text says of a number that need not be whole, though it is one of things."""

_A_TIME = re.compile(r"_(?:timestamp|start_time|(?:last|created|creation|deletion|completion)\w*_time)_seconds$")
"""The end of the name of a point in time."""

_OF_MEMORY = re.compile(
    r"(?<![^_])(?:memory|ram|heap|disk|volume|storage|cache)_(?:\w+_)?(?:limit|max|maximum|capacity|quota)_bytes$"
    r"|(?<![^_])(?:limit|max|maximum|capacity|quota)_(?:\w+_)?(?:memory|ram|heap|disk|volume|storage|cache)_bytes$"
)
"""The name of how much memory or disk there may be."""

_STORED = re.compile(r"(?<![^_])(?:rss|disks?|volumes?|databases?|backups?|snapshots?)_(?:size_|used_|usage_)?bytes$")
"""The name of what takes a page or more, each time."""

_PAGE = 4096.0
"""Bytes: no memory is smaller."""

_MOMENT = re.compile(r"_(?:last|latest|time|timestamp|at|when)(?=_|$)")
"""Words of what happened once, at a time."""

_PAST = re.compile(
    r"_(?:last|start(?:ed)?|created|creation|updated|completed|synced|observed)_.*(?<=time|tamp)_seconds$"
)
"""The name of a point in time that has been."""

_DAY_S = 86_400.0

_YES_OR_NO = re.compile(
    r"(?:^|_)(?:is|has)_\w+$|(?:(?<!s)|(?<=[sui]s))_(?:enabled|healthy|alive|leader|successful|up)$"
)
"""Names of what holds or does not; of several, as ``nodes_healthy``, there is a number."""

_WHETHER = re.compile(r"(?:\[\w+\] )?(?:whether|(?:set to |value is )?1 (?:if|when|means)|boolean)\b", re.IGNORECASE)
_OTHER_NUMBERS = re.compile(r"(?<![\w.])(?:[2-9]|-\d|\d\d+)(?![\w.])|number|count")
"""What a help text says of values beside 0 and 1."""

_ASKS = re.compile(r"_(?:status|condition|ready)$")
"""The end of the name of what a label answers: ``…_ready_status{condition="True"}``."""

_YES_AND_NO = ({"true", "false"}, {"yes", "no"}, {"on", "off"}, {"enabled", "disabled"})

_REPLICAS = frozenset({"replica", "pod", "instance", "member", "node", "peer", "identity"})
"""Labels that name those of which one leads."""

_ONE_HOLDS = re.compile(r"\b1 (?:if|in|for|when|means)\b", re.IGNORECASE)

_OF_SIZES = re.compile(
    r"(?:compress(?:ion|ed)?|dedup\w*|allocation|over\w+|amplification|replication|aspect|expansion|burn_rate)_ratio$"
)
"""Ratios of one size to another, which may well be more than 2."""

_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_KELVIN = (263.0, 373.0)
"""From a cold room to boiling water: what is measured in a machine is not as warm in °C."""
_HOTTEST_C = 5000.0
"""Beyond what any furnace has; sensors of Linux count in thousandths (Documentation/hwmon/sysfs-interface.rst)."""

_EXCLUSIVE = ("phase", "state", "status")
"""Labels of which an object has one value at a time."""

_NO_TIME_S = 9.2e15
"""The largest number of milliseconds in 64 bits, in seconds: programs have it, or the least one, for no time at all."""

_WRAPPED = 2.0**63
"""A count from here on is a negative number that was written without its sign."""

_FRACTIONAL = re.compile(r"seconds|bytes|joules|celsius|ratio|cost|score|weight|volume|amount|time|duration|sum")
"""Parts of names of counters that need not be whole."""

_COUNTED = re.compile(
    r"(?<!s)s$|_(?:length|depth|size|count|in_?flight|pending|active|backlog|running|waiting|used|free|usage)$"
    r"|_[a-z]{3,}(?<!e)ed$"
)
"""The end of a gauge's name that counts things."""

_LIMITS = re.compile(r"limit|max|quota|index|status|exit_code")
"""Parts of names of gauges that have −1 for none."""

_SIGNED = re.compile(r"delta|diff|offset|change|skew|drift|balance|temperature|rate|score")
"""Parts of names of gauges that may be below zero."""
_AHEAD = re.compile(r"left|remain|until|expir")
"""Parts of names of times that are below zero once they are over."""

_SECONDS = re.compile(r"_seconds(?:_total)?$")

_LARGEST = frozenset({2.0**31 - 1, 2.0**32 - 1, 2.0**63, 2.0**64, 3.4028234663852886e38, 1.7976931348623157e308})
"""What programs have where there is no value yet: the largest integers and floating-point numbers."""

_WHOLE = ("all", "any", "total", "sum", "*")
"""Values of a label that stand for all its others."""

_SEVERAL_THINGS = 3
"""Things of which most have one version."""


def problems(
    families: Iterable[Served],
    samples: Mapping[str, float],
    native: Iterable[str] = (),
    *,
    now_s: float | None = None,
) -> Iterator[Problem]:
    """Yield what is wrong with the values of families; ``native``: those that have exponential buckets.

    ``now_s``: when they were served, at the latest, s since the epoch; None where this is not known.
    """
    exponential = set(native)
    for family in families:
        match family.family.type:
            case "histogram" if family.name not in exponential:
                yield from _first(family, "inconsistent", distributions.histogram(family, samples))
            case "summary":
                yield from _first(family, "inconsistent", distributions.summary(family, samples))
            case "counter":
                yield from _first(family, "value", _counter(family, samples))
                yield from _first(family, "value", _sums(family, samples))
            case "gauge" | "unknown" | "info":
                yield from _first(family, "value", _gauge(family, samples, now_s or LATEST_S))
                yield from _first(family, "value", _sums(family, samples))
                yield from _first(family, "value", _states(family, samples))
                yield from _first(family, "value", _builds(family))
                yield from _first(family, "value", _versions(family, samples))
            case "stateset":
                yield from _first(family, "value", _states(family, samples))
            case _:
                pass


def _first(family: Served, rule: Rule, faults: Iterable[tuple[str, str, str]]) -> Iterator[Problem]:
    """Yield a family's first fault of each kind: (what is wrong, an example, the fix)."""
    said: set[str] = set()
    for says, series, fix in faults:
        if fix not in said:
            said.add(fix)
            yield Problem(family=family.name, rule=rule, says=says, series=series, fix=fix)


def _counter(family: Served, samples: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    for one, value in _values(family, samples):
        if not math.isfinite(value) or value < 0:
            yield (
                f"a counter is {value:g}, and it only ever counts up from 0",
                written(one),
                "count with a counter, and make what can fall a gauge",
            )
        elif _SECONDS.search(family.name) and value > LATEST_S:
            yield f"{value:.4g} s is more than a century", written(one), "add up seconds, not milliseconds or less"
        elif value >= _WRAPPED:
            yield f"{value:.4g} is more than anything can count", written(one), "do not add negative numbers to it"
        elif FIRST_S <= value <= LATEST_S and unit_in(family.name) is None and _MOMENT.search(family.name):
            fix = "make it a gauge, …_timestamp_seconds"
            yield f"{value:.4g} is a time since 1970, and a counter adds up", written(one), fix
        elif value != int(value) and _PARTS.search(family.name):
            fix = "make it a gauge, or count the parts and the whole, and let a query divide them"
            yield f"it is {value:g}, a part of a whole, which adds up to nothing", written(one), fix
        elif value != int(value) and family.name.endswith("_bytes_total"):
            yield f"{value:.17g} is no number of bytes", written(one), "add up whole bytes"
        elif value != int(value) and unit_in(family.name) is None and not _FRACTIONAL.search(family.name):
            fix = "add 1 for each, or end its name in the unit that it adds up"
            yield f"it is {value:g}, and its name says that it counts", written(one), fix


def _gauge(family: Served, samples: Mapping[str, float], now_s: float) -> Iterator[tuple[str, str, str]]:
    name = family.name
    for one, value in _values(family, samples):
        example = written(one)
        if math.isnan(value) and name.endswith("_ratio"):
            continue  # of nothing to nothing
        if value in _LARGEST and not _LIMITS.search(name):
            fix = "leave the series out while it has no value"
            yield f"{value:.17g} is the largest number of its type, which stands for none", example, fix
        elif not math.isfinite(value):
            yield f"{value:g} says nothing of it", example, "leave the series out while it has no value"
        elif value not in (0, 1) and _is_yes_or_no(family):
            yield (
                f"it is 1 or 0 for yes or no, and this is {value:g}",
                example,
                "set it to 1 or 0, or name what it counts",
            )
        elif name.endswith("_info") and (value != 1 or not one.labels):
            says = (
                f"an info is always 1, and this is {value:g}" if one.labels else "an info without labels says nothing"
            )
            yield says, example, "put facts into its labels, and set it to 1"
        elif name.endswith(("_date", "_day")) and _DATE.fullmatch(f"{value:.0f}"):
            fix = "expose seconds since 1970, as …_timestamp_seconds"
            yield f"{value:.0f} is a date written as a number, which no query can subtract", example, fix
        elif name.endswith("_celsius") and _KELVIN[0] <= value <= _KELVIN[1]:
            yield (
                f"{value:g} is no degree Celsius of a machine, and {value - 273.15:.3g} °C in kelvin",
                example,
                "subtract 273.15",
            )
        elif name.endswith("_celsius") and abs(value) >= _HOTTEST_C:
            yield f"{value:g} is no degree Celsius of a machine: it is in thousandths", example, "divide by 1000"
        elif _SHARE.search(name) and value > 1:
            yield f"a part of a whole is {value:g} of it", example, "divide by what it is a part of"
        elif value >= _WRAPPED and (name.endswith("_bytes") or _counts(name)) and not _LIMITS.search(name):
            yield f"{value:.4g} is more than anything has", example, "do not subtract below zero"
        elif value != int(value) and (_THINGS.search(name) or _is_a_number_of(family)):
            what = "name" if _THINGS.search(name) else "help text"
            yield f"it is {value:g}, and its {what} says that it counts", example, "set it to what there is"
        elif value != int(value) and name.endswith("_version"):
            says = f"its version {value:g} is a text, and 1.10 is not more than 1.9 as a number"
            yield says, example, "put it into a label of an info"
        elif name.endswith("_ratio") and (value < 0 or (value >= _PERCENT and not _OF_SIZES.search(name))):
            yield f"a ratio is from 0 to 1, and this is {value:g}", example, "divide by 100, or name it for what it is"
        elif abs(value) >= _NO_TIME_S:
            continue  # stands for none
        elif DURATION.search(name) and not (0 <= value <= LONGEST_S or (value >= FIRST_S and _PAST.search(name))):
            says = "is below zero" if value < 0 else "is longer than a year: it is in milliseconds or less"
            yield f"a duration of {value:.4g} s {says}", example, "expose seconds, from a monotonic clock"
        elif value < 0 and name.endswith("_seconds") and says_a_time(family.family.help) and not _may_be_negative(name):
            yield f"a time that something took is {value:.4g} s", example, "measure it with a monotonic clock"
        elif value < 0 and _OF_THE_PAST.search(name):
            says = f"{value:.4g} s ago has not come yet"
            yield says, example, "take both times from one clock, and 0 where the difference is negative"
        elif value >= FIRST_S and (_SPAN.search(name) or (name.endswith("_seconds") and _is_a_moment(name, value))):
            says = f"{value:.4g} s are more than thirty years: it is a time since 1970"
            yield says, example, "subtract it from the time now, or name it …_timestamp_seconds"
        elif _PAST.search(name) and now_s + _DAY_S < value < LATEST_S:
            yield f"a time of {value:.4g} s has not come yet", example, "set it to when it happened"
        elif _A_TIME.search(name) and 1 < value < FIRST_S:
            yield f"a time of {value:.4g} s lies before 2001", example, "expose seconds since 1970, not a duration"
        elif name.endswith("_seconds") and value > LATEST_S:
            what = "a time of" if "_time" in name else "a duration of"
            yield f"{what} {value:.4g} s is past the year 2100", example, "divide: it is in milliseconds or less"
        elif name.endswith("_start_time_seconds") and value == 0:
            yield "a start in 1970", example, "leave the series out while there is no such time"
        elif name.endswith(("_timestamp_seconds", "_time_seconds")) and value < 0:
            yield f"a time of {value:g} s lies before 1970", example, "leave the series out while there is no such time"
        elif 1 < value < _PAGE and (_OF_MEMORY.search(name) or (_STORED.search(name) and _all_small(family, samples))):
            says = f"{value:g} bytes are less than a page of memory: it is in mebibytes or more"
            yield says, example, "expose bytes"
        elif name.endswith("_bytes") and (value < 0 or value != int(value)):
            fix = "expose whole bytes" if value >= 0 else "leave the series out while it is unknown"
            yield f"{value:g} is no number of bytes", example, fix
        elif value < 0 and value == int(value) and _counts(name) and not (value == -1 and _LIMITS.search(name)):
            yield f"it is {value:g}, and its name says that it counts", example, "set it to what there is"


def _may_be_negative(name: str) -> bool:
    return _SIGNED.search(name) is not None or _AHEAD.search(name) is not None


def _all_small(family: Served, samples: Mapping[str, float]) -> bool:
    return all(value < _PAGE for _, value in _values(family, samples))


def _is_a_moment(name: str, value: float) -> bool:
    """Return whether seconds under a name that says no point in time are nevertheless one."""
    return value <= LATEST_S and _MOMENT.search(name) is not None and not _A_MOMENT.search(name)


def _builds(family: Served) -> Iterator[tuple[str, str, str]]:
    """Yield a build without a version, and a second one of one process: what differs in which build it is alone."""
    if not _BUILD.search(family.name):
        return
    for one in family.series:
        said = {value.lower() for label, value in one.labels.items() if label in ("version", "revision", "commit")}
        if said and said <= _NO_VERSION:
            yield "it says no version", written(one), "set it when the program is built, as with -ldflags -X"
            return
    if len(family.series) < 2:
        return
    first, *others = family.series
    for other in others:
        differ = [
            label for label in {**first.labels, **other.labels} if first.labels.get(label) != other.labels.get(label)
        ]
        if all(map(_OF_BUILD.search, differ)):
            says = f"it says {len(family.series)} builds of one process, and a query that joins it finds several"
            yield says, written(other), "set it once, with the build that runs"
            return


_THAT_ARE = re.compile(r"(?:the |all )?[a-z]+s (?:that|which) (?:are|were|have been)\b", re.IGNORECASE)


def _is_a_number_of(family: Served) -> bool:
    """Return whether a help text says that there are whole ones of what a gauge counts."""
    text = family.family.help
    thing = family.name.rpartition("_")[2]
    things = re.match(rf"(?:the |all )?{re.escape(thing)}\b", text, re.IGNORECASE) if _PLURAL.search(thing) else None
    says = COUNTS.match(text) or things or _THAT_ARE.match(text)
    return bool(says) and unit_in(family.name) is None and not _MAY_BE_PARTS.search(family.name + text)


def _is_yes_or_no(family: Served) -> bool:
    """Return whether a gauge's name or its help text says that it is 1 or 0."""
    text = family.family.help.strip()
    if _OTHER_NUMBERS.search(text):
        return False
    return bool(_WHETHER.match(text) or (_YES_OR_NO.search(family.name) and unit_in(family.name) is None))


def _states(family: Served, samples: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Yield what is in several states at once, or in none: series that are 1 or 0, one for each value of a label."""
    stateset = family.family.type == "stateset"
    label, surely = (family.name, False) if stateset else _of_one_value(family)
    groups: dict[LabelSet, list[tuple[Series, float]]] = defaultdict(list)
    for one, value in _values(family, samples):
        if label in one.labels:
            groups[others(one, label)].append((one, value))
    words = family.family.help
    whether = _WHETHER.match(words) is not None or _ONE_HOLDS.search(words) is not None
    every = {value for group in groups.values() for _, value in group}
    for group in groups.values():
        values = [value for _, value in group]
        if stateset:
            if not {*values} <= {0.0, 1.0}:
                yield "a state is 1 or 0", written(group[0][0]), "set the states that hold to 1, and the others to 0"
        elif (surely or 0.0 in values or (whether and 0.0 in every)) and {*values} <= {0.0, 1.0} and sum(values) > 1:
            says = f"it is in {sum(values):.0f} values of {label} at once"
            yield says, written(next(one for one, value in group if value)), f"set the {label} before to 0"
        elif not any(values) and len(values) > 2 and label not in _REPLICAS and _ONE_HOLDS.search(words):
            says = f"it is in none of {len(values)} values of {label}, and its help text says that one is 1"
            yield says, written(group[0][0]), f"set the {label} that holds to 1"


def _of_one_value(family: Served) -> tuple[str, bool]:
    """Return the label of which one value holds at a time, and whether that is sure; no label where there is none."""
    asks = _WHETHER.match(family.family.help) or _ASKS.search(family.name)
    for label, values in family.labels().items():
        if asks and {value.lower() for value in values} - {"unknown"} in _YES_AND_NO:
            return label, True
        if label in _REPLICAS and family.name.endswith(("_leader", "_leader_status")):
            return label, True
    label = family.name.rpartition("_")[2]
    if label in ("condition", "conditions"):
        label = "status"  # of which a condition of Kubernetes has one
    return (label if label in _EXCLUSIVE and not _OTHER_NUMBERS.search(family.family.help.lower()) else ""), False


def _counts(name: str) -> bool:
    return bool(_COUNTED.search(name)) and unit_in(name) is None and not _SIGNED.search(name)


def _sums(family: Served, samples: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Yield series that are the sum of the others, so that a query's sum counts everything twice."""
    for label, series in family.labels().items():
        whole = next((value for value in _WHOLE if value in series), "")
        groups = _groups(family, samples, label) if whole else {}
        sums = [
            (said[whole], math.fsum(value for of, value in said.items() if of != whole))
            for said in groups.values()
            if whole in said and len(said) > 2
        ]
        if any(total for total, _ in sums) and all(math.isclose(*each) for each in sums):
            says = f"{label}={whole!r} is the sum of the others, and sum() counts each twice"
            yield says, written(series[whole]), "leave it out: sum() computes it"


def _groups(family: Served, samples: Mapping[str, float], label: str) -> dict[LabelSet, dict[str, float]]:
    """Return the other labels of series → value of a label → value."""
    groups: dict[LabelSet, dict[str, float]] = defaultdict(dict)
    for one, value in _values(family, samples):
        groups[others(one, label)][one.labels.get(label, "")] = value
    return groups


def _versions(family: Served, samples: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Yield an info that has two versions of one thing, where of most things it has one."""
    if not family.name.endswith("_info"):
        return
    for label in family.labels():
        groups = list(_groups(family, samples, label).items()) if _OF_BUILD.search(label) else []
        double = [(rest, said) for rest, said in groups if len(said) > 1]
        if double and len(groups) >= _SEVERAL_THINGS and 2 * len(double) < len(groups):
            rest, said = double[0]
            says = f"of one thing it has {label} {' and '.join(sorted(said)[:2])} at once"
            one = text(family.name, {**dict(rest), label: max(said)})
            yield says, one, "take the series with the old one away: no query can join it"


def _values(family: Served, samples: Mapping[str, float]) -> Iterator[tuple[Series, float]]:
    """Yield the series with their values; where control characters were taken out of a label, it has none."""
    for one in family.series:
        if (value := samples.get(written(one))) is not None:
            yield one, value


def timestamps(family: Served, samples: Mapping[str, float], names: Collection[str]) -> Iterator[Problem]:
    """Yield a point in time without a unit: a fault where its values are times, and otherwise worth a look."""
    name = family.name
    if unit_in(name) is None and (said := _WHEN.search(name)) is not None:
        known = [samples[series] for one in family.series if (series := written(one)) in samples]
        unit = next((unit for unit, each in _SMALLER.items() if known and all(map(partial(_is_time, each), known))), "")
        if not unit and said[0] != "_timestamp":
            return
        better = f"{name[: said.start()]}_timestamp_seconds"
        says = "its name promises a time, and no unit"
        if unit not in ("", "seconds"):
            says += f", and it is in {unit}"
        fix = f"name it {better}" if unit == "seconds" else f"expose seconds, as {better}"
        # Beside the same in seconds it is there for those who read it before.
        hint = not unit or f"{name}_seconds" in names
        yield Problem(family=name, rule="unit", says=says, fix=fix, hint=hint)


def _is_time(each: float, value: float) -> bool:
    """Return whether a value is a time from 2001 to 2100; ``each``: of the unit, how many are a second."""
    return FIRST_S <= value / each <= LATEST_S
