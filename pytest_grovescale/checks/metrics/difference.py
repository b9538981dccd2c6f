"""What a change adds to a metrics endpoint and removes from it: two responses, before and after."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from ...analysis.metrics.snapshot import Surface
from ...exposition.families import MetricType, Series, text
from .families import Served, served_by_name

# client-go's label for the server that a request went to. On a loopback address its port differs in each run of a test,
# which means nothing.
_HOST = "host"
_LOOPBACK_PORT = re.compile(r"^(localhost|127(?:\.\d+){3}|\[::1\]):\d+$")


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
    old, new = served_by_name(before), served_by_name(after)
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
