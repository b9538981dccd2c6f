"""From the result of one pytest process to what a comparison or sweep keeps of it."""

from __future__ import annotations

from pathlib import Path

from ..analysis.attempts import last
from ..analysis.comparison import VariantRun
from ..analysis.result import TestResult
from ..analysis.run_metrics import metrics_of, phase_of, saturated_phases, windows_of
from ..errors import ClusterError, RecordingError
from ..report import jsonfile
from .child import Child
from .subject import Subject

LATEST = "latest"
"""Link in a folder of reports to the run that was begun last."""


class NothingMeasured(RecordingError):
    """A pytest process ended without a phase to judge its variant by."""


def result_in(reports: Path, subject: Subject) -> TestResult | None:
    """Return the result of the subject's newest run in a folder of reports; None where there is none."""
    file = reports / LATEST / jsonfile.NAME
    if not file.is_file():
        return None
    return next((test for test in last(jsonfile.read(file).tests) if test.test == subject.nodeid), None)


def broken(test: TestResult) -> str:
    """Return why the variant does not work: the first phase that did not pass, or an error between two phases.

    Empty where there is neither: what the test asserts does not count. Raises NothingMeasured for a run that was cut
    short, whose recording was (a full disk), or whose cluster ended: that is not the variant's doing.
    """
    if test.closed not in ("", "stopped"):
        raise NothingMeasured(
            f"the run was not recorded to its end: {test.closed_message or test.closed}",
            next_step="Go on where it was with --resume.",
        )
    if test.disturbed:
        raise NothingMeasured(f"others may have used the cluster: {test.disturbed}", next_step="Go on with --resume.")
    for phase in test.phases:
        first = phase.message.partition("\n")[0]
        if phase.outcome in ("interrupted", "unfinished"):
            raise NothingMeasured(
                f"the run was cut short in phase {phase.name!r}: {first or phase.outcome}",
                next_step="Go on where it was with --resume.",
            )
        if phase.outcome != "passed":
            _refuse_of_cluster(first)
            return f"{phase.name}: {first or phase.outcome}"
    _refuse_of_cluster(test.error)
    if test.error and test.phases:
        return f"after {test.phases[-1].name}: {test.error}"
    return test.error


def _refuse_of_cluster(error: str) -> None:
    """Raise NothingMeasured for the end of a phase or test, as the recording has it, that the cluster has caused."""
    if error.startswith(f"{ClusterError.__name__}: "):
        raise NothingMeasured(f"the run was cut short: {error}", next_step="Go on where it was with --resume.")


def whole_run(reports: Path, subject: Subject, child: Child, *, base: Path) -> tuple[TestResult, VariantRun]:
    """Return the result of a finished process and what it says; ``base``: the folder that paths are relative to.

    Raises NothingMeasured, with the last lines of its output, when no phase began.
    """
    test = result_in(reports, subject)
    if test is None or not test.phases:
        raise nothing_measured(child)
    return test, VariantRun(
        metrics=metrics_of(test),
        broken=broken(test),
        failure=test.failure,
        saturated=saturated_phases(test),
        objects=test.objects,
        recording=_recording(reports, test, base),
    )


def deploy_run(test: TestResult, run: VariantRun) -> dict[str, float]:
    """Return the metrics of a run without those of its no-op phases, which deploy and delete runs cut short."""
    cut = {phase.name for phase in test.phases if phase.triggers}
    return {
        key: value for key, value in run.metrics.items() if not key.startswith("noop_") and phase_of(key) not in cut
    }


def window_run(test: TestResult, reports: Path, *, base: Path) -> VariantRun:
    """Return what one no-op window says; ``test`` holds it and its idle twin."""
    (metrics,) = windows_of(test)
    return VariantRun(
        metrics=metrics,
        broken=broken(test),
        saturated=saturated_phases(test),
        recording=_recording(reports, test, base),
    )


def nothing_measured(child: Child) -> NothingMeasured:
    """Return the error for a process that measured nothing, with what it said."""
    lines = "".join(f"\n  {line}" for line in child.tail())
    return NothingMeasured(
        f"the run ended before anything was measured, with these lines:{lines}",
        next_step=f"Its whole output: {child.log}. Once mended, go on where it was with --resume.",
    )


def _recording(reports: Path, test: TestResult, base: Path) -> str:
    file = (reports / LATEST).resolve() / test.recording
    return file.relative_to(base.resolve()).as_posix() if test.recording else ""
