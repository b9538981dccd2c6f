"""Reduces the result of one pytest process to the data that a comparison or sweep keeps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from ..analysis.analyse import RECORDINGS, contents_of, result_of
from ..analysis.comparison import VariantRun
from ..analysis.contention import OF_CONTENTION, RunContention, contention_of_run
from ..analysis.recording_index import Contents
from ..analysis.result import TestResult, last
from ..analysis.run_metrics import OF_NOOP, metrics_of, phase_of, saturated_phases, windows_of
from ..errors import ClusterError, RecordingError
from ..recording import journal
from ..report import result_file
from .child import Child
from .target_test import Subject

LATEST = "latest"
"""Link in a folder of reports to the most recently started run."""


class NothingMeasured(RecordingError):
    """A pytest process ended without a phase to judge its variant by."""


def result_in(reports: Path, subject: Subject) -> TestResult | None:
    """Return the result of the target test's newest run in a folder of reports; None where there is none."""
    file = reports / LATEST / result_file.NAME
    if not file.is_file():
        return None
    return next((test for test in last(result_file.read(file).tests) if test.test == subject.nodeid), None)


def broken(test: TestResult) -> str:
    """Return why the variant does not work: the first phase that did not pass, or an error between two phases.

    Empty where there is neither; the test's own assertions do not count. Raises NothingMeasured for a run that was cut
    short, whose recording was (a full disk), or whose cluster ended or failed: the variant is not the cause.
    """
    if test.closed not in ("", "stopped"):
        raise NothingMeasured(
            f"the run was not recorded to its end: {test.closed_message or test.closed}",
            next_step="Go on where it was with --resume.",
        )
    if test.disturbed:
        raise NothingMeasured(f"others may have used the cluster: {test.disturbed}", next_step="Go on with --resume.")
    if test.disrupted:
        raise NothingMeasured(f"no figure is certain: {test.disrupted}", next_step="Go on with --resume.")
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
    """Raise NothingMeasured when the recording shows that the cluster ended a phase or test."""
    if error.startswith(f"{ClusterError.__name__}: "):
        raise NothingMeasured(f"the run was cut short: {error}", next_step="Go on where it was with --resume.")


def whole_run(reports: Path, subject: Subject, child: Child, *, base: Path) -> tuple[TestResult, VariantRun]:
    """Return the result and the figures of a finished process; ``base``: the folder that paths are relative to.

    Raises NothingMeasured, with the last lines of its output, when no phase began.
    """
    test = result_in(reports, subject)
    if test is None or not test.phases:
        raise nothing_measured(child)
    return test, run_of(test, reports, base=base)


def recordings_in(reports: Path) -> set[Path]:
    """Return the recordings of the newest run in a folder of reports."""
    return set(journal.recordings_in(reports / LATEST / RECORDINGS))


def recorded_result(recording: Path) -> TestResult | None:
    """Return the result of one recording, of a process that goes on; None where it cannot be read.

    Without findings, which do not count in a comparison.
    """
    try:
        contents = contents_of(journal.read(recording))
        return result_of(contents, recording=f"{RECORDINGS}/{recording.name}", findings=False)
    except RecordingError:
        return None


def run_of(test: TestResult, reports: Path, *, base: Path) -> VariantRun:
    """Return the figures of one run; ``base``: the folder that paths are relative to."""
    return VariantRun(
        metrics=metrics_of(test),
        broken=broken(test),
        failure=test.failure,
        saturated=saturated_phases(test),
        objects=test.objects,
        recording=_recording(reports, test, base),
    )


def deploy_run(test: TestResult, run: VariantRun) -> dict[str, float]:
    """Return the metrics of a run without those of its no-op phases, which deploy and delete runs cut short."""
    cut = _cut_phases(test)
    return {
        key: value for key, value in run.metrics.items() if not key.startswith(OF_NOOP) and phase_of(key) not in cut
    }


def counted_phases(test: TestResult, *, noop: bool = False) -> list[str]:
    """Return the names of the phases whose metrics `deploy_run` keeps; ``noop``: those of all phases."""
    cut = set() if noop else _cut_phases(test)
    return [phase.name for phase in test.phases if phase.name not in cut]


def _cut_phases(test: TestResult) -> set[str]:
    cut = [phase for phase in test.phases if phase.triggers]
    return {name for phase in cut for name in (phase.name, phase.idle_twin) if name}


def with_contention(runs: Sequence[tuple[VariantRun, Collection[str]]], *, base: Path) -> list[VariantRun]:
    """Return runs that were made at the same time, or a single one, with their contention.

    Each run comes with the names of its phases that count. ``base``: the folder that their recordings' paths are
    relative to.
    """
    recordings = [_core_use(base / run.recording) if run.recording else "it has no recording" for run, _ in runs]
    found = []
    for (run, phases), own in zip(runs, recordings, strict=True):
        partners = [other for other in recordings if other is not own and isinstance(other, Contents)]
        contention = (
            RunContention(share=None, why_not=own) if isinstance(own, str) else contention_of_run(own, phases, partners)
        )
        found.append(msgspec.structs.replace(run, contention=contention))
    return found


def _core_use(recording: Path) -> Contents | str:
    """Return the use of the cores from a recording, or why it cannot be read."""
    try:
        return contents_of(record for record in journal.read(recording) if isinstance(record, OF_CONTENTION))
    except RecordingError as error:
        return error.message


def window_run(test: TestResult, reports: Path, *, base: Path) -> VariantRun:
    """Return the figures of one no-op window; ``test`` holds it and its idle twin."""
    (metrics,) = windows_of(test)
    return VariantRun(
        metrics=metrics,
        broken=broken(test),
        saturated=saturated_phases(test),
        recording=_recording(reports, test, base),
    )


def nothing_measured(child: Child) -> NothingMeasured:
    """Return the error for a process that measured nothing, with its output."""
    lines = "".join(f"\n  {line}" for line in child.tail())
    return NothingMeasured(
        f"the run ended before anything was measured, with these lines:{lines}",
        next_step=f"Its whole output: {child.log}. Once mended, go on where it was with --resume.",
    )


def _recording(reports: Path, test: TestResult, base: Path) -> str:
    file = (reports / LATEST).resolve() / test.recording
    return file.relative_to(base.resolve()).as_posix() if test.recording else ""
