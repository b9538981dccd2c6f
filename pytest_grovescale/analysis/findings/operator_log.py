"""What the operator's log says of it: panics that were recovered, no memory left, one error again and again, too much.

controller-runtime recovers panics of reconcilers and retries them
(https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/controller#Options, `RecoverPanic`), and so do most frameworks:
the process stays up, its probes are green, and the object is never reconciled. A log that grows by kilobytes for each
reconcile costs CPU to write, and a log store to keep.

No false alarm: what counts as a panic, or as memory that ran out, is how runtimes report it, not the word, and of other
exceptions three stacks have to be there; errors that pass by themselves (conflicts, objects that exist already or no
longer) are left out, and one error has to repeat twenty times and be as many as a tenth of the reconciles, and of the
objects; a log is too long from two kilobytes, or ten lines, for each reconcile and object on. Where the test put faults
in the operator's way, panics alone count: the others may be its word on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..result import Finding
from .grouping import About, Aspect, Found, of_failures
from .observed import Observed
from .refusals import failing

ID = "operator-log"

LINES = "log-lines"
"""Label of the harness's mark: how many lines the operator has logged."""
BYTES = "log-bytes"
PANICS = "log-panics"
"""Its detail names the first lines: ``operator.log:12``."""
MEMORY = "log-memory"
"""Lines with which its runtime says that there was no memory left; its detail names the first."""
TRACES = "log-traces"
"""Stacks of exceptions; its detail names the first lines."""
EXCEPTION = "log-exception"
"""What the most frequent of these exceptions says, redacted, is its detail; older recordings do not have it."""
ERRORS = "log-errors"
"""The most frequent error; its detail is the first of them, redacted."""

_LABELS = (LINES, BYTES, PANICS, MEMORY, TRACES, EXCEPTION, ERRORS)
_LEAST_TRACES = 3
_SHOWN = 120
"""Characters of an error that a sentence has."""
_LEAST_ERRORS = 20
_SHARE = 0.1
_BYTES_EACH = 2048
_LINES_EACH = 10
_LEAST_BYTES = 256 << 10


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for panics, for an error that repeats, and for a log that grows with the work."""
    marks = {mark.label: mark for mark in seen.contents.marks if mark.label in _LABELS}
    for label, least, what in (
        (MEMORY, 1, "the operator ran out of memory, by its log {} time"),
        (PANICS, 1, "the operator's log has {} panic"),
        (TRACES, _LEAST_TRACES, "the operator's log has {} stack trace"),
    ):
        of_faults = label == TRACES and seen.faults.windows
        if (mark := marks.get(label)) is not None and mark.count >= least and not of_faults:
            said = marks[EXCEPTION].detail[:_SHOWN] if label == TRACES and EXCEPTION in marks else ""
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.PROCESS),
                text=what.format(f"{mark.count:,}")
                + "s" * (mark.count != 1)
                + (f", most often of {said}" if said else ""),
                evidence=(mark.detail,),
            )
    if seen.faults.windows:
        return
    done = seen.reconciled
    work = max(done, seen.objects)
    often = max(_LEAST_ERRORS, min(_SHARE * work, len(seen.workload) or work))
    if (errors := marks.get(ERRORS)) is not None and errors.count >= often:
        yield Found(
            id=ID,
            severity="waste",
            # What a reconcile ends with is logged once for each: it is the error that these failed with.
            about=of_failures() if errors.count <= failing(seen) else About(aspect=Aspect.AMOUNT),
            text=f"the operator logged the same error {errors.count:,} times: {message(errors.detail)}",
            evidence=(errors.detail,),
        )
    size = marks.get(BYTES)
    lines = marks[LINES].count if LINES in marks else 0
    too_long = size is not None and (size.count >= _BYTES_EACH * work or lines >= _LINES_EACH * work)
    if size is not None and too_long and size.count >= _LEAST_BYTES:
        kilobytes = f"{size.count / 1024 / done:.2g} KiB" if done else ""
        each = f": {kilobytes}, and {lines / done:.3g} lines, for each of {done:,} reconciles" if done else ""
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator logged {size.count / 1e6:,.2g} MB, {lines:,} lines{each}",
        )


_PREFIX = re.compile(
    r"^(?:[EWIF]\d{4} [\d:.]+ +\d+ \S+\] |\[?\d{4}[-/]\d\d[-/]\d\d[T ][\d:.,]+(?:Z|[+-][\d:]+)?\]?\s*)"
    r"|\b(?:ERROR|error|Error|CRITICAL)\b:?\s+(?=\S)|\[(?:ERROR|CRITICAL)\s*\]\s*"
)
_FIELD = re.compile(r'"?\berr(?:or)?"?[=:] ?"((?:[^"\\]|\\.)*)"')


def message(line: str) -> str:
    """Return what a line of a log says, without its time and level: the error of a structured one."""
    if field := _FIELD.search(line):
        return field[1][:_SHOWN]
    rest = line
    while (prefix := _PREFIX.match(rest)) is not None:
        rest = rest[prefix.end() :]
    return rest[:_SHOWN]
