"""``result.json`` on disk, written atomically; and a test's figures as JUnit properties."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec

from ..analysis import figures
from ..analysis.phase_result import PhaseResult
from ..analysis.result import SCHEMA_VERSION, CheckResult, Result, TestResult
from ..analysis.run_metrics import describe, is_wall_time, metrics_of, units_of
from ..atomic_write import json_document, read_document, replacing
from ..errors import NotMeasuredError, RecordingError

NAME = "result.json"


def encode(result: Result) -> bytes:
    """Return the file's content: JSON, indented, with a newline at its end."""
    return json_document(result)


def write(result: Result, path: Path) -> None:
    """Write a result atomically: a reader finds the old file or the new one. Raises RecordingError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(encode(result))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise RecordingError(
            f"the result {path} cannot be written: {error.strerror}",
            next_step=f"{'Make room there' if full else 'Make its folder writable'}, or put the reports elsewhere; the"
            " recording can be analysed again.",
        ) from error


def read(path: Path) -> Result:
    """Return a result. Raises RecordingError for a file that is missing, newer than this version, or no result."""
    return read_document(
        path,
        Result,
        schema_version=SCHEMA_VERSION,
        what="a result",
        next_step=f"Give the path of a {NAME}; one that is damaged or older is written again from its recordings by"
        " grovescale analyse RUN.",
    )


PREFIX = "grovescale"
OPERATOR = "operator"


class BenchmarkFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure as trackers of benchmarks read it, smaller is better.

    https://github.com/benchmark-action/github-action-benchmark#examples (``customSmallerIsBetter``)
    """

    name: str
    unit: str
    value: float


def benchmark(result: Result) -> list[BenchmarkFigure]:
    """Return the figures of the tests that passed, as trackers of benchmarks read them; wall times left out.

    Those are the machine's as much as the operator's.
    """
    return [
        BenchmarkFigure(
            name=f"{test.test.rpartition('::')[2]}: {describe(key)}", unit=units_of(key) or "count", value=value
        )
        for test in result.tests
        if test.verdict == "passed" and not test.profiled
        for key, value in metrics_of(test).items()
        if not is_wall_time(key)
    ]


def properties(test: TestResult) -> list[tuple[str, str]]:
    """Return ``grovescale.<phase>.<figure>`` → value, in seconds, bytes or counts; what was not measured has none.

    ``grovescale.verdict`` is the test's; ``grovescale.check.<id>`` that of a check, with ``.figure`` and ``.bound``.
    """
    found: list[tuple[str, str]] = [
        (f"{PREFIX}.verdict", test.verdict),
        (f"{PREFIX}.scenario_outcome", test.scenario_outcome),
    ]
    found += [(f"{PREFIX}.recording", test.recording)] if test.recording else []
    for phase in test.phases:
        found += [(f"{PREFIX}.{phase.name}.{name}", value) for name, value in _of_phase(phase)]
    for check in test.checks:
        name = f"{PREFIX}.check.{check.id}"
        found.append((name, check.verdict))
        found += [(f"{name}.{what}", _number(value)) for what, value in _figures(check) if value is not None]
    return found


def _figures(check: CheckResult) -> tuple[tuple[str, float | None], ...]:
    return ("figure", check.figure), ("bound", check.bound)


def _of_phase(phase: PhaseResult) -> list[tuple[str, str]]:
    found = [("outcome", phase.outcome), ("seconds", _number(phase.seconds))]
    for milestone in phase.milestones:
        if milestone.seconds is not None:
            found.append((f"{milestone.name}.seconds", _number(milestone.seconds)))
            found.append((f"{milestone.name}.clock", milestone.clock))
    for row in phase.cpu:
        seconds = "cpu_seconds_at_least" if row.lower_bound else "cpu_seconds"
        found.append((f"{row.process}.{seconds}", _number(row.seconds)))
        found.append((f"{row.process}.peak_rss_bytes", str(row.peak_rss_bytes)))
        if row.source != "clock":
            found.append((f"{row.process}.cpu_source", row.source))
            found.append((f"{row.process}.cpu_resolution_seconds", _number(row.resolution_s)))
    try:
        traffic = figures.api(phase, OPERATOR)
    except NotMeasuredError:
        pass  # no audit log, or a hole in it: the figure is left out, as the docstring of `properties` says
    else:
        found.append((f"{OPERATOR}.requests", str(traffic.requests)))
        found.append((f"{OPERATOR}.object_writes", str(traffic.object_writes)))
        found.append((f"{OPERATOR}.object_reads", str(traffic.object_reads)))
    if phase.traffic_source == "metrics":
        found.append((f"{OPERATOR}.client_requests", str(sum(row.count for row in phase.client_requests))))
    for controller in dict.fromkeys(row.controller for row in phase.reconciles):
        rows = [row for row in phase.reconciles if row.controller == controller]
        if not any(row.lower_bound for row in rows):
            found.append((f"reconciles.{controller}", str(sum(row.count for row in rows))))
    if phase.saturation is not None:
        found.append(("busy_share", _number(phase.saturation.busy_share)))
    return found


def _number(value: float) -> str:
    return f"{value:.6g}"
