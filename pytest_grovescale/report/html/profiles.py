"""Profiles on a page: function tables as arrays, flame graphs, and links to the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from ...analysis.profiles.comparison import DifferenceRow, difference
from ...analysis.profiles.functions import is_framework
from ...analysis.profiles.selection import PhaseProfile
from ...analysis.profiles.stacks import Function
from ...analysis.result import FunctionRow, PhaseResult, ProfileResult
from .flames import Flame

MAX_FUNCTIONS = 500
"""Rows of a function table on a page; all kept rows are in result.json."""


class ProfilePair(msgspec.Struct, frozen=True, kw_only=True):
    """Profiles of the same process in the same phase of the two variants of a comparison."""

    before: PhaseProfile
    after: PhaseProfile
    before_folder: str = ""
    """The folder of its run as seen from the page, for links."""
    after_folder: str = ""
    flame: Flame | None = None
    """Their difference (`flames.difference_of`); None when one of them could not be read."""


def profile_data(
    phase: PhaseResult, profile: ProfileResult, flame: Flame | None, folder: str, whole: Sequence[FunctionRow] = ()
) -> dict[str, Any]:
    """Return the data of one profile on a page: its functions by self time, most first.

    ``folder``: the run's folder as seen from the page. ``whole``: all rows of its function table, where they are known;
    a result keeps those with most samples, which may lack functions with a high self time.
    """
    functions = sorted(whole or profile.functions, key=lambda row: (-row.self_samples, -row.samples))
    return {
        "phase": phase.name,
        "process": profile.process,
        "kind": profile.kind,
        "samples": profile.samples,
        "coverage": profile.coverage,
        "cpu_s": profile.cpu_s,
        "profiled_cpu_s": profile.profiled_cpu_s,
        "repeated": profile.repeated,
        "problem": profile.problem,
        "links": _links(profile, folder),
        "rows": len(functions),
        "functions": [_function(row) for row in functions[:MAX_FUNCTIONS]],
        "flame": flame,
    }


def _function(row: FunctionRow) -> list[str | float | bool | None]:
    """Return a row as an array: a page has thousands of them."""
    shares = (_short(row.share), _short(row.share_low), _short(row.share_high))
    return [row.function, row.module, row.self_samples, row.samples, *shares, _short(row.cpu_s), is_framework(row)]


def pair_data(pair: ProfilePair, names: tuple[str, str]) -> dict[str, Any]:
    """Return the data of two profiles on a page; ``names``: of the variants."""
    before, after = pair.before.profile, pair.after.profile
    found = difference(before, after)
    sides = list(zip(names, (before, after), strict=True))
    return {
        "phase": pair.after.phase,
        "process": after.process,
        "kind": after.kind,
        "samples": after.samples,
        "samples_before": before.samples,
        "costs": [_cost(name, profile) for name, profile in sides],
        "problem": "; ".join(f"{name}: {profile.problem}" for name, profile in sides if profile.problem),
        "links": _pair_links(pair, names),
        "rows": len(found.rows) if found is not None else 0,
        "unit": "cpu-seconds" if found is not None and found.scale == "cpu_s" else "share",
        "differences": [_difference(row) for row in found.rows[:MAX_FUNCTIONS]] if found is not None else [],
        "flame": pair.flame,
    }


def _cost(name: str, profile: ProfileResult) -> dict[str, Any]:
    """Return a process's CPU time in the pass without a profiler, and with it."""
    return {
        "name": name,
        "cpu_s": profile.cpu_s,
        "profiled_cpu_s": profile.profiled_cpu_s,
        "repeated": profile.repeated,
    }


def _difference(row: DifferenceRow) -> list[str | float | bool | None]:
    function = Function(name=row.function, module=row.module, full=row.function)
    figures = (_short(row.before), _short(row.after), _short(row.change))
    return [row.function, row.module, *figures, row.beyond_error, is_framework(function)]


def _pair_links(pair: ProfilePair, names: tuple[str, str]) -> list[dict[str, str]]:
    sides = zip(names, (pair.before, pair.after), (pair.before_folder, pair.after_folder), strict=True)
    return [
        {"text": f"{found['text']} ({name})", "href": found["href"]}
        for name, one, folder in sides
        for found in _links(one.profile, folder)
    ]


def _links(profile: ProfileResult, folder: str) -> list[dict[str, str]]:
    named = (("raw", profile.file), ("folded stacks", profile.folded), ("speedscope", profile.speedscope))
    return [{"text": text, "href": link(path, folder)} for text, path in named if path]


def link(path: str, folder: str = "") -> str:
    """Return a relative link to a file of a run's folder; any path gives a relative link."""
    return quote(f"{folder.rstrip('/') or '.'}/{path}", safe="/.")


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
