"""What a change adds to a metrics endpoint and removes from it: two responses, before and after.

Two responses of one process show more: what counts and falls, and labels whose values never come again.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ...analysis.metrics.counters import PROCESS_START, resets
from ...analysis.metrics.history import TargetHistory
from ...analysis.metrics.snapshot import Surface
from ...exposition.families import MetricType, Series, text
from ...recording.records import Scraped
from .counter_resets import UNDER_WAY
from .families import Problem, Served, served, written
from .label_spelling import OF_OUTCOMES
from .labels import UNBOUNDED
from .shapes import shape_of

# client-go's label for the server that a request went to. On a loopback address its port differs in each run of a test,
# which means nothing.
_HOST = "host"
_LOOPBACK_PORT = re.compile(r"^(localhost|127(?:\.\d+){3}|\[::1\]):\d+$")


_OF_LISTS = frozenset(
    {*OF_OUTCOMES, "code", "method", "verb", "event", "direction", "level", "severity", "action"}
    | {"mode", "stage", "step", "trigger", "protocol", "cause", "strategy"}
)
"""Labels whose values are a fixed list of what may happen, and none of objects that come and go."""

_LAST = re.compile(r"_(?:last|latest)_.*(?:timestamp|time)_seconds$")
"""The name of a time that the next one takes the place of."""

_SEVERAL = 3
"""Values of a label that may all be replaced by chance where there are fewer."""


class FamilyDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One family that changed."""

    family: str
    change: str
    """``added``, ``removed``, or ``changed`` in its type or its series."""
    type: MetricType
    type_before: MetricType | None = None
    """None where it is the same, and for an added family."""
    series: int
    """After the change; of a removed family, before it."""
    series_before: int = 0
    labels_added: tuple[str, ...] = ()
    """Of an added family all that it has."""
    labels_removed: tuple[str, ...] = ()
    series_added: tuple[str, ...] = ()
    series_removed: tuple[str, ...] = ()
    values_added: dict[str, tuple[str, ...]] = {}
    """Label → values that are new; of labels that were there before."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Two responses of an endpoint, compared."""

    before: str
    """Where the first came from."""
    series_before: int
    series: int
    series_added: int
    series_removed: int
    families: tuple[FamilyDifference, ...]
    """Those that differ, by name."""


def difference(before: Surface, after: Surface) -> Difference:
    """Return what differs: families and series, not values, and no loopback port in a label ``host``."""
    old, new = _by_name(before), _by_name(after)
    changes = (_of_family(old.get(name), new.get(name)) for name in sorted({*old, *new}))
    families = tuple(change for change in changes if change is not None)
    return Difference(
        before=before.target,
        series_before=len(before.samples),
        series=len(after.samples),
        series_added=sum(len(family.series_added) for family in families),
        series_removed=sum(len(family.series_removed) for family in families),
        families=families,
    )


def in_one_process(before: Surface, after: Surface) -> Iterator[Problem]:
    """Yield what is wrong with families of its own by two responses of one process; nothing for another process's."""
    start = before.samples.get(PROCESS_START)
    if start is None or start != after.samples.get(PROCESS_START):
        return
    old = _by_name(before)
    own = {name: family for name, family in _by_name(after).items() if name in old and not family.of_library}
    for name, family in own.items():
        type_before = old[name].family.type
        if type_before != family.family.type:
            says = f"it was a {type_before} a moment ago, and is a {family.family.type}"
            yield Problem(family=name, rule="type", says=says, fix="register it once, with one type")
        yield from _replaced(old[name], family)
        yield from _went_back(family, before.samples, after.samples)
    history = TargetHistory(after.target)
    for at, one in enumerate((before, after)):
        history.feed(Scraped(at=at, target=one.target, samples=one.samples, families=one.families), "")
    for name in old.keys() - {one for one, family in _by_name(after).items() if family.series}:
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
    """Yield a family of counts of which one is gone in a process that goes on, whose labels do not name an object."""
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
    for one in old.series:
        if written(one) not in there and one.labels.keys() - {"le", "quantile"} <= _OF_LISTS:
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


def _by_name(surface: Surface) -> Mapping[str, Served]:
    return {family.name: family for family in served(surface)}


def _of_family(old: Served | None, new: Served | None) -> FamilyDifference | None:
    there = new or old
    if there is None:
        return None
    values, values_before = _values(new), _values(old)
    texts, texts_before = _texts(new), _texts(old)
    change = FamilyDifference(
        family=there.name,
        change="removed" if new is None else "added" if old is None else "changed",
        type=there.family.type,
        type_before=old.family.type if old and new and old.family.type != new.family.type else None,
        series=len(there.series),
        series_before=len(old.series) if old and new else 0,
        labels_added=_beyond(values, values_before),
        labels_removed=_beyond(values_before, values) if new else (),
        series_added=_more(texts, texts_before),
        series_removed=_more(texts_before, texts),
        values_added={
            label: more
            for label in sorted(values.keys() & values_before.keys())
            if (more := _beyond(values[label], values_before[label]))
        },
    )
    return change if old is None or new is None or _differs(change) else None


def _differs(change: FamilyDifference) -> bool:
    return change.type_before is not None or bool(change.series_added or change.series_removed)


def _values(family: Served | None) -> Mapping[str, set[str]]:
    """Return label → its values, also of those that the format needs: a new bucket is a new series."""
    values: dict[str, set[str]] = defaultdict(set)
    for series in _series(family):
        for label, value in series.labels.items():
            values[label].add(_stable(label, value))
    return values


def _stable(label: str, value: str) -> str:
    """Return a label's value, ``127.0.0.1:*`` for a loopback address of a ``host``."""
    return _LOOPBACK_PORT.sub(r"\1:*", value) if label == _HOST else value


def _texts(family: Served | None) -> Counter[str]:
    """Return the series' texts; several are the same where a process has several servers on loopback addresses."""
    return Counter(
        text(series.name, {label: _stable(label, value) for label, value in series.labels.items()})
        for series in _series(family)
    )


def _more(some: Counter[str], others: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted((some - others).elements()))


def _series(family: Served | None) -> Iterable[Series]:
    return family.series if family else ()


def _beyond(some: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(some) - set(others)))
