"""Growth of figures with the size of the workload: figure = c × size^exponent, fitted on log-log axes.

An exponent of 1 is linear; one of 2 doubles the cost of each object whenever their number doubles, and shows at small
sizes, long before it becomes a problem.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from .run_metrics import Unit, units_of


class Line(NamedTuple):
    """y = intercept + slope × x, by ordinary least squares."""

    intercept: float
    slope: float
    low: float
    """Interval of the slope by Student's t, with two fewer degrees of freedom than points."""
    high: float


def line(x: Sequence[float], y: Sequence[float], alpha: float) -> Line:
    """Fit a line to at least three points with at least two different ``x``; the interval holds 1 - alpha."""
    # Importing them takes a second, and declaring a check imports this module.
    import numpy as np
    import scipy

    across, up = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    freedom = across.size - 2
    from_centre = across - across.mean()
    spread = float(from_centre @ from_centre)
    slope = float(from_centre @ up) / spread
    intercept = float(up.mean()) - slope * float(across.mean())
    rest = up - intercept - slope * across
    error = float(np.sqrt(rest @ rest / freedom / spread))
    reach = -float(scipy.special.stdtrit(freedom, alpha / 2)) * error
    return Line(intercept, slope, slope - reach, slope + reach)


SCHEMA_VERSION = 1

LEAST_SIZES = 3


class SizedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a sweep."""

    size: float
    """The value of the swept parameter: replicas, pods."""
    metrics: dict[str, float]
    """As `run_metrics.metrics_of`."""
    broken: str = ""
    """Why it says nothing about speed; empty when it passed."""
    recording: str = ""
    """Path of its recording, relative to the sweep's folder."""


class ScalingPoint(msgspec.Struct, frozen=True, kw_only=True):
    size: float
    figure: float


class ScalingFit(msgspec.Struct, frozen=True, kw_only=True):
    """One metric over all sizes."""

    key: str
    unit: Unit
    points: tuple[ScalingPoint, ...]
    """The runs in the fit, by size."""
    exponent: float | None = None
    """None where `why` says why there is no fit."""
    low: float | None = None
    """95 % interval of the exponent, by Student's t."""
    high: float | None = None
    factor: float | None = None
    """The figure at size 1, in `unit`: figure = factor × size^exponent."""
    last_exponent: float | None = None
    """Between the two largest sizes alone (geometric means of their runs). Above `high`, the curve bends upwards: a
    constant cost hides the true growth at small sizes."""
    left_out: tuple[str, ...] = ()
    """Runs that are not in the fit, and why: ``500: not measured``."""
    always_zero: bool = False
    """It is 0 in all runs, and so has no exponent: it does not grow."""
    why: str = ""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of a sweep, and a fit for each metric."""

    schema_version: int = SCHEMA_VERSION
    parameter: str
    """The swept parameter: ``replicas``."""
    runs: tuple[SizedRun, ...]
    fits: tuple[ScalingFit, ...] = ()
    """By key."""
    facts: dict[str, str] = {}
    """The environment in words."""

    def fit(self, key: str) -> ScalingFit | None:
        """Return the fit of a metric; None when no run measured it."""
        return next((fit for fit in self.fits if fit.key == key), None)


def sweep(parameter: str, runs: Sequence[SizedRun], *, facts: Mapping[str, str] | None = None) -> Sweep:
    """Return the fits of all metrics that any run measured."""
    keys = sorted({key for run in runs for key in run.metrics})
    fits = tuple(fit(key, runs) for key in keys)
    return Sweep(parameter=parameter, runs=tuple(runs), fits=fits, facts=dict(facts or {}))


def fit(key: str, runs: Iterable[SizedRun], *, alpha: float = 0.05) -> ScalingFit:
    """Fit one metric by least squares of its logarithm on that of the size; each run is a point.

    It takes three sizes; with one run of each, three points leave an interval from a single degree of freedom. A run
    that is broken, or has no figure above zero, is left out and named.
    """
    ordered = sorted(runs, key=lambda run: run.size)
    if _always_zero(key, ordered):
        return ScalingFit(key=key, unit=units_of(key), points=(), always_zero=True, why="0 at every size")
    points: list[ScalingPoint] = []
    left_out: list[str] = []
    for run in ordered:
        figure = run.metrics.get(key)
        if run.broken:
            left_out.append(f"{run.size:g}: {run.broken}")
        elif figure is None:
            left_out.append(f"{run.size:g}: not measured")
        elif figure <= 0 or run.size <= 0:
            left_out.append(f"{run.size:g}: {figure:g} cannot be shown on a logarithmic axis")
        else:
            points.append(ScalingPoint(size=run.size, figure=figure))
    unfitted = ScalingFit(key=key, unit=units_of(key), points=tuple(points), left_out=tuple(left_out))
    sizes = sorted({point.size for point in points})
    if len(sizes) < LEAST_SIZES:
        return msgspec.structs.replace(
            unfitted, why=f"{len(sizes)} size{'s' * (len(sizes) != 1)} with figures; it takes {LEAST_SIZES}"
        )
    fitted = line([math.log(point.size) for point in points], [math.log(point.figure) for point in points], alpha)
    return msgspec.structs.replace(
        unfitted,
        exponent=fitted.slope,
        low=fitted.low,
        high=fitted.high,
        factor=math.exp(fitted.intercept),
        last_exponent=_between(points, sizes[-2], sizes[-1]),
    )


def _always_zero(key: str, runs: Sequence[SizedRun]) -> bool:
    """Return whether a metric was measured at enough sizes, and always was 0."""
    measured = [run for run in runs if not run.broken and key in run.metrics]
    return len({run.size for run in measured}) >= LEAST_SIZES and not any(run.metrics[key] for run in measured)


def _between(points: Sequence[ScalingPoint], smaller: float, larger: float) -> float:
    def height(size: float) -> float:
        return statistics.fmean(math.log(point.figure) for point in points if point.size == size)

    return (height(larger) - height(smaller)) / math.log(larger / smaller)
