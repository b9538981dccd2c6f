"""A bisection as a table: the answer, and what was measured of each commit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import geometric_mean

from ..analysis.bisection import Bisection, Step
from ..analysis.run_metrics import describe
from .document import Answer, Block, Column, Item, Line, Table, Tone
from .format import NONE, percent


def blocks(found: Bisection) -> Iterator[Block]:
    """Yield a bisection's report; the first line is the answer."""
    yield Answer(answer(found))
    if found.guilty:
        yield Line(f"By a factor of {found.change:.3f}, between {found.low:.3f} and {found.high:.3f} (95 %).")
    if len(found.guilty) > 1:
        yield Item("Commits between these cannot be measured, so they are named together.", "doubt")
    if found.left_out:
        yield Item(f"{found.left_out} pairs were left out: other programs used the cores.", "doubt")
    columns = (
        Column("commit", code=True),
        Column("measured", figures=True),
        Column("of the good one", figures=True),
        Column("guilty", figures=True),
        Column("subject", cut=True),
    )
    shown = [step for step in found.steps if step.ratios or step.skipped or step.commit in found.guilty]
    tones: list[Tone] = ["bad" if step.commit in found.guilty else "" for step in shown]
    yield Table(columns, [_cells(step) for step in shown], tones)


def answer(found: Bisection) -> str:
    """Return the answer in one line."""
    what, number = describe(found.metric), sum(len(step.ratios) for step in found.steps)
    of = f"{number} measurements of {len(found.steps)} commits"
    if found.guilty:
        sign = "+" if found.change >= 1 else "−"
        named = " or ".join(commit[:12] for commit in found.guilty)
        subject = next(step.subject for step in found.steps if step.commit == found.guilty[-1])
        by = f"{sign}{percent(abs(found.change - 1))}"
        return f"{what}: {by} since {named} ({subject}), with {_certainty(found.probability)} certainty, by {of}"
    if found.over:
        return f"{what}: no change of 3 % or more between the good and the bad commit, by {of}"
    return f"Can't tell which commit changed {what}: {of} were not enough"


def _certainty(probability: float) -> str:
    """Return a probability as text; none is 1."""
    return f"{math.floor(min(probability, 0.999) * 1000) / 10:g} %"


def _cells(step: Step) -> tuple[str, ...]:
    ratio = f"{geometric_mean(step.ratios):.3f}×" if step.ratios else NONE
    measured = "skipped" if step.skipped else str(len(step.ratios))
    return step.commit[:12], measured, ratio, percent(step.probability), step.subject
