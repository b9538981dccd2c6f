"""Families of one response that contradict each other: a part that is more than its whole, a number above its limit.

What two families are to each other their names say: they differ in one word, as ``runs_failed_total`` and
``runs_total``, ``jobs_running`` and ``jobs_limit``, ``replicas_ready`` and ``replicas_desired``. Values are compared
label set by label set, over the labels that both have, each with the others added up.

Names as https://prometheus.io/docs/practices/naming/ wants them: from the general to the particular, words of one
thing in one order.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...exposition.families import MetricType, Series
from .families import Problem, Served, written
from .units import unit_in

Key = tuple[str, ...]
Sums = dict[Key, float]
"""Values of the labels that are compared → the sum of all series that have them."""

_FAILED = r"fail(?:ed|ures?)|errors?|aborted|cancell?ed|timed_out|timeouts?"
_DONE = r"succee?ded|success(?:es|ful|fully)?|completed|finished|done|processed"
_HANDLED = r"handled|delivered|indexed|accepted|stored|admitted"
_REFUSED = r"rejected|rejections?|dropped|denied|skipped|discarded|ignored"
_BEGUN = r"started|attempted|attempts|received|submitted|requested|begun|seen|discovered|enqueued"
_ASKED = r"lookups?|requests?|quer(?:y|ies)|reads?|gets?|accesses|calls?"
_NOW = (
    r"running|active|in_?flight|in_use|used|busy|ongoing|current|open|allocated|occupied|executing|concurrent|free"
    r"|available|reserved|length|depth|backlog"
)
_MOST = r"limit|max|maximum|capacity|max_concurrent|max_allowed|max_size|allowed|quota|size"
_STATE = (
    r"ready|available|healthy|unhealthy|running|failed|failing|updated|up_to_date|pending|active|idle|busy|degraded"
    r"|scheduled|synced|bound|connected|paused|stale|expired|online|offline|used|free"
    r"|occupied|in_use|taken|leased|allocated|reserved"
)
_READY = r"ready|healthy|bound|synced"
_WANTED = r"desired|expected|total|wanted|managed|known|registered|configured"


class _Pair(NamedTuple):
    """What two words make of two names that are otherwise the same."""

    type: MetricType
    """Of both."""
    less: re.Pattern[str] | None
    """In the name of the one that is never more; None: it has no such word."""
    more: re.Pattern[str] | None
    """In the other's name."""
    says: str
    """What to say of both, with their values and the other's name."""
    before: float
    """How many may have begun before the process did, and end in it."""
    times: bool
    """Whether it is so of times, too; what takes time now may take longer than the longest of late."""


def _pair(kind: MetricType, less: str, more: str, says: str, *, before: float = 0.0, times: bool = False) -> _Pair:
    words = [re.compile(rf"(?<![^_])(?:{word})(?![^_])") if word else None for word in (less, more)]
    return _Pair(kind, words[0], words[1], says, before, times)


_BEFORE = 4.0
"""How many may have begun before the process did that counts how they end."""

_PAIRS = (
    _pair("counter", f"{_FAILED}|{_DONE}", "", "it counts some of {more}, and is {less} where that is {whole}"),
    _pair(
        "counter",
        f"{_FAILED}|{_DONE}|{_REFUSED}|{_HANDLED}",
        _BEGUN,
        "it is {less}, and {more} is {whole}",
        before=_BEFORE,
    ),
    _pair(
        "counter",
        r"succee?ded|success(?:es|ful|fully)?",
        "completed|finished|done|processed|ended",
        "it counts some of {more}, and is {less} where that is {whole}",
    ),
    _pair("counter", "hits?|miss(?:es)?", _ASKED, "it is {less}, and {more} is {whole}"),
    _pair("gauge", "", "limit|max|maximum|capacity", "it is {less}, and {more} is {whole}"),
    _pair("gauge", _NOW, _MOST, "it is {less}, and {more} is {whole}"),
    _pair("gauge", _STATE, _WANTED, "it is {less}, and {more} is {whole}"),
    _pair("gauge", _READY, "size", "it is {less}, and {more} is {whole}"),
    _pair("gauge", _STATE, "", "it is a part of {more}, and is {less} where that is {whole}"),
    _pair("gauge", "min|minimum|lowest", "max|maximum|highest", "it is {less}, and {more} is {whole}", times=True),
)

