"""What two responses of one process show to be wrong.

What counts and falls or is gone, what is a process' own and moves, labels whose values never come again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...analysis.metrics.counters import PROCESS_START, resets
from ...analysis.metrics.history import TargetHistory
from ...analysis.metrics.snapshot import Surface
from ...exposition.families import Series, parse
from ...recording.records import Scraped
from .counter_resets import UNDER_WAY
from .families import Problem, Served, served_by_name, written
from .label_spelling import OF_OUTCOMES
from .labels import UNBOUNDED
from .relations import timed
from .shapes import shape_of

_OF_LISTS = frozenset(
    {*OF_OUTCOMES, "code", "method", "verb", "event", "direction", "level", "severity", "action"}
    | {"mode", "stage", "step", "trigger", "protocol", "cause", "strategy"}
)
"""Labels whose values are a fixed list of what may happen, and none of objects that come and go."""

_LAST = re.compile(r"_(?:last|latest)_.*(?:timestamp|time)_seconds$")
"""The name of a time that the next one takes the place of."""

_DONE = re.compile(
    r"_(?:downloaded|uploaded|processed|received|sent|handled|transferred|written|read|copied|completed|finished|executed"
    r"|rejected|dropped|retried|served|consumed|produced|published|created|deleted|scanned|replayed|skipped|issued"
    r"|reloads|restarts|retries|failures|requests|runs|attempts|rotations|renewals|rejections|transitions|failovers"
    r"|evictions)(?=_|$)"
)
"""Names of what was done, or happened, of which there is more as time goes by."""
_NOT_COUNTED = re.compile(
    r"_(?:last|latest|current|timestamp|time|ratio|percent|per|avg|average|mean|max|min|rate)(?=_|$)"
)
"""Parts of names of what is measured: of the last one, of each, now."""

_MANY = 5
"""Things that a counter has counted and a histogram has not observed, which no moment between two reads explains."""

_LONGEST_HELP = 60
"""Characters of a help text that are shown."""

_SEVERAL = 3
"""Values of a label that may all be replaced by chance where there are fewer."""


def in_one_process(before: Surface, after: Surface) -> Iterator[Problem]:
    """Yield what is wrong with families of its own by two responses of one process; nothing for another process's."""
    start, start_after = before.samples.get(PROCESS_START), after.samples.get(PROCESS_START)
    old, new = served_by_name(before), served_by_name(after)
    if start is None or start_after is None:
        return
    if start != start_after:
        if not _went_on(old, before.samples, after.samples):
            return
        says = f"it moved by {start_after - start:.3g} s, and nothing that the process counts began again"
        fix = "read it once, at the start: each scrape looks like a restart"
        yield Problem(family=PROCESS_START, rule="value", says=says, fix=fix)
    own = {name: family for name, family in new.items() if name in old and not family.of_library}
    for name, family in own.items():
        type_before, help_before = old[name].family.type, old[name].family.help
        if type_before != family.family.type:
            says = f"it was a {type_before} a moment ago, and is a {family.family.type}"
            yield Problem(family=name, rule="type", says=says, fix="register it once, with one type")
        elif help_before != family.family.help and help_before and family.family.help:
            says = f"its help text was {_short(help_before)!r} a moment ago, and is {_short(family.family.help)!r}"
            fix = "say what it is, the same at each scrape; what changes belongs into a value"
            yield Problem(family=name, rule="help", says=says, fix=fix)
        yield from _replaced(old[name], family)
        yield from _went_back(family, before.samples, after.samples)
        yield from _adds_up(family, before.samples, after.samples)
        yield from _only_grows(family, before.samples, after.samples)
    yield from _created_again(before, after)
    yield from _left_behind(old, own)
    yield from _unobserved([*own.values()], before.samples, after.samples)
    history = TargetHistory(after.target)
    for at, one in enumerate((before, after)):
        history.feed(Scraped(at=at, target=one.target, samples=one.samples, families=one.families), "")
    for name in old.keys() - {one for one, family in new.items() if family.series}:
        yield from _gone(old[name], [])
    for name, family in own.items():
        yield from _gone(old[name], family.series)
    fell = {reset.family: reset for reset in reversed([*resets(history)]) if not reset.family.endswith(UNDER_WAY)}
    for name in own.keys() & fell.keys():
        reset = fell[name]
        says = f"it counts, and fell from {reset.before:g} to {reset.after:g} in a process that went on"
        fix = "never set or delete what counts, or make it a gauge"
        yield Problem(family=name, rule="value", says=says, series=reset.series, fix=fix)


