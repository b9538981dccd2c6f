"""The exception hierarchy, and the exit codes of all commands.

Every message ends with the user's next step.
"""

from __future__ import annotations

import enum
import os
import traceback
from collections.abc import Sequence
from typing import ClassVar


class ExitCode(enum.IntEnum):
    """Exit code of a command. Ctrl-C ends it with 130, the shells' code for SIGINT."""

    PASSED = 0
    """Success; where the command judges: nothing failed."""
    FAILED = 1
    """A verdict: a bound exceeded, a regression, counts that differ, a rule broken."""
    USAGE = 2
    """The command line, a definition or a file that it names is wrong. Nothing was measured."""
    INFRASTRUCTURE = 3
    """Cluster, build, disk or network: the operator was not judged."""
    INCONCLUSIVE = 4
    """There is no verdict, and the options make that a failure."""


class GrovescaleError(Exception):
    """Base of all errors that this package raises on purpose.

    ``message`` says what happened, ``next_step`` what to do about it; both are shown to the user. A message may quote
    foreign text (a program's output, a line of a file), from which credentials and control characters are removed.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INFRASTRUCTURE
    """Exit code of a command that this error ends."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        self.message = message
        self.next_step = next_step
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """What happened, redacted."""
        return self._message

    @message.setter
    def message(self, message: str) -> None:
        self._message = _redacted(message)

    def __str__(self) -> str:
        return f"{self.message}\n  → {self.next_step}" if self.next_step else self.message


ISOLATED: tuple[type[Exception], ...] = (Exception,)
"""What a rule or a check may raise by a defect of this project, without taking all others' results with it: one is not
judged, and says so. Our own tests isolate nothing."""


def own_defect(error: Exception) -> str:
    """Return an error that is a defect of this project, in words: what, and where in its source."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return _redacted(f"{type(error).__name__}: {error} ({place.filename.rpartition(os.sep)[2]}:{place.lineno})")


def _redacted(foreign: str) -> str:
    # Imported late: pytest loads this module in every project that has the package installed.
    from . import redaction

    return redaction.text(foreign)


class UsageError(GrovescaleError):
    """The test, an option or a command line requests something invalid."""

    exit_code = ExitCode.USAGE


class DefinitionError(GrovescaleError):
    """A definition file (cluster, operator, workload) is missing or wrong.

    The message starts with ``file:line: path.to.value:``.
    """

    exit_code = ExitCode.USAGE

    @property
    def parts(self) -> tuple[DefinitionError, ...]:
        """The single mistakes."""
        return (self,)


class DefinitionErrors(DefinitionError):
    """Several mistakes in definition files, one per line."""

    def __init__(self, parts: Sequence[DefinitionError]) -> None:
        super().__init__("\n".join(map(str, parts)))
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[DefinitionError, ...]:
        return self._parts


class MachineError(GrovescaleError):
    """The machine denies a run something: a file cannot be written, or a process cannot be started."""


class BinaryError(GrovescaleError):
    """A control plane binary is in none of the searched places."""


class ClusterError(GrovescaleError):
    """The cluster could not be started, reached or stopped."""


class OperatorError(GrovescaleError):
    """The operator under test did not start, become ready or stay alive."""

    exit_code = ExitCode.FAILED


class WorkloadError(GrovescaleError):
    """A workload could not be rendered, applied or deleted."""

    exit_code = ExitCode.FAILED


class RecordingError(GrovescaleError):
    """A recording cannot be written or read."""


class MissingFileError(RecordingError):
    """A file or folder of a run is missing at the path that the user gave."""

    exit_code = ExitCode.USAGE


class ExpositionError(GrovescaleError):
    """A metrics endpoint's answer cannot be read, or is too large.

    The message starts with the line or the byte of the error, and may quote the endpoint.
    """


class ExpositionLineError(ExpositionError):
    """One line of the answer is wrong, others may be valid. ``line``: from 1; ``what``: the error.

    ``refused``: whether Prometheus refuses the whole response for it too.
    """

    def __init__(self, line: int, what: str, *, next_step: str = "", refused: bool = True) -> None:
        super().__init__(f"line {line}: {what}", next_step=next_step)
        self.line = line
        self.what = _redacted(what)
        self.refused = refused


class PhaseError(GrovescaleError):
    """A phase did not reach its milestones: timeout, dead operator, lost recorder."""

    exit_code = ExitCode.FAILED


class PrometheusError(GrovescaleError):
    """A Prometheus could not be started or reached, or did not answer."""


class CheckFailed(GrovescaleError, AssertionError):
    """A run exceeded the bound of a check."""

    exit_code = ExitCode.FAILED


class CheckInconclusive(CheckFailed):
    """A check could not be decided, and the options make that a failure."""

    exit_code = ExitCode.INCONCLUSIVE


class InconclusiveWarning(UserWarning):
    """A check could not be decided, and the options make that a warning."""


class PrometheusWarning(UserWarning):
    """The run's own Prometheus is incomplete: it died, could not write, or failed to scrape."""


class NotMeasuredError(GrovescaleError):
    """A requested figure is not in the recording. It is never replaced by zero."""

    exit_code = ExitCode.INCONCLUSIVE
