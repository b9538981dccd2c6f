"""The files of a comparison or sweep, and the exit code that a CI job is decided by."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ..analysis.bisection import Bisection
from ..analysis.comparability import InForce
from ..analysis.comparison import Comparison, ComparisonVerdict, overall
from ..analysis.profiles.comparison import ProfilesCompared
from ..analysis.result import CheckResult
from ..analysis.scaling import Sweep
from ..errors import ExitCode
from ..report import comparison_table, document, scaling_table
from ..report.html import files as pages
from ..report.html.page import Background
from .store import named_errors, write_json
from .target_test import Subject
from .variant import Variant

SCHEMA_VERSION = 1

COMPARISON = "comparison"
SWEEP = "sweep"

FailOn = Literal["regression", "inconclusive", "never"]


class ComparisonFile(msgspec.Struct, frozen=True, kw_only=True):
    """``comparison.json``: what was compared, and the result of each part."""

    schema_version: int = SCHEMA_VERSION
    verdict: ComparisonVerdict
    """The worst verdict of its parts."""
    subject: Subject | None = None
    """The test that was run; None for a comparison of recordings."""
    arms: dict[str, Variant] = {}
    """``a`` and ``b``; empty for a comparison of recordings."""
    parts: tuple[Comparison, ...]
    """No-op windows and deploy and delete runs, as requested."""
    profiles: ProfilesCompared = ProfilesCompared()
    """Functions of both variants, phase by phase, and the reasons for missing profiles."""
    in_force: InForce = InForce()
    """Parameters, limits and facts of the runs."""


class SweepFile(msgspec.Struct, frozen=True, kw_only=True):
    """``sweep.json``: all runs, a fit for each metric, and the checks of the sweep."""

    schema_version: int = SCHEMA_VERSION
    subject: Subject
    sweep: Sweep
    checks: tuple[CheckResult, ...] = ()


def page_of(folder: Path) -> Path:
    """Return the path of a comparison's page."""
    return folder / f"{COMPARISON}.html"


def write_comparison(folder: Path, found: ComparisonFile, background: Background) -> list[Path]:
    """Write a comparison as JSON, Markdown and HTML, and return the files. Raises RecordingError, PageError."""
    text = document.markdown(comparison_table.blocks(found.parts, found.profiles, found.in_force))
    written = _write(folder, COMPARISON, found, text)
    return [*written, pages.write_comparison(folder, found.parts, background, to=page_of(folder))]


def write_sweep(folder: Path, found: SweepFile) -> list[Path]:
    """Write a sweep as JSON, Markdown and HTML, and return the files. Raises RecordingError, PageError."""
    written = _write(folder, SWEEP, found, document.markdown(scaling_table.blocks(found.sweep, found.checks)))
    return [*written, pages.write_sweep(folder, found.sweep, found.checks, to=folder / f"{SWEEP}.html")]


def write_bisection(folder: Path, found: Bisection) -> Path:
    """Write a bisection as JSON, and return the file. Raises RecordingError."""
    file = folder / "bisection.json"
    write_json(file, found)
    return file


def _write(folder: Path, name: str, content: msgspec.Struct, markdown: str) -> list[Path]:
    json, text = folder / f"{name}.json", folder / f"{name}.md"
    write_json(json, content)
    with named_errors(text):
        text.write_text(markdown, encoding="utf-8")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(markdown)
    return [json, text]


def exit_code(parts: Sequence[Comparison], fail_on: FailOn) -> ExitCode:
    """Return the exit code for CI: a broken variant counts like a regression."""
    verdict = overall(parts)
    if verdict in ("regression", "broken") and fail_on != "never":
        return ExitCode.FAILED
    if verdict == "inconclusive" and fail_on == "inconclusive":
        return ExitCode.INCONCLUSIVE
    return ExitCode.PASSED
