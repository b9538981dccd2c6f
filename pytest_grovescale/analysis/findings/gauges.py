"""Gauges of the operator's own that contradict what they count.

A gauge that equals a number of objects at one time and differs at another is what dashboards and alerts are built on,
and a plausible number is not looked at twice. Typical causes: it is set on create only, or counted up and down beside
the cache.

A family of 0 and 1 by phase or state that has an object in two of them kept the series of the one before.

Numbers of objects are those of each watched kind: all, the ready ones, and those in each phase and condition.

No false alarm: a gauge is held against a count only if it was 0 when there was no such object and equal to their
number, at least three, after a phase that passed; or if its name is that of the kind, with no other word than the
prefix of the operator's families, it was 0 when there was none, and nothing had changed for two seconds. After the
workload is gone, it is enough that the kind itself has not. Gauges whose names speak of a maximum or a limit are left
out. One of work in progress began at 0, never fell while nothing was to be done, and is three or more when all that the
operator made is gone or has ended, as Jobs do.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from ...exposition.families import FRAMEWORKS, LIBRARIES, family_of, parse
from ...recording.conditions import READY_PATH
from ..metrics.history import TargetHistory
from ..metrics.object_states import states_of
from ..result import Finding
from .evidence import PHASE, Life
from .observed import Observed

ID = "gauge"

_LEAST, _TWICE = 3, 2
"""A number that a gauge has by chance is mostly a small one."""

_FEW = 20
"""Series of a family that are looked at one by one."""

Counts = Mapping[str, Mapping[int, int]]
"""What is counted, in words → scrape at rest → its number then."""

_STATES = 12
"""Phases and conditions of a kind that gauges are held against."""

_STATE_LABELS = ("phase", "state", "status")
"""Labels whose values exclude each other."""

_QUIET_S = 2.0
"""Time without a change after which a gauge that is set now and then has been set, s."""

_PLAIN = frozenset(
    {"total", "count", "current", "number", "num", "managed", "tracked", "known", "existing", "by", "phase"}
)
"""Words beside a kind's name that do not say which of its objects are counted."""

_OTHER = re.compile(r"max|peak|limit|capacity|seconds|timestamp|bytes|ratio|info|desired|version|generation")
"""Parts of names of gauges that need not follow a number of objects."""

_OF_OTHERS = (*LIBRARIES, *FRAMEWORKS)
"""Prefixes of what the program does not set itself."""

_UNDER_WAY = re.compile(
    r"in_?(progress|flight)|ongoing|being_[a-z]+ed|(active|busy)_(workers?|reconcil\w+)"
    r"|(^|_)(running|executing|processing)(_|$)"
)
"""Parts of names of gauges of work that is not yet done."""

_TO_COME = re.compile(
    r"(^|_)(pending|outstanding|unscheduled|unready|not_ready|missing|waiting|backlog|remaining"
    r"|to_(create|delete|come|do))(_|$)"
)
"""Parts of names of gauges of what is still to be done for objects, or to become of them."""
_OF_PODS = re.compile(r"(^|_)pods?(_|$)")

_SIGNED = re.compile(r"delta|diff|offset|change|skew|drift|balance|temperature|celsius|seconds|rate|score")
"""Parts of names of gauges that may be below zero."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each gauge below zero, and each that lost track of the objects that it counts."""
    target = seen.target
    if target is None:
        return
    looks = [(seen.rests, _counts(seen, target, seen.rests)), *_while_the_rest_goes(seen, target)]
    common = _common_prefix(target)
    for family, series in sorted(_own_gauges(target).items()):
        below = [] if _SIGNED.search(family) else [one for one in series if _is_below_zero(target, one)]
        if below:
            yield Finding(
                id=ID,
                severity="defect",
                text=f"{family} counts something and is below zero",
                evidence=tuple(_below(target, one) for one in below[:3]),
                check=f'invariant("{family} >= 0")',
            )
        elif not _OTHER.search(family):
            found = [_several_states(seen, target, family, series)]
            for rests, counts in looks:
                columns = _columns(target, family, series, rests).items()
                found += [_contradiction(target, name, values, counts, rests) for name, values in columns]
            found.append(_never_taken_down(seen, target, family, series))
            rests, counts = looks[0]
            if _TO_COME.search(family):
                found.append(_nothing_to_come(seen, target, family, series, counts))
            named = _named(family, common, counts)
            if named and not any(found):
                found.append(_misnamed(seen, target, family, named, _sum_at(target, series, rests), counts))
            yield from islice(filter(None, found), 1)


