"""The order of runs, computed from a plan and its finished runs, so that a killed driver can resume."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

NOOP, DEPLOY, PROFILE = "noop", "deploy", "profile"
"""Parts of a comparison. ``PROFILE``: one run of each variant, with the machine to itself and a profiling pass; the
verdict does not include it."""
PAIRS: Mapping[str, int] = {NOOP: 16, DEPLOY: 16}
"""Part of a comparison → number of its pairs, including the warm-up. `grovescale selftest power` shows what they can
detect; each part takes less than 20 minutes with them on two cores, at 1000 pods."""

TYPICAL_S: Mapping[str, float] = {NOOP: 22.0, DEPLOY: 31.5, "profile": 120.0, "sweep": 57.0}
"""Part → seconds for one run of it, with set-up and teardown: medians of the comparisons and the sweep of up to 1000
pods on two cores in docs/comparing.md."""

ALPHA = 0.05
"""Of a whole comparison; each part gets its share, so that all parts together raise no more false alarms than one."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")

FIRST_LOOK = 6
"""With fewer pairs than this, warm-up included, an interval is too wide for an interim analysis."""


class Slot(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One run: its part of the work, its round and its arm."""

    part: str
    """``noop`` or ``deploy`` of a comparison, ``sweep`` of a sweep."""
    round: int
    """From 0. In a comparison, the pair."""
    arm: str
    """``a`` or ``b``; in a sweep the value."""

    @property
    def name(self) -> str:
        """Name of its files: ``deploy-03-b``."""
        return f"{self.part}-{self.round:02d}-{_NOT_IN_NAMES.sub('_', self.arm)}"


def interleaved(part: str, pairs: int) -> tuple[Slot, ...]:
    """Return A B, B A, A B …, so that a steady slowdown of the machine favours neither."""
    orders = ("ab", "ba")
    return tuple(Slot(part=part, round=pair, arm=arm) for pair in range(pairs) for arm in orders[pair % 2])


def shuffled(part: str, values: Sequence[str], repeats: int, *, seed: int = 0) -> tuple[Slot, ...]:
    """Return every value once in each round, each round in a random order determined by ``seed``."""
    chance = random.Random(seed)
    return tuple(
        Slot(part=part, round=repeat, arm=value)
        for repeat in range(repeats)
        for value in chance.sample(list(values), len(values))
    )


def looks(pairs: int) -> tuple[int, ...]:
    """Return the numbers of pairs at which the figures are analysed: an interim analysis if worthwhile, and the end."""
    early = max(FIRST_LOOK, math.ceil(0.6 * pairs))
    return (early, pairs) if early < pairs else (pairs,)


def left(planned: Sequence[Slot], done: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return the remaining runs, in their order."""
    finished = set(done)
    return tuple(slot for slot in planned if slot not in finished)


def complete_rounds(done: Iterable[Slot], part: str, arms: Sequence[str]) -> int:
    """Return the number of rounds, from the first on without a gap, that have a run of every arm."""
    have = {(slot.round, slot.arm) for slot in done if slot.part == part}
    rounds = 0
    while all((rounds, arm) in have for arm in arms):
        rounds += 1
    return rounds
