"""Whether a test's figures count, in words: a rerun stands for it, or others may have used the cluster meanwhile."""

from __future__ import annotations

from ..analysis.result import TestResult


def standing(test: TestResult) -> list[str]:
    """Return what has to be known before a test's figures are read; nothing for a test that ran once, undisturbed."""
    found = []
    if test.superseded:
        found.append(f"Run {test.attempt} of {test.attempts}: a rerun followed, and this one counts for nothing.")
    elif test.attempts > 1:
        found.append(f"Rerun {test.attempt - 1}: this one counts; the recordings of the runs before are kept.")
    if test.disturbed:
        found.append(f"Others may have used the cluster while this was measured: {test.disturbed}")
    return found