def _gone(old: Served, series: Iterable[Series]) -> Iterator[Problem]:
    """Yield a family of counts of which one is gone in a process that goes on, though not an object that it is of."""
    if old.of_library or old.family.type not in ("counter", "histogram", "summary") or old.creation_times:
        return
    there = {written(one) for one in series}
    if bounds := {one.labels["le"] for one in series if "le" in one.labels}:
        lost = [one for one in old.series if "le" in one.labels and one.labels["le"] not in bounds]
        if lost:
            says = "its buckets have other bounds than a moment ago, in one process"
            example = written(lost[0])
            yield Problem(family=old.name, rule="inconsistent", says=says, series=example, fix="register it once")
            return
    # Where an object is gone, all that was counted of it goes with it.
    objects = {_objects(one) for one in series}
    for one in old.series:
        of_none = one.labels.keys() - {"le", "quantile"} <= _OF_LISTS
        if written(one) not in there and (of_none or (_objects(one) and _objects(one) in objects)):
            says = "it counts, and this series is gone in a process that went on"
            fix = "never delete what counts: at its next event it begins at 0 again"
            yield Problem(family=old.name, rule="value", says=says, series=written(one), fix=fix)
            return


def _went_back(family: Served, before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[Problem]:
    """Yield a gauge with the time of what happened last that went back; 0 says that it never happened."""
    if family.family.type != "gauge" or not _LAST.search(family.name):
        return
    for one in map(written, family.series):
        was, now = before.get(one, 0.0), after[one]
        if 0 < now < was:
            says = f"what happened last went back by {was - now:.3g} s in a process that went on"
            fix = "set it to the later of two times"
            yield Problem(family=family.name, rule="value", says=says, series=one, fix=fix)
            return


def _replaced(old: Served, new: Served) -> Iterator[Problem]:
    """Yield a label whose values are all other ones than before, where that was no event of its own."""
    before = old.own_labels()
    for label, values in new.own_labels().items():
        gone = before.get(label, {})
        if not gone or not values.keys().isdisjoint(gone):
            continue
        of_build = new.name.endswith("_build_info")
        if of_build:
            says = f"a process has one build, and {label} was {next(iter(gone))} a moment ago"
            one = written(next(iter(values.values())))
            yield Problem(family=new.name, rule="value", says=says, series=one, fix="set it once, at the start")
        elif len(values) >= _SEVERAL or label in UNBOUNDED or shape_of([*gone, *values]) is not None:
            says = f"no value of {label} is one that it had a moment ago: {next(iter(gone))}"
            fix = f"take the label {label} away: its values never come again"
            one = written(next(iter(values.values())))
            yield Problem(family=new.name, rule="unbounded-values", says=says, series=one, fix=fix)


def _objects(one: Series) -> frozenset[tuple[str, str]]:
    """Return the labels of a series that may name an object, with their values."""
    return frozenset(
        (label, value) for label, value in one.labels.items() if label not in {*_OF_LISTS, "le", "quantile"}
    )


def _went_on(old: Mapping[str, Served], before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Return whether a process went on, by what it counts: much of it is there, and none of it fell."""
    counted = {
        text: value
        for family in old.values()
        if family.family.type == "counter"
        for text in map(written, family.series)
        if (value := before[text]) > 0
    }
    there = {text: value for text, value in counted.items() if text in after}
    return len(there) >= max(_SEVERAL, len(counted) / 2) and all(after[one] >= value for one, value in there.items())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_HELP else f"{text[:_LONGEST_HELP]}…"


def _created_again(before: Surface, after: Surface) -> Iterator[Problem]:
    """Yield families of which a series has another creation time than before, and counts on."""
    counts = {_counted(parse(text)): text for text in before.samples if text in after.samples}
    moved: dict[str, list[str]] = defaultdict(list)
    for series, created in before.created.items():
        one = parse(series)
        text = counts.get(_counted(one), "")
        if created != after.created.get(series, created) and 0 < before.samples.get(text, 0.0) <= after.samples[text]:
            moved[one.name].append(series)
    for name, series_moved in sorted(moved.items()):
        says = "its creation time has changed, and it counts on"
        fix = "keep the time at which the series was made: each scrape looks like a restart"
        yield Problem(family=name, rule="timestamp", says=says, series=series_moved[0], fix=fix)


def _counted(one: Series) -> tuple[str, frozenset[tuple[str, str]]]:
    """Return what a series counts, the same for its creation time."""
    return one.name.removesuffix("_total").removesuffix("_count"), frozenset(one.labels.items())


def _adds_up(family: Served, before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[Problem]:
    """Yield a histogram or summary whose sum changed while nothing was observed."""
    if family.family.type not in ("histogram", "summary") or family.name.endswith(UNDER_WAY):
        return
    for one in family.series:
        if one.name != f"{family.name}_sum":
            continue
        total, count = written(one), written(Series(f"{family.name}_count", one.labels))
        there = total in before and count in before and count in after
        if there and before[count] == after[count] and before[total] != after[total]:
            says = f"its sum went from {before[total]:g} to {after[total]:g}, and nothing was observed in between"
            fix = "observe each value once, when it is known"
            yield Problem(family=family.name, rule="inconsistent", says=says, series=total, fix=fix)
            return


def _only_grows(family: Served, before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[Problem]:
    """Yield a gauge whose name says what was done, and that grew on most series and fell on none."""
    if family.family.type != "gauge" or not _DONE.search(family.name) or _NOT_COUNTED.search(family.name):
        return
    changes = [after[text] - before[text] for text in map(written, family.series) if text in before]
    if len(changes) > 1 and min(changes) >= 0 and 2 * sum(change > 0 for change in changes) > len(changes):
        says = "it says what was done, grew on most of its series and fell on none: it counts"
        fix = "make it a counter, …_total, of which rate() knows restarts"
        yield Problem(family=family.name, rule="type", says=says, series=written(family.series[0]), fix=fix)


def _left_behind(old: Mapping[str, Served], new: Mapping[str, Served]) -> Iterator[Problem]:
    """Yield the gauges that still have an object that others had, too, and have no more."""
    gone: dict[frozenset[tuple[str, str]], str] = {}
    for name, family in new.items():
        left = {_named(one) for one in family.series}
        gone |= {key: name for one in old[name].series if (key := _named(one)) and key not in left}
    for name, family in new.items():
        one = next((one for one in family.series if family.family.type == "gauge" and _named(one) in gone), None)
        if one is not None:
            says = f"it still has an object that {gone[_named(one)]} had a moment ago, and has no more"
            fix = "delete all series of an object together, when it is gone"
            yield Problem(family=name, rule="value", says=says, series=written(one), fix=fix)


def _named(one: Series) -> frozenset[tuple[str, str]]:
    """Return the namespace and name of the object that a series is of; empty where it says none."""
    key = frozenset((label, value) for label, value in one.labels.items() if label in ("namespace", "name"))
    return key if len(key) > 1 else frozenset()


def _unobserved(own: Sequence[Served], before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[Problem]:
    """Yield a histogram or a summary that observed nothing while a counter of the same thing counted on."""

    def grown(family: Served, suffix: str = "") -> float:
        texts = [written(one) for one in family.series if one.name == f"{family.name}{suffix}"]
        return sum(after[text] - before.get(text, 0.0) for text in texts)

    for family, counter in timed(own):
        if not grown(family, "_count") and (more := grown(counter)) >= _MANY:
            says = f"it has observed nothing while {counter.name} counted {more:g} more"
            fix = "observe each that is counted, or name them for what they are"
            yield Problem(family=family.name, rule="inconsistent", says=says, fix=fix)
