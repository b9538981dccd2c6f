"""Endpoints with one fault each, and their sound twins.

``tests/data/lint/content_faults.diff`` has 55 as differences, written down before the rules were looked at: ``-`` is a
line of the endpoint with the fault, ``+`` one of its twin. A value ``"#12"`` stands for twelve values of its label.
``reviewer_faults.diff`` has those by which more rules came about, ``operator_faults.diff`` those of operators in Go,
Python, Java, JavaScript and Rust, each with what a reviewer is to be told.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from pytest_grovescale.analysis.metrics.snapshot import surface_of
from pytest_grovescale.checks.metrics.lint import LintRules, lint, read
from pytest_grovescale.recording.scraping.target import Redaction

from .surfaces import DATA

NOW_S = 1_764_800_000.0


def cases(file: str) -> dict[str, list[str]]:
    """Return the lines of each case in a file, by its name."""
    text = (DATA / "lint" / file).read_text(encoding="utf-8")
    return {case.partition("\n")[0]: case.splitlines()[1:] for case in text.removeprefix("== ").split("\n== ")}


BEFOREHAND = cases("content_faults.diff")
CASES = BEFOREHAND | cases("reviewer_faults.diff") | cases("operator_faults.diff")
UNSEEN = {
    "53 the same figures under two names": "what is wanted and what is there are equal in every sound operator at rest",
    "own-duplicate": "attempts and successes are equal while nothing fails",
    "ms-in-seconds": "a step may take as long, and the reconcile is counted by another histogram",
    "mean-above-max": "most clients' largest value is the one of late, which may be below the mean",
}
"""Faults that are not reported, and why."""

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu")


def lines(case: str, sign: str) -> Iterator[str]:
    """Yield the lines of the endpoint with the fault (``-``) or of its twin (``+``)."""
    for line in CASES[case]:
        if line[0] in (" ", sign):
            counts = [int(count) for count in re.findall(r'"#(\d+)"', line)]
            for values in itertools.product(*(WORDS[:count] for count in counts)):
                text = line[2:]
                for count, value in zip(counts, values, strict=True):
                    text = text.replace(f'"#{count}"', f'"{value}"', 1)
                yield text


def faults(case: str, sign: str) -> list[str]:
    """Return the rules that an endpoint breaks."""
    body = "\n".join([*lines(case, sign), ""])
    strict = "# EOF" in body
    exposition, wrong = read(body.encode(), "application/openmetrics-text" if strict else "text/plain")
    # As the command does: credentials do not leave the reader.
    surface = surface_of(Redaction()(exposition), target="t")
    return [problem.rule for problem in lint(surface, LintRules(), syntax=wrong, now_s=NOW_S).problems]


@pytest.mark.parametrize("case", CASES)
def test_the_fault_is_reported_and_its_sound_twin_is_not(case: str) -> None:
    assert bool(faults(case, "-")) == (case not in UNSEEN and case.partition(":")[0] not in UNSEEN)
    assert faults(case, "+") == []


def test_a_histogram_with_a_hundred_buckets_is_reported() -> None:
    buckets = "".join(f'a_move_seconds_bucket{{le="{bound}"}} {bound}\n' for bound in range(1, 101))
    rest = 'a_move_seconds_bucket{le="+Inf"} 100\na_move_seconds_sum 5000\na_move_seconds_count 100\n'
    text = f"# HELP a_move_seconds How long a move takes.\n# TYPE a_move_seconds histogram\n{buckets}{rest}"
    exposition, wrong = read(text.encode(), "text/plain")
    found = lint(surface_of(exposition, target="t"), LintRules(), syntax=wrong, now_s=NOW_S).problems
    assert [problem.rule for problem in found] == ["buckets"]


def test_there_are_so_many() -> None:
    assert len(BEFOREHAND) == 55
    assert set(UNSEEN) <= {*CASES, *(case.partition(":")[0] for case in CASES)}
