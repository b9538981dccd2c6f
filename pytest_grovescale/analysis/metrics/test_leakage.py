"""Names that only the test harness knows and that must not be on an operator's endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ...exposition.families import parse
from ...recording import records as rec
from .snapshot import Surface

UNTRACKED = "untracked"
"""Label of the marks around the pass without tracking."""

_NAMESPACE = re.compile(r"/namespaces/([^/]+)/")
_OURS = re.compile(r"-[0-9a-f]{6}$")
"""Suffix of namespaces that the harness creates; a test may watch others too, such as ``default``."""
_NO_WORD = re.compile(r"[^a-z0-9]+")


def untracked(target: str) -> str:
    """Return the name under which a target is recorded in the pass without tracking."""
    return f"{target} ({UNTRACKED})"


class Trace(NamedTuple):
    """A name of the harness on an endpoint."""

    word: str
    place: str
    """Where it stands: ``label run of grove_build_info``."""


@dataclass(eq=False)
class Tracking:
    """The names in a recording; feed it every record."""

    ids: dict[str, str] = field(default_factory=dict)
    """Run id and namespaces → description. Only the harness creates these names."""
    words: dict[str, str] = field(default_factory=dict)
    """Phases and milestones → description. Words like ``delete``, which an operator may well use too."""

    def feed(self, record: rec.AnyRecord) -> None:
        """Take in the next record."""
        match record:
            case rec.Opened():
                self.ids[record.run] = "run id"
            case rec.PhaseStarted():
                self.words[record.phase] = "phase"
            case rec.MilestoneDeclared():
                self.words[record.name] = "milestone"
            case rec.WatchOpened():
                match = _NAMESPACE.search(record.spec.path)
                if match is not None and _OURS.search(match[1]):
                    self.ids[match[1]] = "namespace"


def traces(surface: Surface, words: Iterable[str]) -> Iterator[Trace]:
    """Yield where one of the words occurs on an endpoint: in names, help texts, labels or their values.

    Upper case and the separators of a word's parts make no difference: ``pods_ready_total`` has ``pods-ready``.
    """
    patterns = {word: f"_{plain}_" for word in words if (plain := _plain(word))}
    for text, place in _texts(surface).items():
        padded = f"_{_plain(text)}_"
        yield from (Trace(word, place) for word, sought in patterns.items() if sought in padded)


def _texts(surface: Surface) -> dict[str, str]:
    """Return every text on an endpoint → its first place."""
    places: dict[str, str] = {}
    for name, family in surface.families.items():
        places.setdefault(name, f"name {name}")
        places.setdefault(family.help, f"help of {name}")
    for series in surface.samples:
        name, labels = parse(series)
        places.setdefault(name, f"name {name}")
        for label, value in labels.items():
            places.setdefault(label, f"label {label} of {name}")
            places.setdefault(value, f"label {label} of {name}: {value!r}")
    return places


def _plain(text: str) -> str:
    return _NO_WORD.sub("_", text.lower()).strip("_")