def _while_the_rest_goes(seen: Observed, target: TargetHistory) -> Iterator[tuple[Sequence[int], Counts]]:
    """Yield the last scrape, too, where other kinds still go then, as what namespaces hold; with those that do not."""
    last = seen.settled_scrape
    if last is None or last in seen.rests:
        return
    at = target.moments[last].at
    quiet = [
        resource
        for resource, lives in seen.lives.items()
        if all(event.at < at - _QUIET_S * 1e9 for life in lives for event in life.events[-1:])
    ]
    yield [*seen.rests, last], _counts(seen, target, [*seen.rests, last], quiet)


def _never_taken_down(seen: Observed, target: TargetHistory, family: str, series: Sequence[str]) -> Finding | None:
    """Return that a gauge of work in progress has some when all work is done, and more of it each time."""
    values = list(_sum_at(target, series, seen.rests).items()) if _UNDER_WAY.search(family) else []
    times = {scrape: target.moments[scrape].at for scrape, _ in values}
    falls = any(
        after < before and not any(times[first] < begin < times[then] for begin, _ in seen.restarts)
        for (first, before), (then, after) in pairwise(values)
    )
    if not values or values[0][1] or values[-1][1] < _LEAST or falls:
        return None
    scrape, left = values[-1]
    made = (life for lives in seen.lives.values() for life in lives if life.made_by_operator)
    # What is there may still be in progress, but for a Job that has ended.
    if any(life.exists(times[scrape]) and not life.ended(times[scrape]) for life in made):
        return None
    return Finding(
        id=ID,
        severity="defect",
        text=f"{family} is {left:,.0f} {target.when(scrape)}, when nothing is under way: it is counted up and not"
        " always down",
        evidence=(f"at {len(values):,} scrapes with no work to do it never fell",),
        check=f'invariant("sum({family}) == 0")',
    )


def _nothing_to_come(
    seen: Observed, target: TargetHistory, family: str, series: Sequence[str], counts: Counts
) -> Finding | None:
    """Return that a gauge of what is still to come has some where nothing can be: no object is there, or all are Ready.

    Of pods alone is known that nothing is left to be done for them when they are Ready.
    """
    values = {scrape: value for scrape, value in _sum_at(target, series, seen.rests).items() if value > 0}
    empty = [
        one for one in values if not any(_is_there(seen, life, target.moments[one].at) for life in seen.known.values())
    ]
    pods, ready = counts.get("pods", {}), counts.get("ready pods", {})
    settled = [one for one in values if pods.get(one) and pods[one] == ready.get(one)]
    if _OF_PODS.search(family) and len(settled) >= _TWICE:
        scrape, why = settled[0], f"when all {pods[settled[0]]:,} pods are Ready"
    elif empty:
        scrape, why = empty[-1], "when nothing is there that it could be of"
    else:
        return None
    return Finding(
        id=ID,
        severity="defect",
        text=f"{family} is {values[scrape]:,.0f} {target.when(scrape)}, {why}: it keeps what it was set to last",
        evidence=tuple(f"{values[one]:,.0f} {target.when(one)}" for one in settled[1:_LEAST]),
        check=f'invariant("sum({family}) == 0")',
    )


def _is_there(seen: Observed, life: Life, at: int) -> bool:
    """Return whether an object exists that came with the test: a part of the workload, or made for it."""
    return life.exists(at) and life.begun >= seen.begin


def _several_states(seen: Observed, target: TargetHistory, family: str, series: Sequence[str]) -> Finding | None:
    """Return that a family of 0 and 1 has objects in several of the states that exclude each other, at rest."""
    label = next((name for name in _STATE_LABELS if all(name in parse(one).labels for one in series)), "")
    if not label:
        return None
    for scrape in seen.rests:
        if any(target.value(one, scrape) not in (None, 0, 1) for one in series):
            return None
        several = {key: names for key, names in _states_at(target, series, label, scrape).items() if len(names) > 1}
        if len(several) < _LEAST:
            continue
        shown = (_states_at(target, series, label, one) for one in range(scrape + 1))
        first = next(filter(None, shown))
        # Of states that all hold at once, as features that are on, each object has several from the first.
        if any(len(names) == 1 for names in first.values()):
            key, names = next(iter(sorted(several.items())))
            which = ", ".join(f'{name}="{value}"' for name, value in key)
            return Finding(
                id=ID,
                severity="defect",
                text=f"{family} has {len(several):,} objects in more than one {label} at once {target.when(scrape)}",
                evidence=(f"{{{which}}}: {', '.join(sorted(names))}; the series of the state before it stays",),
                check=f'invariant("max(sum without({label}) ({family})) <= 1")',
            )
    return None


