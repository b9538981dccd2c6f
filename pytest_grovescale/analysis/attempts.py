"""Several runs of one test in one run of pytest: reruns of failed or crashed tests. The last one counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from .result import TestResult


def numbered(tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the tests in the order of their starts, each with its run number and the number of its runs.

    A test's profiling pass is counted separately from the pass that measures.
    """
    ordered = sorted(tests, key=lambda test: (test.started, test.test))
    of_each = Counter(_name(test) for test in ordered)
    so_far: Counter[tuple[str, bool]] = Counter()
    found = []
    for test in ordered:
        so_far[_name(test)] += 1
        found.append(msgspec.structs.replace(test, attempt=so_far[_name(test)], attempts=of_each[_name(test)]))
    return found


def last(tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the runs that count."""
    return [test for test in tests if not test.superseded]


def _name(test: TestResult) -> tuple[str, bool]:
    return test.test, test.profiled
