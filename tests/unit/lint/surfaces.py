"""Surfaces in tests: from a text, as an endpoint would serve it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_grovescale.analysis.metrics.snapshot import Surface, surface_of
from pytest_grovescale.checks.metrics.families import Problem
from pytest_grovescale.checks.metrics.lint import LintRules, lint
from pytest_grovescale.exposition.reader import Reader

DATA = Path(__file__).parents[2] / "data"
BAD = DATA / "lint" / "bad.prom"
HEAD = DATA / "exposition" / "controller_runtime_head.prom"
HEAD_PROTOBUF = DATA / "exposition" / "controller_runtime_head.pb"


def surface(text: str) -> Surface:
    return surface_of(Reader().read(text.encode(), "text/plain"), target="t")


def family(name: str, kind: str, *series: str, help: str = "What it is.") -> str:
    """Return one family's text; ``series`` are its labels in braces, or whole names where they begin otherwise."""
    lines = [f"{name}{one} 1" if one.startswith("{") else f"{one or name} 1" for one in series or ("",)]
    described = [f"# HELP {name} {help}"] if help else []
    return "\n".join([*described, f"# TYPE {name} {kind}", *lines, ""])


def problems(*texts: str, wanted: LintRules | None = None) -> list[Problem]:
    return list(lint(surface("".join(texts)), wanted or LintRules()).problems)


def rules(*texts: str, wanted: LintRules | None = None) -> list[str]:
    return [problem.rule for problem in problems(*texts, wanted=wanted)]


def fixes(found: Sequence[Problem]) -> list[str]:
    return [problem.fix for problem in found]
