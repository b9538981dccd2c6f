"""What an operator serves with the test's tracking, next to what it serves without."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ...analysis.metrics.snapshot import Surface
from ...analysis.metrics.test_leakage import traces, untracked
from ...errors import NotMeasuredError
from ...exposition.families import family_of, parse
from ..check import MOST, Outcome
from ..run import Run
from .families import builtin
from .target import OwnFamiliesCheck

_COUNTED = ("le", "quantile")


class NoTestLeakage(OwnFamiliesCheck, tag="no_test_leakage", frozen=True, kw_only=True):
    """Whether the operator serves the same families and labels with the test's tracking and without it.

    And whether a run id, a namespace, a phase or a milestone of the test appears among them: a run id or namespace
    that is served fails by itself, since only the test makes these names. Declared by marker or in ``budgets.yaml``,
    it makes the run add a second, untracked pass after the test; see `scenario.untracked`. Families that differ between
    any two processes, as a start time, belong into ``ignore``.
    """

    def judge_target(self, run: Run) -> Outcome:
        metrics = run.metrics()
        tracked = self._judged(metrics.target(self.target).whole())
        ids, words = metrics.tracking.ids, metrics.tracking.words
        leaks = [f"{ids[trace.word]} {trace.word!r} stands in {trace.place}" for trace in traces(tracked, ids)]
        bare = metrics.targets.get(untracked(self.target))
        if bare is not None and bare.moments:
            without = self._judged(bare.whole())
            known = {trace.word for trace in traces(without, words)}
            leaks += [
                f"{words[trace.word]} {trace.word!r} stands in {trace.place}, and not without tracking"
                for trace in traces(tracked, words)
                if trace.word not in known
            ]
            leaks += _differences(tracked, without)
        elif not leaks:
            raise NotMeasuredError(
                f"{self.target} was not scraped without tracking",
                next_step="Declare no_test_leakage() by marker or in budgets.yaml, and the run makes a second pass for"
                " it; or call scale.run_without_tracking() at the end of the test.",
            )
        return Outcome(
            verdict="fail" if leaks else "pass",
            figure=len(leaks),
            bound=0,
            text=_text(leaks, len(tracked.by_family()), compared=bare is not None),
            evidence=tuple(leaks[:MOST]),
        )

    def _judged(self, surface: Surface) -> Surface:
        """Return a surface without the ignored families."""
        if not self.ignore:
            return surface
        families = {name: family for name, family in surface.families.items() if not self.ignored(name)}
        samples = {
            series: value
            for series, value in surface.samples.items()
            if not self.ignored(family_of(parse(series).name, surface.families))
        }
        return Surface(target=surface.target, families=families, samples=samples)


def _text(leaks: list[str], families: int, *, compared: bool) -> str:
    if leaks:
        more = f", and {len(leaks) - 1} more" if len(leaks) > 1 else ""
        return f"the tracking shows on /metrics: {leaks[0]}{more}" + ("" if compared else "; no pass without tracking")
    return f"{families} families with the same labels with tracking and without, and no name of the harness in them"


def _differences(tracked: Surface, without: Surface) -> Iterator[str]:
    """Yield families that only one pass has, and labels whose names or all of whose values differ.

    Some values may differ by the work alone: one pass met a conflict, and the other did not.
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
    by_family: dict[str, dict[str, set[str]]] = {}
    for family, series in surface.by_family().items():
        labels = by_family.setdefault(family, defaultdict(set))
        for one in series:
            for label, value in one.labels.items():
                labels[label].add(value)
    return by_family


def _lazy(family: str) -> bool:
    """Return whether a library serves a family only from its first use on, so that its absence proves nothing."""
    known = builtin(family)
    return known is not None and known.when in ("lazy", "opt-in")
