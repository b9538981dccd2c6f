"""Several runs of one test in one run of pytest: reruns of what failed or crashed. The last one counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from .result import TestResult


def numbered(tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the tests, in the order of their starts, with the number of each one's run and of how many it is.

    A test's pass with profilers is counted apart from the one that measures.
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
