"""Lines that are no samples: told one by one, so that the rest can be judged.

A scraper refuses the whole answer for one of them, and so would Prometheus.
"""

from __future__ import annotations

from ...errors import ExpositionError, ExpositionLineError
from ...exposition.families import Exposition
from ...exposition.limits import Limits
from ...exposition.reader import Reader
from . import types
from .problem import Problem

MOST = 20
"""Wrong lines that are told. What has more is no exposition with faults, but something else."""

MAX_BYTES = 4 << 20
"""Of an answer that is read again for each wrong line; of a larger one the first is told, and the rest not judged."""

_TWICE = "each series once"


def read(body: bytes, content_type: str = "", limits: Limits | None = None) -> tuple[Exposition, list[Problem]]:
    """Return what an answer says without its wrong lines, and these; families that it describes twice are told too.

    Raises ExpositionError for one that is no exposition, or more than may be; in protobuf nothing can be left out.
    """
    lines = body.split(b"\n")
    numbers = list(range(1, len(lines) + 1))
    faults: dict[int, Problem] = {}
    first: ExpositionLineError | None = None
    while True:
        try:
            found = Reader(limits).read(b"\n".join(lines), content_type)
            return found, [*(faults[number] for number in sorted(faults)), *types.problems(found)]
        except ExpositionLineError as error:
            # One that stays wrong when it is taken out is not the fault of a line.
            if len(body) > MAX_BYTES or numbers[error.line - 1] in faults:
                raise
            first = first or error
            if len(faults) == MOST:
                raise ExpositionError(f"{first.message}; and more than {MOST} lines like it") from None
            faults[numbers[error.line - 1]] = _problem(error, numbers[error.line - 1])
            if error.line == len(lines):
                # It has no line feed; the one before has.
                lines[-1] = b""
            else:
                # Taken out: OpenMetrics knows no empty lines.
                del lines[error.line - 1], numbers[error.line - 1]


def _problem(error: ExpositionLineError, number: int) -> Problem:
    says = f"line {number}: {error.what}"
    if _TWICE in error.what:
        return Problem(family="", rule="duplicate", says=says, fix="serve each series once")
    return Problem(family="", rule="syntax", says=says, fix=error.next_step)
