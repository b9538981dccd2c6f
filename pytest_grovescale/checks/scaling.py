"""How fast a figure may grow with the size of the workload. It judges a sweep: runs of several sizes, not one."""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.result import CheckResult, Verdict
from ..analysis.run_metrics import describe
from ..analysis.scaling import ScalingFit, Sweep
from ..recording.records import CheckDeclared
from .arguments import unknown
from .check import text_of
from .shape import Scales, decode

SCALES = str(Scales.__struct_config__.tag)


def of_sweep(declared: CheckDeclared) -> bool:
    """Return whether a check of a run is judged by runs of several sizes, and not by this one."""
    return declared.check.get("check") == SCALES


def left_to_sweep(declared: Iterable[CheckDeclared]) -> tuple[CheckDeclared, ...]:
    """Return those of a run's checks that it is not judged by."""
    return tuple(filter(of_sweep, declared))


def told(declared: CheckDeclared) -> str:
    """Return such a check, and who asks for it: ``scales("cpu:deploy", exponent_max=1.15) [marker]``."""
    return f"{text_of(decode(declared.check))} [{declared.source}]"


def judge(check: Scales, sweep: Sweep, *, source: str = "") -> CheckResult:
    """Return what a sweep says of one check.

    ``pass`` where the exponent's interval ends at or below the bound, and where the figure is 0 at every size;
    ``fail`` where the interval begins above the bound. Between the two, and where fewer than three sizes have figures,
    it is inconclusive.
    """
    fit = sweep.fit(check.metric)
    if fit is not None and fit.always_zero:
        return _result(check, "pass", None, f"{describe(check.metric)} is {fit.why}: it does not grow", fit, source)
    if fit is None or fit.exponent is None or fit.low is None or fit.high is None:
        why = fit.why if fit is not None else _not_there(check.metric, sweep)
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


def _not_there(metric: str, sweep: Sweep) -> str:
    return "no run of the sweep measured it; " + unknown("metric", metric, (fit.key for fit in sweep.fits))


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
