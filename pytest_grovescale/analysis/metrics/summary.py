"""Summary of each endpoint in a run: number of series and families, and its scrape success; and metrics over
time, few enough to plot."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Literal

import msgspec

from ...exposition.families import LIBRARIES, MetricType, family_of, parse
from ..result import OPERATOR, FamilySummary, RetypedFamily, TargetSummary
from ..statistics.quantile import quantile
from .history import MetricsHistory, TargetHistory, TypeChange

MAX_OWN = 40
"""Own families that a summary lists for one target; it has the total number of them, too."""


_FIGURES = ("gauge", "counter", "unknown", "untyped")
"""Types of families whose series are single figures."""

MAX_RETYPED = 20
"""Changes of families' types that a summary lists for one target; it has the total number of them, too."""


def summaries(history: MetricsHistory) -> tuple[TargetSummary, ...]:
    """Return the summary of every target, the operator's first."""
    order = sorted(history.targets, key=lambda name: (name != OPERATOR, name))
    return tuple(summary(history.targets[name]) for name in order)


def summary(target: TargetHistory) -> TargetSummary:
    """Return the summary of one target: what it served, and its scrape success."""
    by_family = series_by_family(target)
    served = [sum(counts) for counts in zip(*by_family.values(), strict=True)] or [0] * len(target.moments)
    took = sorted(moment.took_ns for moment in target.moments)
    own = _own(target, by_family)
    return TargetSummary(
        target=target.target,
        scrapes=len(target.moments),
        failures=len(target.failures),
        failure=target.failures[-1][1] if target.failures else "",
        refused=tuple(target.refused),
        up_share=_up_share(target),
        series_first=served[0] if served else None,
        series_last=served[-1] if served else None,
        series_peak=max(served, default=None),
        families=sum(counts[-1] > 0 for counts in by_family.values()),
        own=tuple(own[:MAX_OWN]),
        own_families=len(own),
        retyped=tuple(retyped(target, change) for change in target.type_changes[:MAX_RETYPED]),
        type_changes=len(target.type_changes),
        took_p50_ms=quantile(took, 0.50) / 1e6 if took else None,
        took_p99_ms=quantile(took, 0.99) / 1e6 if took else None,
    )


def retyped(target: TargetHistory, change: TypeChange) -> RetypedFamily:
    """Return a change of type with its time in words."""
    return RetypedFamily(
        family=change.family, before=change.before, after=change.after, when=target.when(change.scrape)
    )


def series_by_family(target: TargetHistory) -> dict[str, list[int]]:
    """Return family → how many series it had at each scrape. A family without a TYPE line is its series' name."""
    changes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    family_of_name: dict[str, str] = {}
    for series in target.series:
        name = parse(series).name
        if name not in family_of_name:
            family_of_name[name] = family_of(name, target.families)
        for scrape, change in target.comings(series):
            changes[family_of_name[name]][scrape] += change
    scrapes = range(len(target.moments))
    return {
        family: list(accumulate(of_family.get(scrape, 0) for scrape in scrapes))
        for family, of_family in changes.items()
    }


def _own(target: TargetHistory, by_family: Mapping[str, list[int]]) -> list[FamilySummary]:
    """Return the families that no library defines, the one with most series first."""
    values = _values(target)
    own = [
        FamilySummary(
            family=family,
            type=target.families[family].type if family in target.families else "unknown",
            series_first=counts[0],
            series_last=counts[-1],
            series_peak=max(counts),
            **values.get(family, {}),
        )
        for family, counts in by_family.items()
        if not family.startswith(LIBRARIES)
    ]
    return sorted(own, key=lambda family: (-family.series_peak, family.family))


def _values(target: TargetHistory) -> dict[str, dict[str, float]]:
    """Return family → first, last and largest sum of its series, of own families whose series are single figures."""
    sums: dict[str, dict[int, float]] = defaultdict(dict)
    for series in target.series:
        name = parse(series).name
        family = family_of(name, target.families)
        described = target.families.get(family)
        if family.startswith(LIBRARIES) or (described is not None and described.type not in _FIGURES):
            continue
        for scrape, value in enumerate(target.values(series)):
            if value is not None and math.isfinite(value):
                sums[family][scrape] = sums[family].get(scrape, 0.0) + value
    return {
        family: {
            "value_first": served[min(served)],
            "value_last": served[max(served)],
            "value_max": max(served.values()),
        }
        for family, served in sums.items()
    }


def _up_share(target: TargetHistory) -> float:
    """Return the share of time that was up: from each scrape to the next, the result of the first of them.

    So a failure counts for as long as it lasted, however often the recording has it.
    """
    attempts = sorted(_attempts(target))
    if not attempts:
        return 0.0
    lasted = attempts[-1][0] - attempts[0][0]
    if not lasted:
        return float(attempts[-1][1])
    return sum(after - before for (before, up), (after, _) in pairwise(attempts) if up) / lasted


def _attempts(target: TargetHistory) -> Iterator[tuple[int, bool]]:
    yield from ((moment.at, True) for moment in target.moments)
    yield from ((at, False) for at, _ in target.failures)


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
