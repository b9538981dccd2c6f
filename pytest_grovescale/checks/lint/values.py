"""Families whose values are those of a built-in one, told by a single scrape.

What counts began at 0 when its process started: that makes two moments of one, which is enough where the counts are
large. Gauges need a run: see `no_builtin_duplicates()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...analysis.metrics.duplicates import verdicts
from ...analysis.metrics.history import TargetHistory
from ...analysis.result import FamilyVerdict
from ...exposition.series import Series
from ...recording.records import Scraped
from ..metrics.catalogue import builtins
from .problem import Problem
from .served import Served, written

MOST_SERIES = 5_000
"""Of a family that is compared; one of more has other faults."""


def verdicts_of(target: str, families: Iterable[Served], samples: Mapping[str, float]) -> list[FamilyVerdict]:
    """Return what each family of an endpoint's own is next to the built-in ones."""
    return verdicts(since_start(target, families, samples), builtins())


def since_start(
    target: str, families: Iterable[Served], samples: Mapping[str, float], *, phase: str = ""
) -> TargetHistory:
    """Return a scrape as the second of two: at the first, its process had just started, and all counts were 0.

    ``phase``: the name of a phase that it is the end of; empty: of none.
    """
    compared = [served for served in families if len(served.series) <= MOST_SERIES]
    described = {served.name: served.family for served in compared}
    start = {written(one): 0.0 for served in compared for one in served.series if _counts(served, one)}
    now = {text: samples[text] for served in compared for one in served.series if (text := written(one)) in samples}
    history = TargetHistory(target)
    history.feed(Scraped(at=0, target=target, samples=start, families=described), "")
    history.feed(Scraped(at=1, target=target, edge=f"end:{phase}" if phase else "", samples=now), phase)
    return history


def problems(found: list[FamilyVerdict]) -> Iterator[Problem]:
    """Yield the families that have a built-in's name, and those that have its values."""
    for verdict in found:
        if verdict.kind == "collision":
            yield Problem(family=verdict.family, rule="builtin-collision", says=verdict.why, fix="give it another name")
        elif verdict.kind == "duplicate":
            yield Problem(
                family=verdict.family,
                rule="builtin-duplicate",
                says=f"since the start it has counted what {verdict.other} counts",
                fix=f"take it away, and read {verdict.query}",
            )


def _counts(served: Served, series: Series) -> bool:
    """Return whether a series began at 0; a summary's quantiles did not."""
    return served.family.type in ("counter", "histogram", "summary") and "quantile" not in series.labels
