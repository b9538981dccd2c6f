"""Validity notes of a test's figures, in words.

The test's end between two phases, a rerun that replaces it, other users of the cluster.
"""

from __future__ import annotations

from ..analysis.result import TestResult


def standing(test: TestResult) -> list[str]:
    """Return all notes for readers of a test's figures; empty for a test that ran once, undisturbed."""
    found = validity(test)
    if all(phase.outcome == "passed" for phase in test.phases):
        if test.error:
            found.append(f"The test ended{after(test)}, by an error: {test.error}")
        if test.failure:
            found.append(f"The test failed{after(test)}: {test.failure}")
    return found


def validity(test: TestResult) -> list[str]:
    """Return why a test's figures may not count, or which of several runs counts."""
    found = []
    if test.superseded:
        found.append(f"Run {test.attempt} of {test.attempts}: a rerun followed, and this one counts for nothing.")
    elif test.attempts > 1:
        found.append(f"Rerun {test.attempt - 1}: this one counts; the recordings of the runs before are kept.")
    if test.disturbed:
        found.append(f"Others may have used the cluster while this was measured: {test.disturbed}")
    return found


def after(test: TestResult) -> str:
    """Return the phase after which a test ended, all of whose phases passed."""
    return f" after {test.phases[-1].name}" if test.phases else ""
