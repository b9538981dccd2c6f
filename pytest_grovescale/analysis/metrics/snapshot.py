"""What one endpoint serves at one moment: its families and their series."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from ...exposition.families import Exposition, Family, Series, family_of, parse


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """Families and series of one target."""

    target: str
    """Name of the target in a run; URL or file for `grovescale lint-metrics`."""
    families: dict[str, Family]
    samples: dict[str, float]
    """Series → value; NaN and ±Inf are values here."""
    native: frozenset[str] = frozenset()
    """Families that have exponential buckets, with or without classic ones."""
    created: dict[str, str] = {}
    """Series (for a histogram or summary, without suffix) → its creation time, s since the epoch, where the format has
    one."""

    def by_family(self) -> dict[str, list[Series]]:
        """Return family → its series; those with no TYPE line are families of their own."""
        by_family: dict[str, list[Series]] = defaultdict(list)
        for text in self.samples:
            series = parse(text)
            by_family[family_of(series.name, self.families)].append(series)
        return dict(by_family)


def surface_of(exposition: Exposition, *, target: str) -> Surface:
    """Return the surface of one answer."""
    samples = {series: float(value) for series, value in exposition.samples.items()}
    native = frozenset(parse(series).name for series in exposition.native)
    return Surface(
        target=target,
        families=dict(exposition.families),
        samples=samples,
        native=native,
        created=dict(exposition.created),
    )
