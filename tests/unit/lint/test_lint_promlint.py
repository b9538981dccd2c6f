"""What Prometheus' own linter finds, on real endpoints and on those with one fault each, is reported here too."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest

from pytest_grovescale.checks.metrics.families import served
from pytest_grovescale.checks.metrics.lint import LintRules, lint
from tests import goprogram

from .surfaces import DATA, HEAD, surface
from .test_lint_content_faults import BEFOREHAND, lines

RULES = {
    "no help text": {"help"},
    "use base unit": {"unit", "unit-abbreviation"},
    "abbreviated": {"unit-abbreviation"},
    '"_total"': {"counter-total", "reserved-suffix"},
    '"_(count|sum|bucket)"': {"reserved-suffix"},
    '"(le|quantile)" label': {"reserved-suffix"},
    "include type|should not (?:contain|include) .*(?:type|gauge|counter)": {"type-in-name"},
    "':'": {"reserved-character"},
    "camelCase": {"camel-case"},
    "duplicate|more than once": {"duplicate"},
    "timestamp": {"reserved-suffix"},
}
"""What its words say → the rules of which one says so here, or why it is worse than that."""


@pytest.fixture(scope="session")
def promlint(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Prometheus' linter, built from its Go module."""
    base = tmp_path_factory.getbasetemp()
    return goprogram.build(base if worker_id == "master" else base.parent, "promlint")


def found_by(promlint: Path, text: str) -> list[tuple[str, str]]:
    """Return (family, words) of all that it finds."""
    done = subprocess.run([promlint], input=text, capture_output=True, text=True, check=True)
    pairs = (line.partition("\t") for line in done.stdout.splitlines())
    return [(family, words) for family, _, words in pairs]


def missed(promlint: Path, text: str) -> list[tuple[str, str]]:
    """Return what it finds in families of the program's own, and the rules here do not."""
    here = surface(text)
    libraries = {family.name for family in served(here) if family.of_library}
    said = {(problem.family, problem.rule) for problem in lint(here, LintRules()).problems}
    return [
        (family, words)
        for family, words in found_by(promlint, text)
        if family not in libraries and not any((family, rule) in said for rule in _rules(words))
    ]


def _rules(words: str) -> set[str]:
    return next((rules for pattern, rules in RULES.items() if re.search(pattern, words)), set())


@pytest.mark.parametrize("endpoint", sorted(path.name for path in (DATA / "surfaces").glob("*.prom.gz")))
def test_all_that_it_finds_on_real_endpoints_is_reported(promlint: Path, endpoint: str) -> None:
    text = gzip.decompress((DATA / "surfaces" / endpoint).read_bytes()).decode()
    assert missed(promlint, text) == []


def test_all_that_it_finds_on_made_ones_is_reported(promlint: Path) -> None:
    made = ["\n".join([*lines(case, "-"), ""]) for case in BEFOREHAND]
    texts = [HEAD.read_text(encoding="utf-8"), *(text for text in made if "# EOF" not in text)]
    assert [missed(promlint, text) for text in texts] == [[] for _ in texts]
    assert sum(len(found_by(promlint, text)) for text in texts) > 10
