"""How fast a figure may grow with the size of the workload. It judges a sweep: runs of several sizes, not one."""

from __future__ import annotations

import msgspec

from ..analysis.result import CheckResult, Verdict
from ..analysis.run_metrics import describe, units_of
from ..analysis.scaling import ScalingFit, Sweep
from ..errors import UsageError


class Scales(msgspec.Struct, frozen=True, kw_only=True, tag_field="check", tag="scales", forbid_unknown_fields=True):
    """A metric grows with at most this power of the size."""

    metric: str
    """Key as in ``run_metrics``: ``cpu:deploy``."""
    exponent_max: float = 1.15


def text_of(check: Scales) -> str:
    """Return the check as a reader would write it."""
    return f'scales("{check.metric}", exponent_max={check.exponent_max:g})'


def judge(check: Scales, sweep: Sweep, *, source: str = "") -> CheckResult:
    """Return what a sweep says of one check.

    ``pass`` where the exponent's interval ends at or below the bound, and where the figure is 0 at every size;
    ``fail`` where the interval begins above the bound. Between the two, and where fewer than three sizes have figures,
    it is inconclusive. Raises UsageError for what is no metric.
    """
    try:
        units_of(check.metric)
    except KeyError:
        raise UsageError(
            f"{text_of(check)}: {check.metric!r} is no metric",
            next_step="Metrics of this sweep: " + (", ".join(fit.key for fit in sweep.fits) or "none") + ".",
        ) from None
    fit = sweep.fit(check.metric)
    if fit is not None and fit.always_zero:
        return _result(check, "pass", None, f"{describe(check.metric)} is {fit.why}: it does not grow", fit, source)
    if fit is None or fit.exponent is None or fit.low is None or fit.high is None:
        why = fit.why if fit is not None else "no run of the sweep measured it"
        return _result(check, "inconclusive", None, f"{describe(check.metric)}: {why}", fit, source)
    verdict: Verdict = (
        "pass" if fit.high <= check.exponent_max else "fail" if fit.low > check.exponent_max else "inconclusive"
    )
    text = (
        f"{describe(check.metric)} grows with {_size(sweep)} to the power of {fit.exponent:.2f}"
        f" ({fit.low:.2f} to {fit.high:.2f}), at most {check.exponent_max:g}"
    )
    if verdict == "inconclusive":
        text += ": the bound lies in the interval; more runs or larger sizes narrow it"
    return _result(check, verdict, fit.exponent, text, fit, source)


def _size(sweep: Sweep) -> str:
    return sweep.parameter or "the size"


def _result(
    check: Scales, verdict: Verdict, figure: float | None, text: str, fit: ScalingFit | None, source: str
) -> CheckResult:
    return CheckResult(
        check=text_of(check),
        verdict=verdict,
        figure=figure,
        bound=check.exponent_max,
        text=text,
        evidence=_evidence(fit),
        source=source,
    )


def _evidence(fit: ScalingFit | None) -> tuple[str, ...]:
    if fit is None:
        return ()
    points = tuple(f"{point.size:g}: {point.figure:.4g} {fit.unit}" for point in fit.points)
    bend: tuple[str, ...] = ()
    if fit.last_exponent is not None and fit.high is not None and fit.last_exponent > fit.high:
        bend = (f"between the two largest sizes the exponent is {fit.last_exponent:.2f}: it bends upwards",)
    return (*points, *bend, *(f"left out: {text}" for text in fit.left_out))
