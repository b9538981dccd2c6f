"""What an operator serves with the harness' tracking, next to what it serves without."""

from __future__ import annotations

import fnmatch
from collections import defaultdict
from collections.abc import Iterator, Mapping

from ...analysis.metrics.history import MetricsHistory
from ...analysis.metrics.surface import Surface
from ...analysis.metrics.tracking import traces, untracked
from ...errors import NotMeasuredError
from ...exposition.series import family_of, parse
from ..finding import Finding
from .catalogue import builtin
from .shape import Coexistence

_SHOWN = 10
_COUNTED = ("le", "quantile")


def judge(check: Coexistence, metrics: MetricsHistory) -> Finding:
    """Judge families, labels and names of the harness, both passes held against each other.

    A run id or namespace that is served fails by itself: nobody else has made these names. Raises NotMeasuredError
    without the pass that has no tracking.
    """
    tracked = _without(metrics.target(check.target).whole(), check.ignore)
    ids, words = metrics.tracking.ids, metrics.tracking.words
    found = [f"{ids[trace.word]} {trace.word!r} stands in {trace.place}" for trace in traces(tracked, ids)]
    bare = metrics.targets.get(untracked(check.target))
    if bare is not None and bare.moments:
        without = _without(bare.whole(), check.ignore)
        known = {trace.word for trace in traces(without, words)}
        found += [
            f"{words[trace.word]} {trace.word!r} stands in {trace.place}, and not without tracking"
            for trace in traces(tracked, words)
            if trace.word not in known
        ]
        found += _differences(tracked, without)
    elif not found:
        raise NotMeasuredError(
            f"{check.target} was not scraped without tracking",
            next_step="Declare coexistence() by marker or in budgets.yaml, and the run makes a second pass for it; or"
            " call scale.untracked() at the end of the test.",
        )
    families = len(tracked.by_family())
    return Finding(
        phase="",
        verdict="fail" if found else "pass",
        figure=len(found),
        bound=0,
        unit="",
        text=_text(found, families, compared=bare is not None),
        evidence=tuple(found[:_SHOWN]),
    )


def _text(found: list[str], families: int, *, compared: bool) -> str:
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        return f"the tracking shows on /metrics: {found[0]}{more}" + ("" if compared else "; no pass without tracking")
    return f"{families} families with the same labels with tracking and without, and no name of the harness in them"


def _without(surface: Surface, ignore: list[str]) -> Surface:
    """Return a surface without some families."""
    if not ignore:
        return surface
    left_out = {name for name in surface.by_family() if any(fnmatch.fnmatchcase(name, pattern) for pattern in ignore)}
    kept = {name: family for name, family in surface.families.items() if name not in left_out}
    samples = {
        text: value
        for text, value in surface.samples.items()
        if family_of(parse(text).name, surface.families) not in left_out
    }
    return Surface(target=surface.target, families=kept, samples=samples)


def _differences(tracked: Surface, without: Surface) -> Iterator[str]:
    """Yield families that only one pass has, and labels whose names or all of whose values differ.

    That some values differ is the work's doing: one pass met a conflict, and the other did not.
    """
    here, there = _labels(tracked), _labels(without)
    for family in sorted(here.keys() ^ there.keys()):
        if not _lazy(family):
            yield f"{family} is served only {'with' if family in here else 'without'} tracking"
    for family in sorted(here.keys() & there.keys()):
        ours, theirs = here[family], there[family]
        for label in sorted(ours.keys() ^ theirs.keys()):
            yield f"{family} has the label {label!r} only {'with' if label in ours else 'without'} tracking"
        for label in sorted((ours.keys() & theirs.keys()) - set(_COUNTED)):
            if not ours[label] & theirs[label]:
                seen, other = min(ours[label]), min(theirs[label])
                yield f"{family}: {label} is {seen!r} with tracking and {other!r} without"


def _labels(surface: Surface) -> Mapping[str, Mapping[str, set[str]]]:
    """Return family → label → its values."""
    found: dict[str, dict[str, set[str]]] = {}
    for family, series in surface.by_family().items():
        of_family = found.setdefault(family, defaultdict(set))
        for one in series:
            for label, value in one.labels.items():
                of_family[label].add(value)
    return found


def _lazy(family: str) -> bool:
    """Return whether a library serves a family only from its first use on: then its absence tells nothing."""
    known = builtin(family)
    return known is not None and known.when in ("lazy", "opt-in")
