"""Metrics over time, few enough to plot: the number of series of each endpoint, and values of chosen families."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from ...exposition.families import LIBRARIES, MetricType, family_of, parse
from ..result import OPERATOR
from .history import MetricsHistory, TargetHistory
from .summary import series_by_family

MAX_LINES = 8
"""Of one chart; the rest of a family's series are summed in one more."""

MAX_SCRAPES = 120
"""That one chart shows."""

MAX_CURVES = 24
"""Of one recording."""

CHOSEN = {
    "workqueue_depth": "name",
    "controller_runtime_active_workers": "controller",
    "workqueue_unfinished_work_seconds": "name",
    "controller_runtime_reconcile_total": "controller",
    "controller_runtime_reconcile_errors_total": "controller",
    "workqueue_work_duration_seconds": "name",
    "rest_client_requests_total": "code",
    "apiserver_current_inflight_requests": "request_kind",
    "etcd_mvcc_db_total_size_in_bytes": "",
}
"""Families that show most of a working program, in the order in which they are offered, before its own ones; and the
label that each is split by."""

_COUNTS: dict[MetricType, str] = {"counter": "", "gauge": "", "histogram": "_count", "summary": "_count"}
"""Type → suffix of the series that can be plotted: of a histogram, the number of observations."""

Unit = Literal["series", "value", "per-second"]
"""``per-second``: growth of a counter, or of a histogram's count, between two scrapes."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chart."""

    name: str
    at_s: tuple[float, ...]
    """Seconds from the start of the recording; each value stands until the next."""
    values: tuple[float | None, ...]
    """None where it was not served."""


class Curves(msgspec.Struct, frozen=True, kw_only=True):
    """One chart."""

    name: str
    unit: Unit
    lines: tuple[Line, ...]


def curves_of(history: MetricsHistory, start: int) -> tuple[Curves, ...]:
    """Return the charts of a recording that began at ``start`` (ns): series of all endpoints first."""
    targets = sorted(
        (target for target in history.targets.values() if target.moments),
        key=lambda target: (target.target != OPERATOR, target.target),
    )
    if not targets:
        return ()
    curves = [_served(targets, start)]
    for target in targets:
        if len(curves) >= MAX_CURVES:
            break
        # Curves that never changed are least interesting: they come last.
        curves += sorted(_of_families(target, start), key=_stood_still)
    return tuple(curves[:MAX_CURVES])


def _stood_still(curves: Curves) -> bool:
    return all(len({value for value in line.values if value is not None}) <= 1 for line in curves.lines)


def _served(targets: Sequence[TargetHistory], start: int) -> Curves:
    lines = []
    for target in targets[: MAX_LINES + 1]:
        shown = _shown(len(target.moments))
        served = [sum(counts) for counts in zip(*series_by_family(target).values(), strict=True)]
        values = [float(served[scrape]) if served else 0.0 for scrape in shown]
        lines.append(Line(name=target.target, at_s=_times(target, shown, start), values=tuple(values)))
    return Curves(name="series", unit="series", lines=tuple(lines))


def _of_families(target: TargetHistory, start: int) -> Iterator[Curves]:
    by_family = _counting_series(target)
    chosen = [name for name in CHOSEN if name in by_family]
    if target.target == OPERATOR:
        chosen += sorted(name for name in by_family if name not in chosen and not name.startswith(LIBRARIES))
    of = "" if target.target == OPERATOR else f"{target.target}: "
    shown = _shown(len(target.moments))
    at_s = _times(target, shown, start)
    for family in chosen:
        grows = target.families[family].type != "gauge"
        weights = {text: target.changes(text) for text in by_family[family]}
        label, groups = grouped(weights, by=CHOSEN.get(family, ""))
        lines = [
            Line(name=name, at_s=at_s, values=tuple(_line(target, texts, shown, grows=grows)))
            for name, texts in groups.items()
        ]
        by = f", by {label}" if label else ""
        yield Curves(name=f"{of}{family}{by}", unit="per-second" if grows else "value", lines=tuple(lines))


def _counting_series(target: TargetHistory) -> dict[str, list[str]]:
    """Return family → those of its series whose values have a meaning on their own."""
    by_family: dict[str, list[str]] = defaultdict(list)
    for text in target.series:
        name = parse(text).name
        family = family_of(name, target.families)
        if family in target.families:
            suffix = _COUNTS.get(target.families[family].type)
            if suffix is not None and name == family + suffix:
                by_family[family].append(text)
    return by_family


def grouped(series: Mapping[str, int], *, by: str = "") -> tuple[str, dict[str, list[str]]]:
    """Return a label that distinguishes a family's series, and its values → series; no label: all in one line.

    ``by``, if it distinguishes them; else the label with most values that can still be plotted. Where every label has
    more, the one with fewest, whose values of least weight are summed. ``series``: each with its weight.
    """
    values: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    labels = {label for text in series for label in parse(text).labels}
    for text in series:
        for label in labels:
            values[label][parse(text).labels.get(label, "")].append(text)
    distinguishing = {label: len(by_value) for label, by_value in values.items() if len(by_value) > 1}
    if not distinguishing:
        return "", {"all": list(series)}
    label = min(
        distinguishing,
        key=lambda name: (name != by, distinguishing[name] > MAX_LINES, _fits(distinguishing[name]), name),
    )
    return label, _heaviest(values[label], series, label)


def _fits(values: int) -> int:
    return -values if values <= MAX_LINES else values


def _heaviest(groups: Mapping[str, list[str]], weights: Mapping[str, int], label: str) -> dict[str, list[str]]:
    ordered = sorted(groups, key=lambda value: (-sum(weights[text] for text in groups[value]), value))
    heaviest = {value or f"no {label}": groups[value] for value in sorted(ordered[:MAX_LINES])}
    if rest := [text for value in ordered[MAX_LINES:] for text in groups[value]]:
        heaviest[f"{len(ordered) - MAX_LINES} others"] = rest
    return heaviest


def _line(target: TargetHistory, series: Sequence[str], shown: Sequence[int], *, grows: bool) -> list[float | None]:
    """Return the sum of some series at some scrapes; of counters, their growth a second until the next."""
    of_each = [[_finite(target.value(text, scrape)) for scrape in shown] for text in series]
    if grows:
        of_each = [_growths(values) for values in of_each]
    sums = [_sum(values) for values in zip(*of_each, strict=True)]
    if grows:
        spans = [*((target.moments[b].at - target.moments[a].at) / 1e9 for a, b in pairwise(shown)), 0.0]
        sums = [None if value is None or not span else value / span for value, span in zip(sums, spans, strict=True)]
    return [None if value is None else float(f"{value:.6g}") for value in sums]


def _growths(values: Sequence[float | None]) -> list[float | None]:
    """Return a counter's growth from scrape to scrape; a new or reset one has grown by its whole value."""
    grown = (None if b is None else b - a if a is not None and b >= a else b for a, b in pairwise(values))
    return [*grown, None]


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _shown(scrapes: int) -> list[int]:
    """Return the scrapes of a chart: all, or the maximum at equal distances with the first and the last."""
    if scrapes <= MAX_SCRAPES:
        return list(range(scrapes))
    return sorted({round(index * (scrapes - 1) / (MAX_SCRAPES - 1)) for index in range(MAX_SCRAPES)})


def _times(target: TargetHistory, shown: Sequence[int], start: int) -> tuple[float, ...]:
    return tuple(round((target.moments[scrape].at - start) / 1e9, 3) for scrape in shown)
