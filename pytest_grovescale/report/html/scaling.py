"""A sweep on its page: the summary lines, a row for each exponent, and the charts' data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...analysis.result import CheckResult
from ...analysis.run_metrics import Unit, describe, phase_of
from ...analysis.scaling import ScalingFit, Sweep
from .. import scaling_table
from ..format import NONE, count, figure
from .tiles import Line, Tone

GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("cpu", "CPU of the operator", ("cpu", "noop_cpu", "noop_cpu_per_reconcile")),
    ("wall", "Wall clock and milestones", ("wall", "milestone")),
    ("api", "API requests by the operator", ("api", "writes", "noop_requests", "noop_writes")),
    ("reconciles", "Reconciles", ("reconciles", "noop_reconciles")),
    ("rss", "Peak memory of the operator", ("rss",)),
    ("series", "Metric series of the operator", ("series",)),
)
"""Name and heading of each chart, and the kinds of metrics in it; those of one chart share a unit."""

_STEEPEST = 3
"""Metrics that a line names."""

_SHORT = {
    "cpu": "{}",
    "noop_cpu": "per no-op trigger",
    "noop_cpu_per_reconcile": "per no-op reconcile",
    "wall": "{}, whole",
    "milestone": "{}",
    "api": "requests, {}",
    "writes": "object writes, {}",
    "noop_requests": "requests per no-op trigger",
    "noop_writes": "object writes per no-op trigger",
    "reconciles": "{}",
    "noop_reconciles": "per no-op trigger",
    "rss": "{}",
    "series": "{}",
}
"""Kind of a metric → its label under its chart's heading."""


_LEAST: dict[Unit, float] = {"s": 1e-5, "bytes": 1e4}
"""Unit → the smallest figure that keeps two digits in the words of the tables."""


class Place(NamedTuple):
    """Position of an interval on an axis of exponents from 0 to 2, in percent of its width: 1 is in the middle."""

    low: float
    width: float
    at: float


class Row(NamedTuple):
    """One exponent of the table."""

    what: str
    fit: ScalingFit
    interval: str
    place: Place
    tone: Tone
    factor: str
    bends: bool
    left_out: tuple[str, ...]


class Cells(NamedTuple):
    """One metric of a chart's table: of each size its runs' figures, and the fit (empty without one)."""

    what: str
    cells: tuple[tuple[tuple[str, ...], str], ...]


class Chart(NamedTuple):
    name: str
    heading: str
    table: tuple[Cells, ...]


def lines(sweep: Sweep, checks: Sequence[CheckResult]) -> Iterator[Line]:
    """Yield the summary lines of a sweep; the first is the verdict."""
    yield Line(_tone(checks), scaling_table.answer(sweep, checks))
    steepest = ordered(sweep)[:_STEEPEST]
    if len(steepest) > 1:
        texts = (f"{describe(fit.key)} {scaling_table.exponent(fit)}" for fit in steepest)
        yield Line("plain", f"Steepest, by the lower end of the interval: {'; '.join(texts)}")
    if verdict(checks) == "fail":
        # Without a failed check, the inconclusive ones are the verdict.
        yield from (Line("warn", check.text) for check in checks if check.verdict == "inconclusive")
    if passed := sum(check.verdict == "pass" for check in checks):
        yield Line("good", f"{count(passed)} of {count(len(checks))} checks passed.")
    if bent := sorted(filter(bends, sweep.fits), key=lambda fit: -(fit.last_exponent or 0.0)):
        named = [f"{describe(fit.key)} {decimal(fit.last_exponent)}" for fit in bent[:_STEEPEST]]
        more = f", and {len(bent) - _STEEPEST} more" if len(bent) > _STEEPEST else ""
        yield Line("warn", f"Steeper between the two largest sizes than the whole line: {'; '.join(named)}{more}")
    for text in counted(f"{run.size:g}: {run.broken}" for run in sweep.runs if run.broken):
        yield Line("warn", f"Left out, {sweep.parameter} {text}")
    sizes = len({run.size for run in sweep.runs})
    yield Line("plain", f"{count(len(sweep.runs))} runs of {sizes} sizes; every exponent is a fit over single runs.")


def _tone(checks: Sequence[CheckResult]) -> Tone:
    tones: dict[str, Tone] = {"fail": "bad", "inconclusive": "warn", "pass": "good"}
    return tones.get(verdict(checks), "plain")


def verdict(checks: Sequence[CheckResult]) -> str:
    """Return the worst verdict of the checks; empty where there is none."""
    found = {check.verdict for check in checks}
    return next((verdict for verdict in ("fail", "inconclusive", "pass") if verdict in found), "")


def ordered(sweep: Sweep) -> list[ScalingFit]:
    """Return the fits with an exponent, by the lower end of its interval: the fastest certain growth first."""
    return sorted((fit for fit in sweep.fits if fit.low is not None), key=lambda fit: (-(fit.low or 0.0), fit.key))


