"""The difference between two scrapes of a target, which is what the journal stores of the second one."""

from __future__ import annotations

import math
import re
from typing import TypeVar

import msgspec

from ... import redaction
from ...exposition.families import Exposition, Family
from ..records import Scraped

T = TypeVar("T")

NOTHING = Exposition(families={}, samples={})
"""The exposition of a target before its first scrape."""


def changes(last: Exposition, found: Exposition, *, target: str, at: int, edge: str = "", took_ns: int = 0) -> Scraped:
    """Return the difference from the last scrape.

    Compared as text, so that NaN equals itself and a value is new only when its text changed. A series is removed as a
    whole: when its value, its buckets or its creation time is gone, the parts that remain are recorded again.
    """
    gone = _gone(last, found)
    samples: dict[str, float] = {}
    special: dict[str, str] = {}
    for series, text in found.samples.items():
        if last.samples.get(series) == text and series not in gone:
            continue
        value = float(text)
        if math.isfinite(value):
            samples[series] = value
            continue
        special[series] = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        if series in last.samples:
            gone.add(series)
    return Scraped(
        at=at,
        target=target,
        edge=edge,
        took_ns=took_ns,
        samples=samples,
        special=special,
        gone=sorted(gone),
        families={
            name: _without_credentials(family)
            for name, family in found.families.items()
            if last.families.get(name) != family
        },
        families_gone=sorted(last.families.keys() - found.families.keys()),
        native={name: seen for name, seen in found.native.items() if name in gone or last.native.get(name) != seen},
        created={name: time for name, time in found.created.items() if name in gone or last.created.get(name) != time},
    )


def _gone(last: Exposition, found: Exposition) -> set[str]:
    """Return the series that have lost their value, buckets or creation time."""
    return (
        (last.samples.keys() - found.samples.keys())
        | (last.native.keys() - found.native.keys())
        | (last.created.keys() - found.created.keys())
    )


def _without_credentials(family: Family) -> Family:
    return msgspec.structs.replace(family, help=redaction.value(family.help))


_PART = re.compile(r'[^{",]+="(?:[^"\\]|\\.)*"|^[^{]+')
"""A label with its value, or the metric's name."""

_SOME_VALUE = 'value="x7Qz9pLm"'
_MOST_PARTS = 100_000


class Redaction:
    """Redacts credentials in the series names of one target; each name is inspected once."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._clean: set[str] = set()
        """Metric names and labels without a credential: a few hundred, which make up the names of all series."""
        self._blotted: dict[str, str] = {}

    def __call__(self, found: Exposition) -> Exposition:
        """Return the scrape as it may be recorded. Of series that then share a name, the last remains."""
        names = found.samples.keys() | found.native.keys() | found.created.keys()
        for name in names - self._known:
            if not self._is_clean(name) and (clean := redaction.value(name)) != name:
                self._blotted[name] = clean
        self._known = names
        if not self._blotted:
            return found
        self._blotted = {name: clean for name, clean in self._blotted.items() if name in names}
        return Exposition(
            families=found.families,
            samples=self._renamed(found.samples),
            native=self._renamed(found.native),
            created=self._renamed(found.created),
        )

    def _is_clean(self, name: str) -> bool:
        """Return whether no part of a series' name holds a credential; each part is inspected once."""
        if len(self._clean) > _MOST_PARTS:
            self._clean.clear()
        for part in _PART.findall(name):
            if part not in self._clean:
                # With a value after it: name="password" is no secret, but value="…" beside it is one.
                alone = f"{{{part},{_SOME_VALUE}}}"
                if redaction.value(alone) != alone:
                    return False
                self._clean.add(part)
        return True

    def _renamed(self, values: dict[str, T]) -> dict[str, T]:
        return {self._blotted.get(name, name): value for name, value in values.items()}
