"""Real endpoints that nobody here wrote, as they answered: what the rules say of them, and why it is kept.

``tests/data/surfaces/<component>.prom.gz`` are the answers of Kubernetes' own components, and of Prometheus and its
exporter for machines, in text 0.0.4;
``reasons.yaml`` there says of each kind of fault why it is one.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import textwrap
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from pytest_grovescale.analysis.metrics.snapshot import Surface, surface_of
from pytest_grovescale.checks.metrics import lint as syntax
from pytest_grovescale.checks.metrics.families import Problem
from pytest_grovescale.checks.metrics.lint import Lint, LintRules, lint
from pytest_grovescale.report.lint import Found, summary

FOLDER = Path(__file__).parents[2] / "data" / "surfaces"
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "node-exporter",
    "prometheus",
)
TEXT = "text/plain; version=0.0.4"

_WIDTH = 120
_EXAMPLES = 3


class Reason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a kind of fault is one."""

    rule: str
    families: list[str]
    """Names, or patterns with ``*``."""
    because: str

    def covers(self, problem: Problem) -> bool:
        return problem.rule == self.rule and any(fnmatchcase(problem.family, name) for name in self.families)


def reasons() -> dict[str, list[Reason]]:
    """Return component → reasons."""
    plain = (FOLDER / "reasons.yaml").read_bytes()
    return msgspec.yaml.decode(plain, type=dict[str, list[Reason]])


@functools.cache
def surface(component: str) -> tuple[Surface, list[Problem]]:
    """Return what a component served, and lines of it that are wrong."""
    body = gzip.decompress((FOLDER / f"{component}.prom.gz").read_bytes())
    exposition, faults = syntax.read(body, TEXT)
    return surface_of(exposition, target=component), faults


@functools.cache
def linted(component: str) -> Lint:
    """Return what all rules say of a component."""
    served, faults = surface(component)
    return lint(served, LintRules(), syntax=faults)


def heading() -> str:
    """Return what the reasons' file says of them all, as text."""
    lines = (FOLDER / "reasons.yaml").read_text(encoding="utf-8").splitlines()
    comment = [line.lstrip("# ") for line in itertools.takewhile(lambda line: line.startswith("#"), lines)]
    return "\n\n".join(textwrap.fill(paragraph, _WIDTH) for paragraph in "\n".join(comment).split("\n\n"))


def reported(component: str) -> Iterator[str]:
    """Yield what the rules say of a component in lines, faults of one kind together, with the reason."""
    found = linted(component)
    yield summary(Found(lint=found))
    for reason in reasons()[component]:
        problems = [problem for problem in found.problems if reason.covers(problem)]
        yield f"\n  {reason.rule} × {len(problems)}"
        yield textwrap.fill(reason.because, _WIDTH, initial_indent="    ", subsequent_indent="    ")
        for problem in problems[:_EXAMPLES]:
            yield _cut(f"    - {problem.family}: {problem.says}{f', as in {problem.series}' if problem.series else ''}")
        if len(problems) > _EXAMPLES:
            yield f"    - and {len(problems) - _EXAMPLES} more"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2]} …"