def bends(fit: ScalingFit) -> bool:
    """Return whether the two largest sizes are visibly steeper than the line of all sizes."""
    if fit.last_exponent is None or fit.high is None:
        return False
    return round(fit.last_exponent, 2) > round(fit.high, 2)


def rows(sweep: Sweep) -> list[Row]:
    """Return a row for each metric with an exponent, the steepest first."""
    return [_row(fit, sweep) for fit in ordered(sweep)]


def _row(fit: ScalingFit, sweep: Sweep) -> Row:
    return Row(
        what=describe(fit.key),
        fit=fit,
        interval=f"{decimal(fit.low)} to {decimal(fit.high)}",
        place=place(fit),
        tone="warn" if (fit.low or 0.0) > 1 else "plain",
        factor=at_one(fit.factor, fit.unit),
        bends=bends(fit),
        left_out=_left_out(fit, sweep),
    )


def _left_out(fit: ScalingFit, sweep: Sweep) -> tuple[str, ...]:
    """Return the runs that are not in a fit, and why; the page has the reason of a broken run once."""
    broken = {f"{run.size:g}: {run.broken}": f"{run.size:g}: broken" for run in sweep.runs if run.broken}
    return counted(broken.get(text, text) for text in fit.left_out)


def place(fit: ScalingFit) -> Place:
    """Return the position of a fit's exponent; values outside 0 to 2 are drawn at the end of the axis."""
    low, at, high = (round(min(100.0, max(0.0, 50 * (end or 0.0))), 2) for end in (fit.low, fit.exponent, fit.high))
    return Place(low, max(round(high - low, 2), 0.5), at)


def decimal(figure: float | None) -> str:
    """Return an exponent with two decimals: ``1.02``, ``−0.31``."""
    return NONE if figure is None else f"{round(figure, 2) + 0.0:.2f}".replace("-", "−")


def at_one(factor: float | None, unit: Unit) -> str:
    """Return the figure at size 1; it may be far smaller than any measured one: ``3.1e-07 s``."""
    if factor is None or factor >= _LEAST.get(unit, 0.01):
        return figure(factor, unit)
    return f"{factor:.2g} {unit}"


def counted(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct texts, with their numbers of occurrences."""
    return tuple(f"{text} ({often} runs)" if often > 1 else text for text, often in Counter(texts).items())


def charts(sweep: Sweep) -> list[Chart]:
    """Return the charts with data, and their tables."""
    sizes = sorted({run.size for run in sweep.runs})
    return [
        Chart(name, heading, tuple(_cells(fit, sizes) for fit in found))
        for name, heading, kinds in GROUPS
        if (found := _drawn(sweep, kinds))
    ]


def chart_data(sweep: Sweep) -> dict[str, Any]:
    """Return the data for the page's script: the unit of each chart, and the points and line of each metric."""
    return {
        "parameter": sweep.parameter,
        "charts": {
            name: {"unit": found[0].unit, "metrics": [_metric(fit) for fit in found]}
            for name, _, kinds in GROUPS
            if (found := _drawn(sweep, kinds))
        },
    }


def _drawn(sweep: Sweep, kinds: Sequence[str]) -> list[ScalingFit]:
    """Return the metrics of some kinds that have points, the steepest first, those without a fit last."""
    chosen = [fit for fit in sweep.fits if fit.points and fit.key.partition(":")[0] in kinds]
    return sorted(chosen, key=lambda fit: (fit.exponent is None, -(fit.exponent or 0.0), fit.key))


def _metric(fit: ScalingFit) -> dict[str, Any]:
    exponent = "no exponent" if fit.exponent is None else decimal(fit.exponent)
    return {
        "name": f"{short(fit.key)}, {exponent}",
        "points": [(point.size, float(f"{point.figure:.6g}")) for point in fit.points],
        "exponent": fit.exponent,
        "factor": fit.factor,
    }


def short(key: str) -> str:
    """Return the label of a metric under the heading of its chart."""
    kind, _, what = key.partition(":")
    return _SHORT[kind].format(what.replace("/", ": ") if kind == "milestone" else phase_of(key))


def _cells(fit: ScalingFit, sizes: Sequence[float]) -> Cells:
    return Cells(short(fit.key), tuple((_measured(fit, size), _fitted(fit, size)) for size in sizes))


def _measured(fit: ScalingFit, size: float) -> tuple[str, ...]:
    found = (figure(point.figure, fit.unit) for point in fit.points if point.size == size)
    return tuple(found) or (NONE,)


def _fitted(fit: ScalingFit, size: float) -> str:
    if fit.factor is None or fit.exponent is None:
        return ""
    return figure(fit.factor * size**fit.exponent, fit.unit)


def without_exponent(sweep: Sweep) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the metrics without an exponent: each with the reason, and with the runs that were left out."""
    return [
        (describe(fit.key), f"does not grow: {fit.why}" if fit.always_zero else fit.why, _left_out(fit, sweep))
        for fit in sweep.fits
        if fit.exponent is None
    ]