def _states_at(
    target: TargetHistory, series: Sequence[str], label: str, scrape: int
) -> dict[tuple[tuple[str, str], ...], list[str]]:
    """Return the other labels of an object → the states that it is in at a scrape."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for one in series:
        if target.value(one, scrape) == 1:
            labels = dict(parse(one).labels)
            state = labels.pop(label)
            found[tuple(sorted(labels.items()))].append(state)
    return found


def _own_gauges(target: TargetHistory) -> dict[str, list[str]]:
    """Return family → its series, of gauges that neither the program's libraries nor its framework define."""
    found: dict[str, list[str]] = {}
    for series in target.series:
        name = family_of(parse(series).name, target.families)
        family = target.families.get(name)
        if family is not None and family.type == "gauge" and not name.startswith(_OF_OTHERS):
            found.setdefault(name, []).append(series)
    return found


def _is_below_zero(target: TargetHistory, series: str) -> bool:
    values = [value for value in target.values(series) if value is not None]
    return min(values, default=0) < 0 and all(value == int(value) for value in values)


def _below(target: TargetHistory, series: str) -> str:
    scrape, value = next((scrape, value) for scrape, value in enumerate(target.values(series)) if (value or 0) < 0)
    return f"{series} was {value:g} {target.when(scrape)}"


def _columns(
    target: TargetHistory, family: str, series: Sequence[str], rests: Sequence[int]
) -> dict[str, dict[int, float]]:
    """Return what is held against numbers of objects: a family's sum, and each series where there are few."""
    chosen = {family if len(series) == 1 else f"sum({family})": series}
    if 1 < len(series) <= _FEW:
        chosen |= {one: [one] for one in series}
    # With several labels, each value of one of them: {phase="Running"} of all namespaces.
    by_label: dict[tuple[str, str], list[str]] = {}
    for one in series:
        labels = parse(one).labels
        if len(labels) > 1:
            for pair in labels.items():
                by_label.setdefault(pair, []).append(one)
    if len(by_label) <= _FEW:
        chosen |= {f'sum({family}{{{label}="{value}"}})': added for (label, value), added in by_label.items()}
    return {name: _sum_at(target, added, rests) for name, added in chosen.items()}


def _said_by_labels(name: str, counts: Counts) -> Counts:
    """Return the counts that a label's value names, as ``{phase="Running"}`` does; all where none is named."""
    values = re.findall(r'="([^"]+)"', name)
    named = {
        what: numbers
        for what, numbers in counts.items()
        if any(what.lower().endswith(f" in phase {value.lower()}") for value in values)
    }
    return named or counts


def _sum_at(target: TargetHistory, series: Sequence[str], rests: Sequence[int]) -> dict[int, float]:
    return {scrape: sum(target.value(one, scrape) or 0.0 for one in series) for scrape in rests}


def _common_prefix(target: TargetHistory) -> list[str]:
    """Return the words that the names of all own families begin with; empty for fewer than three families."""
    own = [name.split("_") for name in target.families if not name.startswith(_OF_OTHERS)]
    if len(own) < _LEAST:
        return []
    return [words[0] for words in takewhile(lambda words: len(set(words)) == 1, zip(*own, strict=False))]


def _named(family: str, common: Sequence[str], counts: Counts) -> str:
    """Return what a gauge counts by its name, as in ``counts``; empty where its name has a word that is not known."""
    words = family.split("_")
    if words[: len(common)] == list(common):
        words = words[len(common) :]
    words = [word for word in words if word not in _PLAIN]
    for what in counts:
        qualifier, _, resource = what.rpartition(" ")
        plural = resource.partition(".")[0]
        if not resource or " in " in what:
            continue
        wanted = [[*qualifier.split(), noun] for noun in (plural, plural.removesuffix("s"))]
        if words in wanted:
            return what
    return ""


def _misnamed(
    seen: Observed, target: TargetHistory, family: str, what: str, values: Mapping[int, float], counts: Counts
) -> Finding | None:
    """Return the contradiction between a gauge and what its name says that it counts."""
    numbers = counts[what]
    quiet = [scrape for scrape in values if seen.still(target.moments[scrape].at, _QUIET_S)]
    none = [scrape for scrape in values if numbers[scrape] == 0]
    wrong = [scrape for scrape in quiet if values[scrape] != numbers[scrape]]
    deployed = [scrape for scrape in quiet if numbers[scrape] >= _LEAST]
    if not wrong or not deployed or not none or values[none[0]] != 0:
        return None
    if any(all(other[scrape] == values[scrape] for scrape in values) for other in counts.values()):
        return None
    worst = max(wrong, key=lambda scrape: abs(values[scrape] - numbers[scrape]))
    return Finding(
        id=ID,
        severity="defect",
        text=f"{family} is {values[worst]:,.0f} {target.when(worst)}, when there are {numbers[worst]:,} {what}",
        evidence=(f"its name says that it counts them; nothing had changed for {_QUIET_S:g} s",),
    )


