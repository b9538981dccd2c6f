"""Faults that real operators had, to be switched on by name so that a check can be seen to fail.

Each one is looked up at one or two points of the code that a comment there names; nothing else knows of it, and
every one does real extra (or missing) work, never idle work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

NOOP_WRITES = "noop-writes"
HOT_LOOP = "hot-loop"
QUADRATIC_SELECT = "quadratic-select"
CRASH = "crash"
ORPHAN = "orphan"
EVENT_DROP = "event-drop"
NOOP_CPU_10 = "noop-cpu-10"

KNOWN: Mapping[str, str] = {
    NOOP_WRITES: "every pass over a PodCliqueSet patches all of its PodCliques, changed or not",
    HOT_LOOP: "the PodCliqueSet's status is stamped at each reconcile, and status events wake the controller",
    QUADRATIC_SELECT: "the pods of each clique are found by a scan of all pods",
    CRASH: "the process ends at once after so many pods created (crash=N, default 100)",
    ORPHAN: "headless Services get no owner and are left behind",
    EVENT_DROP: "a watch that was cut is never taken up again",
    NOOP_CPU_10: "10 % more CPU in a no-op reconcile: some cliques that need nothing are read and compared once more",
}
"""Name and what it does."""

_WITH_NUMBER = {CRASH: 100}


class UnknownDefect(ValueError):
    """A name that is none of KNOWN, or a number where none is taken."""


class Defects(msgspec.Struct, frozen=True):
    """The defects that are on. Empty unless asked for."""

    names: frozenset[str] = frozenset()
    numbers: dict[str, int] = {}
    """For those that take a number: the number."""

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def number(self, name: str) -> int:
        """Return the number of a defect that is on."""
        return self.numbers[name]


def parse(arguments: Iterable[str]) -> Defects:
    """Return the defects of ``NAME`` and ``NAME=NUMBER`` arguments. Raises UnknownDefect."""
    names: set[str] = set()
    numbers: dict[str, int] = {}
    for argument in arguments:
        name, equals, number = argument.partition("=")
        if name not in KNOWN:
            raise UnknownDefect(f"no defect {name!r}; there are: {', '.join(sorted(KNOWN))}")
        if equals and name not in _WITH_NUMBER:
            raise UnknownDefect(f"{name} takes no number")
        if name in _WITH_NUMBER:
            if equals and not number.isdecimal():
                raise UnknownDefect(f"{argument}: {number!r} is not a number")
            numbers[name] = int(number) if equals else _WITH_NUMBER[name]
        names.add(name)
    return Defects(names=frozenset(names), numbers=numbers)