_FIX = "count both at one place, or name them for what they are"

_ATTEMPT = re.compile(
    r"(?:request|call|attempt|run|operation|reconcile|reconciliation|query|backup|restore|upload|download|job|login"
    r"|evaluation|scrape|push|delivery|invocation|execution|check|probe|notification|update|fetch|render|send|write"
    r"|read)$"
)
"""The last word of what has one error at most each; others may have several."""

_MOMENT = 0.01
"""Share by which a count may be ahead of another one that is read a moment before it."""

_READ = re.compile(r"(?<![^_])(?:hertz|rpm|watts?|load\d*|rate)(?![^_])")
"""What a name says of what is measured, beside units."""

_SUCCEEDED = re.compile(r"(?<![^_])succe(?:eded|ss|sses|ssful)(?![^_])")
_NOT = re.compile(r"(?<![^_])(?:failed|failures?)(?![^_])")
"""Two ways to end, of which each thing has one."""

_TWO_WAYS = (
    (_SUCCEEDED, _NOT, [pair.more for pair in _PAIRS[:2]]),
    (re.compile(r"(?<![^_])hits?(?![^_])"), re.compile(r"(?<![^_])miss(?:es)?(?![^_])"), [_PAIRS[3].more]),
)
"""Words of two ways to end, of which each thing has one, and those of all that began."""

_PART = re.compile(r"(?<![^_])(?:used|in_use|utili[sz]ed|free|available|allocated)(?![^_])")
_WHOLE = re.compile(r"(?<![^_])(?:limit|max|maximum|capacity|total|size)(?![^_])")
"""Words of what a ratio is of, and of what it is by."""

_EITHER = (
    (_SUCCEEDED, re.compile(r"(?<![^_])(?:failed|failures?|errors?)(?![^_])")),
    (re.compile(r"(?<![^_])hits?(?![^_])"), re.compile(r"(?<![^_])miss(?:es)?(?![^_])")),
    (re.compile(r"(?<![^_])(?:used|utili[sz]ed)(?![^_])"), re.compile(r"(?<![^_])(?:free|available)(?![^_])")),
)
"""Words of shares that add up to one."""

_TAKEN = re.compile(r"(?<![^_])(?:used|in_use|allocated|busy|occupied|taken|leased|assigned)(?![^_])")
_LEFT = re.compile(r"(?<![^_])(?:free|idle|unused|unallocated|unassigned)(?![^_])")
"""Words of what is in use of something, and of what is not."""

_EXCLUSIVE = frozenset({"phase", "state", "status", "stage", "condition_status"})
"""Labels of which each thing has one value."""

_TO_BE_SPLIT = re.compile(
    r"(?<![^_])(?:total|managed|count|number|all|known|registered|current|objects|resources)(?![^_])"
)
_SPLIT = re.compile(
    r"(?<![^_])(?:(?:by|per)_[a-z]+|phases?|states?|status(?:es)?|stages?|in|total|count|current)(?![^_])"
)

_APART = 0.1
"""Share from which on two numbers of the same things are no longer two moments of one scrape."""

_SOME = 2.0
"""What two such numbers are apart by at least."""

_SPAN = re.compile(r"\d+ ?(?:s|sec|m|min|h|hours?|d|days?|w|weeks?|mo|months?|y|years?)", re.IGNORECASE)
"""Values of a label for the time over which something is counted."""

_WELL = re.compile(r"succe(?:ss|ssful|eded)|completed?|ok", re.IGNORECASE)
"""Values of a label that say that something ended well."""

_UNDER_WAY = 10.0
"""How many may have been counted when they began, and be observed when they end."""

_TIMED = re.compile(
    r"(?<![^_])(?:duration|latency|time|elapsed|took|processing|handling|seconds|milliseconds|ms)(?![^_])"
)
"""Words of a histogram's name that say what it measures of a thing."""