def _contradiction(
    target: TargetHistory, name: str, values: Mapping[int, float], counts: Counts, rests: Sequence[int]
) -> Finding | None:
    equal: dict[str, list[int]] = {}
    for what, numbers in _said_by_labels(name, counts).items():
        same = [scrape for scrape in rests if values[scrape] == numbers[scrape]]
        none = [scrape for scrape in rests if numbers[scrape] == 0]
        from_zero = bool(none) and values[none[0]] == 0
        if from_zero and any(numbers[scrape] >= _LEAST for scrape in same):
            equal[what] = same
    if not equal or any(len(same) == len(rests) for same in equal.values()):
        return None
    # Of several candidates, the one that it agrees with most, then that whose kind it names.
    what, same = max(equal.items(), key=lambda one: (len(one[1]), _kind_of(one[0]) in name))
    agreed = next(scrape for scrape in same if counts[what][scrape] >= _LEAST)
    worst = [scrape for scrape in rests if scrape not in same][-1]
    return Finding(
        id=ID,
        severity="defect",
        text=f"{name} is {values[worst]:,.0f} {target.when(worst)}, when there are {counts[what][worst]:,} {what}",
        evidence=(f"it was equal to their number {target.when(agreed)}: {counts[what][agreed]:,}",),
    )


def _kind_of(what: str) -> str:
    """Return the kind, as in names of metrics, of what is counted: ``pod`` of ``ready pods``."""
    resource = what.partition(" in ")[0].rpartition(" ")[2]
    return resource.partition(".")[0].removesuffix("s")


def _counts(
    seen: Observed, target: TargetHistory, rests: Sequence[int], resources: Collection[str] | None = None
) -> Counts:
    """Return what gauges are held against; ``resources``: the kinds that are counted, None: all."""
    times = [target.moments[scrape].at for scrape in rests]
    found: dict[str, Mapping[int, int]] = {}
    for resource, lives in seen.lives.items():
        if resources is not None and resource not in resources:
            continue
        # Most objects of a kind are in the same few states.
        alike: dict[int, Counter[_State]] = {scrape: Counter() for scrape in rests}
        numbered = bool(seen.kinds[resource].numbers)
        for life in lives:
            first = bisect_left(times, life.begun)
            last = len(times) if life.gone_at is None else bisect_left(times, life.gone_at)
            for scrape, at in zip(rests[first:last], times[first:last], strict=True):
                alike[scrape][_state(life, at, numbered=numbered)] += 1
        found[resource] = {scrape: counts.total() for scrape, counts in alike.items()}
        if any(READY_PATH in life.events[-1].fields for life in lives):
            found[f"ready {resource}"] = {
                scrape: sum(count for state, count in counts.items() if state.ready) for scrape, counts in alike.items()
            }
        states = {scrape: _in_words(counts) for scrape, counts in alike.items()}
        kinds = sum(states.values(), Counter[str]())
        for words, _ in sorted(kinds.items(), key=lambda one: (-one[1], one[0]))[:_STATES]:
            found[f"{resource} in {words}"] = {scrape: those[words] for scrape, those in states.items()}
    return found


class _State(NamedTuple):
    """What gauges count objects by, as of a moment."""

    ready: bool
    phase: str | None
    numbers: tuple[tuple[str, str | int], ...]


def _state(life: Life, at: int, *, numbered: bool) -> _State:
    """Return the state of an object at a moment. ``numbered``: whether any of its kind has numbers."""
    event = life.event_at(at)
    fields = event.fields if event is not None else {}
    phase = fields.get(PHASE)
    numbers = tuple(life.numbers(at).items()) if numbered else ()
    return _State(fields.get(READY_PATH) == "True", phase if isinstance(phase, str) else None, numbers)


def _in_words(counts: Counter[_State]) -> Counter[str]:
    """Return phase or condition, in words → its number, from the number of objects in each state."""
    found: Counter[str] = Counter()
    for state, count in counts.items():
        phase = {} if state.phase is None else {PHASE: state.phase}
        for words in states_of({**phase, **dict(state.numbers)}):
            found[words] += count
    return found
