"""What a sweep is held to: the checks that its test declares, and those of the command line."""

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
"""``inconclusive``: a check that fails, too. What cannot be told is no pass."""

OPTION = "--check"


def of_option(text: str) -> Scales:
    """Return the check in ``METRIC`` or ``METRIC=EXPONENT``. Raises UsageError for anything else."""
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
    """Return what a sweep says of the checks that its test declared in any run, and of those of the command line."""
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
    """Return what a CI job is decided by: a check that fails counts before one that cannot be decided."""
    verdicts = {check.verdict for check in checks}
    if "fail" in verdicts and fail_on != "never":
        return ExitCode.FAILED
    if "inconclusive" in verdicts and fail_on == "inconclusive":
        return ExitCode.INCONCLUSIVE
    return ExitCode.PASSED
