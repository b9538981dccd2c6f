"""Call stacks with a weight each: the form that every profile takes; and as speedscope's file format.

Format of https://speedscope.app: github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources and
src/lib/file-format-spec.ts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

MAX_STACKS = 100_000
"""Distinct stacks that are kept. The weight of further ones is in `Stacks.rest`; function tables count them in full."""

MAX_FRAMES = 4_000_000
"""Frames of all kept stacks together, so that deep stacks are bounded as well."""

MAX_FUNCTIONS = 100_000
"""Distinct functions that are kept; further ones are summed as `OTHER_FUNCTIONS`."""

Unit = Literal["samples", "bytes", "goroutines"]

Stack = tuple[int, ...]
"""Indices into `Stacks.functions`, outermost first."""

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class Function(NamedTuple):
    """Key by which samples are summed: all lines of one function are one, two functions of one name are two."""

    name: str
    """As a table shows it: ``reconcile (podclique/reconciler.py)``, ``podclique.(*Reconciler).Reconcile``."""
    module: str
    """Python: the file as the profiler names it. Go: the package's path."""
    full: str
    """The full name."""


class Stacks(msgspec.Struct, frozen=True, kw_only=True):
    """A profile. Weights are in `unit`."""

    unit: Unit = "samples"
    functions: tuple[Function, ...] = ()
    counts: dict[Stack, int] = {}
    """Without the stacks that `rest` stands for."""
    rest: int = 0
    """Weight of the stacks beyond `MAX_STACKS`."""
    own: tuple[int, ...] = ()
    """Of each function: the weight of the stacks in which it is innermost."""
    within: tuple[int, ...] = ()
    """Of each function: the weight of the stacks that it is anywhere on, once each."""
    total: int = 0
    """The whole weight, without `waiting`."""
    waiting: int = 0
    """Left out: threads that the profiler caught in a call that waits."""
    rootless: int = 0
    """Stacks that do not reach down to where their thread began: torn, or deeper than the profiler looks."""
    lost: int = 0
    """Samples whose stack the profiler reports as lost. Not part of `total`."""
    damaged: int = 0
    """Lines or entries of the file that could not be read."""
    entries: int = 0
    """Lines or entries that the file holds, damaged ones included."""
    cut: bool = False
    """The file ends in the middle of an entry: what came after it is unknown."""

    def items(self) -> Iterable[tuple[tuple[Function, ...], int]]:
        """Yield (functions, outermost first; weight), with `rest` as a stack of its own."""
        for stack, weight in self.counts.items():
            yield tuple(self.functions[index] for index in stack), weight
        if self.rest:
            yield (OTHER_STACKS,), self.rest


OTHER_FUNCTIONS = Function("[other functions]", "", "[other functions]")


OTHER_STACKS = Function("[other stacks]", "", "[other stacks]")


class StackCounter:
    """Sums stacks in bounded memory, however many different ones there are.

    Several captures of one process are fed into one counter. The attributes without an underscore are those of
    `Stacks`; the reader of the file increments them.
    """

    def __init__(
        self, *, max_stacks: int = MAX_STACKS, max_frames: int = MAX_FRAMES, max_functions: int = MAX_FUNCTIONS
    ) -> None:
        self.unit: Unit = "samples"
        self.waiting = 0
        self.rootless = 0
        self.lost = 0
        self.damaged = 0
        self.entries = 0
        self.cut = False
        self._max_stacks = max_stacks
        self.max_functions = max_functions
        self._frames_left = max_frames
        self._index: dict[Function, int] = {}
        self._counts: dict[Stack, int] = {}
        self._own: list[int] = []
        self._within: list[int] = []
        self._rest = 0
        self._total = 0

    def function(self, function: Function) -> int:
        """Return the index of a function."""
        index = self._index.get(function)
        if index is not None:
            return index
        if len(self._index) >= self.max_functions and function is not OTHER_FUNCTIONS:
            return self.function(OTHER_FUNCTIONS)
        self._index[function] = len(self._own)
        self._own.append(0)
        self._within.append(0)
        return len(self._own) - 1

    def add(self, stack: Stack, weight: int) -> None:
        """Add a stack that has at least one frame."""
        self._total += weight
        self._own[stack[-1]] += weight
        for index in set(stack):
            self._within[index] += weight
        if stack in self._counts:
            self._counts[stack] += weight
        elif len(self._counts) < self._max_stacks and len(stack) <= self._frames_left:
            self._frames_left -= len(stack)
            self._counts[stack] = weight
        else:
            self._rest += weight

    def stacks(self) -> Stacks:
        """Return the stacks added so far."""
        return Stacks(
            unit=self.unit,
            functions=tuple(self._index),
            counts=dict(self._counts),
            rest=self._rest,
            own=tuple(self._own),
            within=tuple(self._within),
            total=self._total,
            waiting=self.waiting,
            rootless=self.rootless,
            lost=self.lost,
            damaged=self.damaged,
            entries=self.entries,
            cut=self.cut,
        )


def speedscope(stacks: Stacks, name: str) -> bytes:
    """Return a profile as speedscope JSON: one sample for each different stack, weighted.

    ``</`` is escaped, so that the text can also stand inside a page's ``<script>``.
    """
    samples: list[Any] = list(stacks.counts)
    weights = list(stacks.counts.values())
    frames: list[dict[str, str]] = [
        {"name": function.full, "file": function.module} if function.module else {"name": function.full}
        for function in stacks.functions
    ]
    if stacks.rest:
        samples.append((len(frames),))
        weights.append(stacks.rest)
        frames.append({"name": OTHER_STACKS.full})
    content = {
        "$schema": SCHEMA,
        "exporter": "pytest-grovescale",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [
            {
                "type": "sampled",
                "name": name,
                "unit": "bytes" if stacks.unit == "bytes" else "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        ],
    }
    return msgspec.json.encode(content).replace(b"</", b"<\\/") + b"\n"
