"""Profiles as a page holds them: function tables, flame graphs, links to the files.

The tree is written as three columns in depth-first order (depth, function, weight), since a nested one would be as
deep as the deepest recursion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from ...analysis.phase_result import FunctionRow, PhaseResult, ProfileResult
from ...analysis.profiles.comparison import DifferenceRow, difference
from ...analysis.profiles.functions import is_framework
from ...analysis.profiles.phase_profiles import PhaseProfile
from ...analysis.profiles.stacks import Function, Stack, Stacks

MIN_SHARE = 0.001
"""Calls with a smaller share of a profile are summed as `OTHER`, next to their siblings."""

MAX_FRAMES = 3000
"""Of one graph: `MIN_SHARE` is doubled until it has no more."""

MAX_DEPTH = 400
"""Frames above this depth are part of their caller."""

OTHER = "(other)"
ROOT = "(all)"

Unit = Literal["samples", "bytes", "goroutines", "cpu-seconds", "share"]


class Flame(msgspec.Struct, frozen=True, kw_only=True):
    """A pruned tree of calls. All of its columns are equally long; the first row is the root."""

    unit: Unit
    names: tuple[str, ...]
    """Of the functions that `frames` points to; the last two are `OTHER` and `ROOT`."""
    depths: tuple[int, ...]
    frames: tuple[int, ...]
    values: tuple[float, ...]
    """Weight of each call and all it calls."""
    before: tuple[float, ...] = ()
    """The same of the profile that it is compared with; empty for a single one."""
    framework: tuple[int, ...] = ()
    """Which of `names` are of the standard library or of libraries (`functions.is_framework`)."""
    min_share: float = MIN_SHARE
    """Calls with a smaller share are in `OTHER`."""
    pruned: int = 0
    """Number of those calls."""


class _Weighed(NamedTuple):
    """Stacks in lexical order, so that stacks with the same outer frames are adjacent; with running sums."""

    stacks: list[Stack]
    after: list[float]
    before: list[float]
    functions: Sequence[Function]

    def weight(self, low: int, high: int) -> tuple[float, float]:
        # Rounded, since a difference of sums of shares is rarely exactly zero.
        return round(self.after[high] - self.after[low], 12), round(self.before[high] - self.before[low], 12)


def flame_of(stacks: Stacks) -> Flame | None:
    """Return a profile's flame graph; None for a profile without samples."""
    if not stacks.total:
        return None
    counts = {stack: (float(weight), 0.0) for stack, weight in stacks.counts.items()}
    # The weight beyond the kept stacks is part of the whole, and has no frame.
    counts[()] = (float(stacks.rest), 0.0)
    return _pruned(_weighed(counts, stacks.functions), stacks.unit, differs=False)


def difference_of(
    before: Stacks, after: Stacks, *, before_cpu_s: float | None = None, after_cpu_s: float | None = None
) -> Flame | None:
    """Return the flame graph of two profiles, each call with its weight in both; None when one has no samples.

    Weights are CPU seconds where those of both profiles are known, else shares: a profile that was taken for longer
    has more samples of everything, which is no difference.
    """
    if not before.total or not after.total:
        return None
    index: dict[Function, int] = {}
    unit: Unit = "cpu-seconds"
    if before_cpu_s is None or after_cpu_s is None:
        before_cpu_s, after_cpu_s, unit = 1.0, 1.0, "share"
    new, old = _scaled(after, after_cpu_s, index), _scaled(before, before_cpu_s, index)
    counts = {stack: (new.get(stack, 0.0), old.get(stack, 0.0)) for stack in new | old}
    return _pruned(_weighed(counts, tuple(index)), unit, differs=True)


def _scaled(stacks: Stacks, whole: float, index: dict[Function, int]) -> dict[Stack, float]:
    """Return the weights of a profile as parts of ``whole``; its functions are renumbered by ``index``."""
    numbers = [index.setdefault(function, len(index)) for function in stacks.functions]
    found = {
        tuple([numbers[function] for function in stack]): weight * whole / stacks.total
        for stack, weight in stacks.counts.items()
    }
    found[()] = found.get((), 0.0) + stacks.rest * whole / stacks.total
    return found


