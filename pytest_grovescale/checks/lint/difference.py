"""What a change adds to a metrics endpoint, and what it takes away: two answers of it, before and after."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...analysis.metrics.surface import Surface
from ...exposition.families import MetricType
from .served import Served, served


class FamilyDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One family that is not as it was."""

    family: str
    change: str
    """``added``, ``removed``, or ``changed`` in its type, its labels or its number of series."""
    type: MetricType
    type_before: MetricType | None = None
    """None where it is the same, or there was none."""
    series: int
    """After the change; before it, of a family that is gone."""
    series_before: int = 0
    labels_added: tuple[str, ...] = ()
    """Of an added family all that it has."""
    labels_removed: tuple[str, ...] = ()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Two answers of an endpoint."""

    before: str
    """Where the first came from."""
    series_before: int
    series: int
    families: tuple[FamilyDifference, ...]
    """Those that differ, by name."""


def difference(before: Surface, after: Surface) -> Difference:
    """Return what differs. Values do not count, only what there is."""
    old, new = _by_name(before), _by_name(after)
    families = (_of_family(old.get(name), new.get(name)) for name in sorted({*old, *new}))
    return Difference(
        before=before.target,
        series_before=len(before.samples),
        series=len(after.samples),
        families=tuple(found for found in families if found is not None),
    )


def _by_name(surface: Surface) -> Mapping[str, Served]:
    return {family.name: family for family in served(surface)}


def _of_family(old: Served | None, new: Served | None) -> FamilyDifference | None:
    there = new or old
    if there is None:
        return None
    labels, labels_before = _labels(new), _labels(old)
    found = FamilyDifference(
        family=there.name,
        change="removed" if new is None else "added" if old is None else "changed",
        type=there.family.type,
        type_before=old.family.type if old and new and old.family.type != new.family.type else None,
        series=len(there.series),
        series_before=len(old.series) if old and new else 0,
        labels_added=tuple(sorted(labels - labels_before)),
        labels_removed=tuple(sorted(labels_before - labels)) if new else (),
    )
    return None if old and new and not _differs(old, new, found) else found


def _differs(old: Served, new: Served, found: FamilyDifference) -> bool:
    return (
        found.type_before is not None
        or bool(found.labels_added or found.labels_removed)
        or len(old.series) != len(new.series)
    )


def _labels(family: Served | None) -> set[str]:
    return {label for series in family.series for label in series.labels} if family else set()
