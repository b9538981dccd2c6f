"""A history on its page: a chart for each figure, drawn as SVG, since its points are few."""

from __future__ import annotations

from typing import NamedTuple

from ...analysis.history import History, HistoryFigure
from ...analysis.run_metrics import describe
from .. import history_table
from ..format import figure

WIDTH, HEIGHT = 640, 140
_MARGIN = 6


class Dot(NamedTuple):
    """One run."""

    x: float
    y: float
    title: str


class Level(NamedTuple):
    """A level between two changes."""

    low: float
    high: float
    y: float


class Chart(NamedTuple):
    heading: str
    dots: tuple[Dot, ...]
    levels: tuple[Level, ...]
    changes: tuple[tuple[float, str, str], ...]
    """Place, words and tone of each change."""
    ends: str
    """The figures at the chart's lower and upper end."""


def charts(history: History) -> list[list[Chart]]:
    """Return the charts of each group."""
    return [[_chart(one) for one in group.figures] for group in history.groups]


def _chart(one: HistoryFigure) -> Chart:
    values = [point.value for point in one.points]
    top = max(values) * 1.01 or 1.0
    # What varies little is drawn from near its smallest figure on: a change of a percent is to be seen.
    bottom = 0.0 if min(values) < top / 2 else max(0.0, min(values) - 2 * (top - min(values)))

    def x(index: float) -> float:
        return round(_MARGIN + (WIDTH - 2 * _MARGIN) * (index + 0.5) / len(values), 1)

    def y(value: float) -> float:
        return round(HEIGHT - _MARGIN - (HEIGHT - 2 * _MARGIN) * (value - bottom) / (top - bottom), 1)

    edges = [0, *(change.index for change in one.changes), len(values)]
    means = [one.changes[0].before, *(change.after for change in one.changes)] if one.changes else []
    return Chart(
        heading=describe(one.metric),
        dots=tuple(
            Dot(
                x(n),
                y(point.value),
                f"{figure(point.value, one.unit)}, {point.commit[:12] or point.run}, {point.saved}",
            )
            for n, point in enumerate(one.points)
        ),
        levels=tuple(
            Level(x(low - 0.5), x(high - 0.5), y(mean))
            for low, high, mean in zip(edges, edges[1:], means, strict=False)
        ),
        changes=tuple(
            (x(change.index - 0.5), history_table.sentence(one, change), history_table.tone(change))
            for change in one.changes
        ),
        ends=f"{figure(bottom, one.unit)} to {figure(top, one.unit)}",
    )
