"""How fast a figure may grow with the size of the workload. It judges a sweep: runs of several sizes, not one."""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.result import CheckResult, Verdict
from ..analysis.run_metrics import describe
from ..analysis.scaling import ScalingFit, Sweep
from ..errors import NotMeasuredError
from ..recording.records import CheckDeclared
from .check import Check, CheckArgumentError, Outcome, decode, not_negative, tag_of, text_of
from .run import Run, unknown


class _Positional(Check, frozen=True):
    positional = ("metric",)

    metric: str
    """Key of a figure, as in `analysis.run_metrics`: ``cpu:deploy``, ``milestone:deploy/pods-ready``, ``noop_cpu``."""


class Scales(_Positional, tag="scales", frozen=True, kw_only=True):
    """A figure grows with at most this power of the workload's size.

    ``grovescale sweep`` judges it, by runs of several sizes: one run has only one.
    """

    of_sweep = True

    exponent_max: float = 1.15

    def validate(self) -> None:
        not_negative(self, exponent_max=self.exponent_max)
        try:
            describe(self.metric)
        except KeyError:
            raise CheckArgumentError(
                f"scales({self.metric!r}): no metric is called so",
                next_step="Write it as in the sweep's sweep.json: cpu:deploy, api:deploy, rss:deploy, noop_cpu.",
            ) from None

    def judge(self, run: Run) -> Outcome:
        raise NotMeasuredError(
            "one run has one size, which does not show how a figure grows",
            next_step="It is judged by runs of several sizes: grovescale sweep TEST --set replicas=125,250,500.",
        )

    def judge_sweep(self, sweep: Sweep, *, source: str = "") -> CheckResult:
        """Return a sweep's verdict.

        ``pass`` where the exponent's interval ends at or below the bound, and where the figure is 0 at every size;
        ``fail`` where the interval begins above the bound. Between the two, and where fewer than three sizes have
        figures, it is inconclusive.
        """
        fit, name = sweep.fit(self.metric), describe(self.metric)
        verdict: Verdict = "inconclusive"
        figure: float | None = None
        if fit is None:
            known = unknown("metric", self.metric, (other.key for other in sweep.fits))
            text = f"{name}: no run of the sweep measured it; {known}"
        elif fit.always_zero:
            verdict, text = "pass", f"{name} is {fit.why}: it does not grow"
        elif fit.exponent is None or fit.low is None or fit.high is None:
            text = f"{name}: {fit.why}"
        else:
            figure = fit.exponent
            text = (
                f"{name} grows with {sweep.parameter or 'the size'} to the power of {fit.exponent:.2f}"
                f" ({fit.low:.2f} to {fit.high:.2f}), at most {self.exponent_max:g}"
            )
            if fit.high <= self.exponent_max:
                verdict = "pass"
            elif fit.low > self.exponent_max:
                verdict = "fail"
            else:
                text += ": the bound lies in the interval; more runs or larger sizes narrow it"
        return CheckResult(
            check=text_of(self),
            verdict=verdict,
            figure=figure,
            bound=self.exponent_max,
            text=text,
            evidence=_evidence(fit),
            source=source,
        )


SCALES = tag_of(Scales)


def of_sweep(declared: CheckDeclared) -> bool:
    """Return whether a check of a run is judged by runs of several sizes, and not by this one."""
    return declared.check.get("check") == SCALES


def left_to_sweep(declared: Iterable[CheckDeclared]) -> tuple[CheckDeclared, ...]:
    """Return the checks of a run that only a sweep can judge."""
    return tuple(filter(of_sweep, declared))


def with_source(declared: CheckDeclared) -> str:
    """Return a check and where it was declared: ``scales("cpu:deploy", exponent_max=1.15) [marker]``."""
    return f"{text_of(decode(declared.check))} [{declared.source}]"


def _evidence(fit: ScalingFit | None) -> tuple[str, ...]:
    if fit is None:
        return ()
    points = tuple(f"{point.size:g}: {point.figure:.4g} {fit.unit}" for point in fit.points)
    bend: tuple[str, ...] = ()
    if fit.last_exponent is not None and fit.high is not None and fit.last_exponent > fit.high:
        bend = (f"between the two largest sizes the exponent is {fit.last_exponent:.2f}: it bends upwards",)
    return (*points, *bend, *(f"left out: {text}" for text in fit.left_out))
