"""The checks of a sweep: those that its test declares, and those of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from ..analysis.result import CheckResult
from ..analysis.scaling import Sweep
from ..checks import Scales
from ..checks.check import decode
from ..errors import ExitCode, UsageError
from .store import Sample

SweepFailOn = Literal["fail", "inconclusive", "never"]
"""``inconclusive``: also for a check that fails. An undetermined result is no pass."""

OPTION = "--check"


def of_option(text: str) -> Scales:
    """Return the check in ``METRIC`` or ``METRIC=EXPONENT``. Raises UsageError for any other text."""
    metric, given, bound = text.partition("=")
    try:
        return Scales(metric, exponent_max=float(bound)) if given else Scales(metric)
    except UsageError as error:
        raise UsageError(f"{OPTION} {text}: {error.message}", next_step=error.next_step) from None
    except ValueError:
        raise UsageError(
            f"{OPTION} {text}: not METRIC or METRIC=EXPONENT", next_step=f"Write it as {OPTION} cpu:deploy=1.15."
        ) from None


def judged(sweep: Sweep, samples: Iterable[Sample], options: Sequence[Scales]) -> tuple[CheckResult, ...]:
    """Return the results of the checks that the test declared in any run, and of those of the command line."""
    declared = dict.fromkeys(_declared(samples))
    return tuple(
        check.judge_sweep(sweep, source=source)
        for check, source in [*declared, *((check, OPTION) for check in options)]
    )


def _declared(samples: Iterable[Sample]) -> Iterator[tuple[Scales, str]]:
    for sample in samples:
        for one in sample.held_to:
            check = decode(one.check)
            if isinstance(check, Scales):
                yield check, one.source


def exit_code(checks: Sequence[CheckResult], fail_on: SweepFailOn) -> ExitCode:
    """Return the exit code for CI: a failed check counts before an inconclusive one."""
    verdicts = {check.verdict for check in checks}
    if "fail" in verdicts and fail_on != "never":
        return ExitCode.FAILED
    if "inconclusive" in verdicts and fail_on == "inconclusive":
        return ExitCode.INCONCLUSIVE
    return ExitCode.PASSED
