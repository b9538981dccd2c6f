"""The families of a surface, each with its series and with what is known of who made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from ...analysis.metrics.surface import Surface
from ...exposition.families import Family
from ...exposition.libraries import LIBRARIES
from ...exposition.series import Series, text
from ..metrics.catalogue import Builtin, builtin

RESERVED = {"histogram": "le", "gaugehistogram": "le", "summary": "quantile"}
"""Type → the label by which the format takes such a metric apart; it is none of the author's."""


class Served(NamedTuple):
    """One family, and all that the endpoint serves of it."""

    family: Family
    series: list[Series]
    """Empty where it has a TYPE line and no samples."""
    builtin: Builtin | None
    """What the catalogue has under its name."""
    creation_times: bool = False
    """Whether a client library added it, in the text format, to tell when the series of another family were made."""

    @property
    def name(self) -> str:
        return self.family.name

    @property
    def of_library(self) -> bool:
        """Whether a library brought it: its name and labels are not its operator's author's to change.

        What has a built-in's name and another type is not the built-in.
        """
        if self.collides:
            return False
        return self.creation_times or self.builtin is not None or self.name.startswith(LIBRARIES)

    @property
    def collides(self) -> bool:
        """Whether it has the name of a built-in family and is none."""
        return self.builtin is not None and self.family.type not in (self.builtin.type, "unknown")

    def labels(self) -> dict[str, dict[str, Series]]:
        """Return label → value → a series that has it; without those that the format needs."""
        reserved = RESERVED.get(self.family.type)
        found: dict[str, dict[str, Series]] = {}
        for series in self.series:
            for label, value in series.labels.items():
                if label != reserved:
                    found.setdefault(label, {}).setdefault(value, series)
        return found

    def own_labels(self) -> dict[str, dict[str, Series]]:
        """Return `labels`; of a built-in family only those that were added to it, of a library's other ones none."""
        if not self.of_library:
            return self.labels()
        theirs = self.builtin.labels if self.builtin is not None else tuple(self.labels())
        return {label: values for label, values in self.labels().items() if label not in theirs}


def served(surface: Surface, *, pattern: str = "") -> list[Served]:
    """Return all families by name, also those without a sample; ``pattern``: only those whose name it fits."""
    series = surface.by_family()
    names = {*surface.families, *series}
    return [
        Served(
            surface.families.get(name, Family(name=name)),
            series.get(name, []),
            builtin(name),
            name.endswith("_created") and not names.isdisjoint(_created_for(name)),
        )
        for name in sorted(names)
        if fits(name, pattern)
    ]


def own(surface: Surface, *, ignore: tuple[str, ...] | list[str] = ()) -> Iterator[Served]:
    """Yield the families that no known library brought, but for those whose names fit a pattern of ``ignore``."""
    for found in served(surface):
        if not found.of_library and not any(fnmatchcase(found.name, pattern) for pattern in ignore):
            yield found


def fits(name: str, pattern: str) -> bool:
    """Return whether a family's name fits a pattern with ``*``; an empty one fits all."""
    return not pattern or fnmatchcase(name, pattern)


def written(series: Series) -> str:
    """Return a series' text."""
    return text(series.name, series.labels)


def without(labels: Mapping[str, str], label: str) -> tuple[tuple[str, str], ...]:
    """Return a label set without one label, as a key."""
    return tuple(sorted((key, value) for key, value in labels.items() if key != label))


def _created_for(name: str) -> tuple[str, str]:
    stem = name.removesuffix("_created")
    return stem, f"{stem}_total"
