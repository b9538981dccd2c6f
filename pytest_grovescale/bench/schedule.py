"""Which run comes when: a plan and what has been run in, the next run out. So a killed one goes on where it was."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

NOOP, DEPLOY, PROFILE = "noop", "deploy", "profile"
"""Parts of a comparison. The runs of the last, one of each variant with the machine to itself, are profiled in a second
pass; the verdict is not about them."""
PAIRS: Mapping[str, int] = {NOOP: 16, DEPLOY: 16}
"""Part of a comparison → its pairs, the warm-up included. `grovescale selftest power` says what they can tell; each
part takes less than 20 minutes with them on two cores, at 1000 pods."""

TYPICAL_S: Mapping[str, float] = {NOOP: 22.0, DEPLOY: 31.5, "profile": 120.0, "sweep": 57.0}
"""Part → seconds for one run of it, with everything around it: medians of the comparisons and the sweep of up to 1000
pods on two cores that docs/comparing.md tells of."""

ALPHA = 0.05
"""Of a whole comparison; each of its parts has its share, so that together they raise no more false alarms than one."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")

FIRST_LOOK = 6
"""With fewer pairs than this, warm-up included, an interval is too wide to be looked at before the end."""


class Slot(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One run: of which part of the work, in which round, by whom."""

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
    """Return A B, B A, A B …: a machine that gets slower all the while is no advantage for either."""
    orders = ("ab", "ba")
    return tuple(Slot(part=part, round=pair, arm=arm) for pair in range(pairs) for arm in orders[pair % 2])


def shuffled(part: str, values: Sequence[str], repeats: int, *, seed: int = 0) -> tuple[Slot, ...]:
    """Return every value once in each round, each round in an order of its own that ``seed`` decides."""
    chance = random.Random(seed)
    return tuple(
        Slot(part=part, round=repeat, arm=value)
        for repeat in range(repeats)
        for value in chance.sample(list(values), len(values))
    )


def looks(pairs: int) -> tuple[int, ...]:
    """Return after how many pairs the figures are looked at: once on the way, if that is worth it, and at the end."""
    early = max(FIRST_LOOK, math.ceil(0.6 * pairs))
    return (early, pairs) if early < pairs else (pairs,)


def left(planned: Sequence[Slot], done: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return the runs that are still to be made, in their order."""
    finished = set(done)
    return tuple(slot for slot in planned if slot not in finished)


def complete_rounds(done: Iterable[Slot], part: str, arms: Sequence[str]) -> int:
    """Return how many rounds, from the first on without a gap, have a run of every arm."""
    have = {(slot.round, slot.arm) for slot in done if slot.part == part}
    rounds = 0
    while all((rounds, arm) in have for arm in arms):
        rounds += 1
    return rounds