def _weighed(counts: Mapping[Stack, tuple[float, float]], functions: Sequence[Function]) -> _Weighed:
    """Put stacks in order. Their weights are (after, before)."""
    stacks = sorted(counts)
    return _Weighed(
        stacks,
        list(accumulate((counts[stack][0] for stack in stacks), initial=0.0)),
        list(accumulate((counts[stack][1] for stack in stacks), initial=0.0)),
        functions,
    )


def _pruned(weighed: _Weighed, unit: Unit, *, differs: bool) -> Flame:
    share = MIN_SHARE
    while len(rows := list(_rows(weighed, share))) > MAX_FRAMES:
        share *= 2
    used = sorted({row.function for row in rows if row.function >= 0})
    place = {function: number for number, function in enumerate(used)}
    place[_OTHER], place[_ROOT] = len(used), len(used) + 1
    return Flame(
        unit=unit,
        names=(*(weighed.functions[function].name for function in used), OTHER, ROOT),
        framework=tuple(at for at, function in enumerate(used) if is_framework(weighed.functions[function])),
        depths=tuple(row.depth for row in rows),
        frames=tuple(place[row.function] for row in rows),
        values=tuple(_short_frame(row.after) for row in rows),
        before=tuple(_short_frame(row.before) for row in rows) if differs else (),
        min_share=share,
        pruned=sum(row.pruned for row in rows),
    )


def _short_frame(value: float) -> float:
    """Return a weight with as many digits as a page can show; whole numbers unchanged."""
    return int(value) if value.is_integer() else float(f"{value:.5g}")


_OTHER, _ROOT = -1, -2


class _Row(NamedTuple):
    depth: int
    function: int
    after: float
    before: float
    pruned: int = 0


class _Group(NamedTuple):
    """Stacks low … high that are the same up to a depth: one call, and all its callees."""

    low: int
    high: int
    depth: int
    function: int
    weight: tuple[float, float]
    """After, before."""


def _rows(weighed: _Weighed, share: float) -> Iterator[_Row]:
    """Yield the calls that have at least a share of either profile, depth first, the largest first."""
    whole = weighed.weight(0, len(weighed.stacks))
    least = (share * whole[0], share * whole[1])
    open_: list[_Group | _Row] = [_Group(0, len(weighed.stacks), 0, _ROOT, whole)]
    while open_:
        item = open_.pop()
        if isinstance(item, _Row):
            yield item
            continue
        yield _Row(item.depth, item.function, *item.weight)
        calls = list(_calls(weighed, item)) if item.depth < MAX_DEPTH else []
        if small := [call for call in calls if not _large(call.weight, least)]:
            open_.append(_together(small))
        large = [call for call in calls if _large(call.weight, least)]
        large.sort(key=lambda call: sum(call.weight))
        open_ += large


def _large(weight: tuple[float, float], least: tuple[float, float]) -> bool:
    return any(part >= bound and part > 0 for part, bound in zip(weight, least, strict=True))


def _together(small: Sequence[_Group]) -> _Row:
    after = sum(group.weight[0] for group in small)
    before = sum(group.weight[1] for group in small)
    return _Row(small[0].depth, _OTHER, after, before, pruned=len(small))


def _calls(weighed: _Weighed, caller: _Group) -> Iterator[_Group]:
    """Yield the direct callees of a call. Stacks that end with the call itself come first."""
    depth = caller.depth
    low = bisect_right(weighed.stacks, depth, caller.low, caller.high, key=lambda stack: min(len(stack), depth + 1))
    while low < caller.high:
        function = weighed.stacks[low][depth]
        high = bisect_right(weighed.stacks, function, low, caller.high, key=lambda stack: stack[depth])
        yield _Group(low, high, depth + 1, function, weighed.weight(low, high))
        low = high


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