def problems(own: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield families of the operator's own that contradict another one of them."""
    families = [family for family in own if family.series]
    yield from _above(families, samples)
    yield from _ends(families, samples)
    yield from _shares(families, samples)
    yield from _quotients(families, samples)
    yield from _parts_of_another(families, samples)
    yield from _counted_twice(families, samples)
    yield from _free_and_used(families, samples)
    yield from _either(families)


def _above(families: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield what is more than the whole that it is a part of, or than its limit; the first of each family."""
    said: set[str] = set()
    for pair in _PAIRS:
        fitting = [one for one in families if one.family.type == pair.type and (pair.times or not _is_read(one.name))]
        wholes: dict[Key, list[Served]] = defaultdict(list)
        for family in fitting:
            for stem in _stems(family.name, pair.more):
                wholes[stem].append(family)
        for part in fitting:
            for stem in _stems(part.name, pair.less):
                for whole in wholes.get(stem, ()):
                    if part.name in said or (found := _more(part, whole, samples, pair.before)) is None:
                        continue
                    said.add(part.name)
                    example, less, more = found
                    yield Problem(
                        family=part.name,
                        rule="inconsistent",
                        says=pair.says.format(more=whole.name, less=f"{less:g}", whole=f"{more:g}"),
                        series=example,
                        fix=_FIX,
                        hint="error" in part.name and not _ATTEMPT.search(stem[-1]),
                    )


def _is_read(name: str) -> bool:
    """Return whether a name says a time, a temperature or what else is measured, and not counted or set aside."""
    unit = unit_in(name)
    return (unit is not None and unit.base != "bytes") or _READ.search(name) is not None


def _ends(families: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield what succeeded where it and what failed, each no more than what began, together are."""
    counters = [family for family in families if family.family.type == "counter"]
    for one_way, other_way, whole in _TWO_WAYS:
        yield from _two_ways(counters, one_way, other_way, whole, samples)


def _two_ways(
    counters: Sequence[Served],
    one_way: re.Pattern[str],
    other_way: re.Pattern[str],
    all_of_them: Sequence[re.Pattern[str] | None],
    samples: Mapping[str, float],
) -> Iterator[Problem]:
    failed = {stem: one for one in counters for stem in _stems(one.name, other_way)}
    begun = {stem: one for words in all_of_them for one in counters for stem in _stems(one.name, words)}
    for good in counters:
        for stem in _stems(good.name, one_way):
            if stem not in failed or stem not in begun:
                continue
            bad, whole = failed[stem], begun[stem]
            labels = sorted(good.labels().keys() & bad.labels().keys() & whole.labels().keys())
            sums = [sums_of(one, labels, samples) for one in (good, bad, whole)]
            for key, most in sums[2].items():
                ended = [one.get(key, 0.0) for one in sums[:2]]
                if sum(ended) - most > max(_BEFORE, _MOMENT * most) and most >= max(ended) and key in sums[0]:
                    says = f"it is {ended[0]:g}, {bad.name} {ended[1]:g}, and {whole.name} is {most:g}"
                    example = _example(good, labels, key)
                    yield Problem(family=good.name, rule="inconsistent", says=says, series=example, fix=_FIX)
                    break


def _shares(families: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield two shares of one whole, of which each thing is in one only, that are more than all of it."""
    ratios = [family for family in families if family.family.type == "gauge" and family.name.endswith("_ratio")]
    for one_way, other_way in _EITHER:
        others = {stem: family for family in ratios for stem in _stems(family.name, other_way)}
        for family in ratios:
            for stem in _stems(family.name, one_way):
                if (other := others.get(stem)) is None or family.labels().keys() != other.labels().keys():
                    continue
                labels = sorted(family.labels())
                some, rest = sums_of(family, labels, samples), sums_of(other, labels, samples)
                for key in some.keys() & rest.keys():
                    if some[key] + rest[key] > 1 + _MOMENT and max(some[key], rest[key]) <= 1:
                        says = f"it is {some[key]:g}, and {other.name} is {rest[key]:g}: more than all together"
                        example = _example(family, labels, key)
                        yield Problem(family=family.name, rule="inconsistent", says=says, series=example, fix=_FIX)
                        break


def _quotients(families: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield a ratio that is not what two families beside it make: what is used, by all that there may be."""
    gauges = [family for family in families if family.family.type == "gauge"]
    parts = {stem_of(_without_unit(one.name)): one for one in gauges if not one.name.endswith("_ratio")}
    wholes = {stem: one for one in gauges for stem in _stems(one.name, _WHOLE)}
    for ratio in gauges:
        part = parts.get(stem_of(ratio.name.removesuffix("_ratio"))) if ratio.name.endswith("_ratio") else None
        if part is None:
            continue
        for whole in {one.name: one for stem in _stems(part.name, _PART) if (one := wholes.get(stem))}.values():
            labels = sorted(ratio.labels())
            if not labels == sorted(part.labels()) == sorted(whole.labels()):
                continue
            given, some, every = (sums_of(one, labels, samples) for one in (ratio, part, whole))
            for key in given.keys() & some.keys() & every.keys():
                if every[key] > 0 and abs(given[key] - (be := some[key] / every[key])) > _APART:
                    says = f"it is {given[key]:g}, and {part.name} by {whole.name} is {be:.3g}"
                    example = _example(ratio, labels, key)
                    yield Problem(family=ratio.name, rule="inconsistent", says=says, series=example, fix=_FIX)
                    break


def _without_unit(name: str) -> str:
    unit = unit_in(name)
    return name.removesuffix(f"_{unit.word}") if unit is not None else name


def _stems(name: str, words: re.Pattern[str] | None) -> list[Key]:
    """Return what a name says without a word, once for each place of such a word; without words, all of it."""
    name = name.removesuffix("_total")
    if words is None:
        return [stem_of(name)]
    rests = (stem_of(f"{name[: match.start()]}_{name[match.end() :]}") for match in words.finditer(name))
    return [rest for rest in rests if len(rest) > 1]


def stem_of(name: str) -> Key:
    """Return a name's words, each in the singular."""
    return tuple(_singular(word) for word in name.split("_") if word)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def sums_of(family: Served, labels: Sequence[str], samples: Mapping[str, float], suffix: str = "") -> Sums:
    """Return the sum of a family's series for each combination of the labels' values.

    What is counted over several spans of time, as of a day and of a week, is in each of them: the largest counts.
    """
    spans = [label for label, values in family.labels().items() if label not in labels and all(map(_is_span, values))]
    by_span: dict[Key, Sums] = defaultdict(lambda: defaultdict(float))
    for one in family.series:
        if one.name == family.name + suffix:
            key, span = (tuple(one.labels.get(label, "") for label in some) for some in (labels, spans))
            by_span[key][span] += samples.get(written(one), math.nan)
    return {key: max(sums.values()) for key, sums in by_span.items()}


def _is_span(value: str) -> bool:
    return _SPAN.fullmatch(value) is not None


def _shared(some: Served, other: Served) -> list[str]:
    return sorted(some.labels().keys() & other.labels().keys())


def _more(part: Served, whole: Served, samples: Mapping[str, float], before: float) -> tuple[str, float, float] | None:
    """Return a series of a part that is above its whole, and both values; None where none is."""
    labels = _shared(part, whole)
    parts, wholes = sums_of(part, labels, samples), sums_of(whole, labels, samples)
    for key, less in parts.items():
        more = wholes.get(key)
        # What has no limit says −1 or 0 in its place.
        if (
            more is not None
            and less - more > max(before, _MOMENT * more)
            and (more > 0 or (more == 0 and part.family.type == "counter"))
        ):
            return _example(part, labels, key), less, more
    return None


def _example(family: Served, labels: Sequence[str], key: Key) -> str:
    fitting: Iterator[Series] = (
        one for one in family.series if tuple(one.labels.get(label, "") for label in labels) == key
    )
    return written(next(fitting))


def _parts_of_another(families: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield numbers of things by phase or state that do not add up to the number of the same things."""
    gauges = [family for family in families if family.family.type == "gauge" and unit_in(family.name) is None]
    wholes: dict[Key, Served] = {}
    for family in gauges:
        if _EXCLUSIVE.isdisjoint(family.labels()):
            wholes.setdefault(stem_of(_TO_BE_SPLIT.sub("", family.name)), family)
    for family in gauges:
        split = family.labels().keys() & _EXCLUSIVE
        whole = wholes.get(stem_of(_SPLIT.sub("", family.name)))
        if len(split) != 1 or whole is None or len(family.labels()[next(iter(split))]) < 2:
            continue
        labels = _shared(family, whole)
        parts, sums = sums_of(family, labels, samples), sums_of(whole, labels, samples)
        for key, total in parts.items():
            if key in sums and _are_apart(total, sums[key], _SOME):
                says = f"its values add up to {total:g} over {next(iter(split))}, and {whole.name} is {sums[key]:g}"
                example = _example(family, labels, key)
                yield Problem(family=family.name, rule="inconsistent", says=says, series=example, fix=_FIX)
                break


def _counted_twice(families: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield a histogram or a summary that has observed more or less than a counter of the same thing has counted.

    What fails may go without an observation: where a counter says how many did, or is split by how each ended, there
    may be fewer.
    """
    counters = _counters(families)
    for family, counter in timed(families):
        labels = _shared(family, counter)
        counts, sums = sums_of(family, labels, samples, "_count"), sums_of(counter, labels, samples)
        split = len(counter.labels()) > len(labels)
        others = [
            one for stem, one in counters.items() if set(stem) > set(stem_of(counter.name.removesuffix("_total")))
        ]
        for key, count in counts.items():
            fewer = key in sums and count < sums[key]
            if key not in sums or not _are_apart(count, sums[key], _UNDER_WAY if fewer else _SOME):
                continue
            if fewer and (split or others) and not count < _sure(counter, labels, key, samples) * (1 - _APART):
                continue
            says = f"it has observed {count:g}, and {counter.name} has counted {sums[key]:g}"
            example = _example(family, labels, key)
            fix = "observe each that is counted, or name them for what they are"
            yield Problem(family=family.name, rule="inconsistent", says=says, series=example, fix=fix)
            break


def _counters(families: Sequence[Served]) -> dict[Key, Served]:
    """Return what counters count → the counter."""
    return {stem_of(one.name.removesuffix("_total")): one for one in families if one.family.type == "counter"}


def timed(families: Sequence[Served]) -> Iterator[tuple[Served, Served]]:
    """Yield the histograms and summaries of what a counter counts, too, by their names, each with that counter."""
    counters = _counters(families)
    for family in families:
        counter = counters.get(stem_of(_TIMED.sub("", family.name)))
        if family.family.type in ("histogram", "summary") and counter is not None:
            yield family, counter


def _free_and_used(families: Sequence[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield what is free of something, where with what is in use it is more than there is."""
    gauges = [family for family in families if family.family.type == "gauge"]
    wholes = {stem: one for one in gauges for stem in (*_stems(one.name, _WHOLE), stem_of(one.name))}
    used = {stem: one for one in gauges for stem in _stems(one.name, _TAKEN)}
    for free in gauges:
        for stem in _stems(free.name, _LEFT):
            taken, whole = used.get(stem), wholes.get(stem)
            if taken is None or whole is None:
                continue
            labels = sorted(free.labels().keys() & taken.labels().keys() & whole.labels().keys())
            lefts, takens, alls = (sums_of(one, labels, samples) for one in (free, taken, whole))
            for key, left in lefts.items():
                both, more = left + takens.get(key, math.nan), alls.get(key, math.nan)
                if more > 0 and both - more > max(1.0, _APART * more):
                    says = f"it is {left:g}, with {taken.name} {both:g}, and {whole.name} is {more:g}"
                    example = _example(free, labels, key)
                    yield Problem(family=free.name, rule="inconsistent", says=says, series=example, fix=_FIX)
                    break


def _either(families: Sequence[Served]) -> Iterator[Problem]:
    """Yield what succeeded and what failed as two counters, without all of them: no ratio without adding up."""
    counters = [family for family in families if family.family.type == "counter"]
    failed = {(*stem, *sorted(one.labels())): one for one in counters for stem in _stems(one.name, _NOT)}
    for good in counters:
        for stem in _stems(good.name, _SUCCEEDED):
            bad = failed.get((*stem, *sorted(good.labels())))
            if bad is not None and not any(stem_of(one.name.removesuffix("_total")) == stem for one in counters):
                says = f"its name differs from that of {bad.name} in how each ended, so that no query adds them up"
                fix = "make them one family, with a label result; or count all, and those that failed"
                yield Problem(family=good.name, rule="label-in-name", says=says, fix=fix, hint=True)


def _sure(counter: Served, labels: Sequence[str], key: Key, samples: Mapping[str, float]) -> float:
    """Return how many of what a counter has counted ended well by the label that splits it, and so took their time."""
    split = sorted(counter.labels().keys() - {*labels})
    if len(split) != 1:
        return 0.0
    sums = sums_of(counter, [*labels, *split], samples)
    return sum(value for (*rest, end), value in sums.items() if tuple(rest) == key and _WELL.fullmatch(end))


def _are_apart(some: float, others: float, at_least: float) -> bool:
    apart = abs(some - others)
    return apart >= at_least and apart > _APART * max(abs(some), abs(others))
