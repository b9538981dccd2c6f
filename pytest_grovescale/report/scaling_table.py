"""A sweep as a table: each metric's exponent with its interval, and its figures by size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from ..analysis.result import CheckResult, CheckVerdict
from ..analysis.run_metrics import describe
from ..analysis.scaling import ScalingFit, Sweep
from .checks_table import by_verdict
from .document import Answer, Block, Column, Gap, Item, Line, Table, Tone
from .format import NONE, figure

_CHECK: dict[CheckVerdict, Tone] = {"pass": "good", "fail": "bad", "inconclusive": "doubt"}


def blocks(sweep: Sweep, checks: Sequence[CheckResult] = ()) -> Iterator[Block]:
    """Yield a sweep's report; the first line is the summary.

    The summary names the checks that failed or could not be decided, or the metric that grows fastest.
    """
    yield Answer(answer(sweep, checks))
    if sweep.facts:
        yield Line(_facts(sweep), "quiet")
    for check in by_verdict(checks):
        yield Item(f"{check.verdict}: {check.check}: {check.text}", _CHECK[check.verdict])
    yield Gap()
    yield Table(_columns(sweep), [_cells(sweep, fit) for fit in _ordered(sweep)])
    if remarks := list(_remarks(sweep)):
        yield Gap()
        for remark in remarks:
            yield Item(remark, "doubt")


def answer(sweep: Sweep, checks: Sequence[CheckResult] = ()) -> str:
    """Return the summary in one line."""
    failed = [check.text for check in checks if check.verdict == "fail"]
    if failed:
        return "; ".join(failed)
    undecided = [check.text for check in checks if check.verdict == "inconclusive"]
    if undecided:
        return "Can't tell: " + "; ".join(undecided)
    # By the lower bound: an exponent with a wide interval is no finding.
    fitted = sorted((fit for fit in sweep.fits if fit.low is not None), key=lambda fit: -(fit.low or 0.0))
    if not fitted:
        sizes = len({run.size for run in sweep.runs})
        return f"No exponent: {sizes} sizes of {sweep.parameter} were run, and no metric has figures of three"
    return f"Grows fastest with {sweep.parameter}: {describe(fitted[0].key)}, to the power of {exponent(fitted[0])}"


def exponent(fit: ScalingFit) -> str:
    """Return an exponent with its interval: ``1.02 (0.97 to 1.07)``."""
    if fit.exponent is None or fit.low is None or fit.high is None:
        return NONE
    texts = (f"{round(figure, 2) + 0.0:.2f}".replace("-", "−") for figure in (fit.exponent, fit.low, fit.high))
    return "{} ({} to {})".format(*texts)


def _ordered(sweep: Sweep) -> list[ScalingFit]:
    """Return the fits by exponent, the largest first; those without one last."""
    return sorted(sweep.fits, key=lambda fit: (fit.exponent is None, -(fit.exponent or 0.0), fit.key))


def _facts(sweep: Sweep) -> str:
    return ", ".join(f"{name} {text}" for name, text in sweep.facts.items())


def _sizes(sweep: Sweep) -> list[float]:
    return sorted({run.size for run in sweep.runs})


def _columns(sweep: Sweep) -> list[Column]:
    sizes = [
        Column(f"{sweep.parameter} {size:g}" if not at else f"{size:g}", True) for at, size in enumerate(_sizes(sweep))
    ]
    return [Column("metric", wraps=True), Column("exponent", figures=True), *sizes]


def _cells(sweep: Sweep, fit: ScalingFit) -> list[str]:
    """Return a row: of each size the median of its runs."""
    if fit.always_zero:
        return [describe(fit.key), "does not grow", *("0" for _ in _sizes(sweep))]
    by_size = {size: [point.figure for point in fit.points if point.size == size] for size in _sizes(sweep)}
    figures = [figure(median(found), fit.unit) if found else NONE for found in by_size.values()]
    return [describe(fit.key), exponent(fit), *figures]


def _remarks(sweep: Sweep) -> Iterator[str]:
    """Yield the runs that are not in a fit and why, and the curves that are not straight."""
    why: dict[str, dict[str, None]] = {}
    for fit in sweep.fits:
        for text in (*fit.left_out, fit.why):
            if text and not fit.always_zero:
                why.setdefault(text, {})[describe(fit.key)] = None
    for text, metrics in why.items():
        yield f"left out, {text} ({_some(list(metrics))})"
    for fit in _ordered(sweep):
        if fit.last_exponent is not None and fit.high is not None and fit.last_exponent > fit.high:
            yield (
                f"{describe(fit.key)} bends upwards: between the two largest sizes the exponent is"
                f" {fit.last_exponent:.2f}"
            )


def _some(metrics: Sequence[str]) -> str:
    return ", ".join(metrics) if len(metrics) <= 2 else f"{metrics[0]} and {len(metrics) - 1} more metrics"
