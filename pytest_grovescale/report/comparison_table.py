"""A comparison in words and as tables. The first line is the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..analysis.baseline import Baseline, BaselineRow
from ..analysis.comparability import ARMS, InForce
from ..analysis.comparison_plan import ComparisonPlan, ComparisonVerdict, is_silent, one_sided, overall
from ..analysis.profiles.comparison import ProfilesCompared
from ..analysis.run_metrics import COUNTS, Unit, describe
from .document import Answer, Block, Column, Gap, Heading, Item, Line, Table, Tone, cell
from .format import NONE, bytes_, fact_values, figure, percent, three
from .function_table import differences, not_profiled

if TYPE_CHECKING:
    from ..analysis.comparison import Comparison, MetricComparison, MetricVerdict

_NAMED = 3
"""Metrics that the summary names: the most significant."""

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Wall clock", ("wall", "milestone")),
    ("CPU and memory of the operator", ("cpu", "rss")),
    ("No-op reconciles", ("noop_cpu", "noop_cpu_per_reconcile", "noop_writes", "noop_requests", "noop_reconciles")),
    ("While idle", ("idle_cpu", "idle_requests", "idle_reconciles")),
    ("Requests and reconciles", ("api", "client_requests", "verb", "events", "writes", "reconciles", "series")),
)
"""Heading of each table, and the kinds of metrics in it."""

_VERDICTS: dict[MetricVerdict, str] = {
    "regression": "slower",
    "improvement": "better",
    "ok": "ok",
    "inconclusive": "can't tell",
    "not-measured": "not measured",
}


_MORE: dict[MetricVerdict, str] = {"regression": "more", "improvement": "less"}
_COUNTED: dict[MetricVerdict, str] = {"regression": "more", "improvement": "fewer"}
"""The same for sizes and counts, which are more or fewer, not slower."""


class Row(NamedTuple):
    what: str
    a: str
    b: str
    change: str
    interval: str
    verdict: str
    metric: MetricComparison


def rows(comparisons: Sequence[Comparison], kinds: Iterable[str]) -> list[Row]:
    """Return the rows of some kinds of metrics. Of a metric in several comparisons, the gated one, or the first.

    A metric that is not gated and 0 in both has no row: it decides nothing, and there are dozens.
    """
    found: dict[str, MetricComparison] = {}
    for comparison in comparisons:
        for metric in comparison.metrics:
            if metric.key not in found or (metric.gated and not found[metric.key].gated):
                found[metric.key] = metric
    wanted = list(kinds)
    chosen = [metric for metric in found.values() if _kind(metric.key) in wanted and not _always_zero(metric)]
    return [_row(metric) for metric in sorted(chosen, key=lambda m: (_phase_order(m.key), wanted.index(_kind(m.key))))]


def _always_zero(metric: MetricComparison) -> bool:
    return not metric.gated and metric.a == metric.b == metric.difference == 0


class Section(NamedTuple):
    """Rows of one table, which share an axis."""

    heading: str
    rows: list[Row]
    gated: bool


def sections(comparisons: Sequence[Comparison]) -> list[Section]:
    """Return the tables with the deciding one first: the gated metrics of all kinds, then the others by `SECTIONS`."""
    kinds = [(heading, rows(comparisons, kinds)) for heading, kinds in SECTIONS]
    gated = [row for _, found in kinds for row in found if row.metric.gated]
    found = [Section("Gated metrics", gated, gated=True)]
    found += [Section(heading, [row for row in all_ if not row.metric.gated], gated=False) for heading, all_ in kinds]
    return [section for section in found if section.rows]


def work_alone(comparisons: Sequence[Comparison]) -> Iterator[Block]:
    """Yield both variants' counts in pairs beside those of their runs that had the machine to themselves, if any."""
    found = {(row.key, row.arm): row for comparison in comparisons for row in comparison.alone}
    if not found:
        return
    rows_ = []
    for key in sorted(dict.fromkeys(key for key, _ in found), key=lambda key: (_phase_order(key), key)):
        cells = []
        each = ""
        for arm in ARMS:
            row = found.get((key, arm))
            figures = (None, None, None) if row is None else (row.parallel, row.alone, row.ratio)
            cells += [cell(figure, words) for figure, words in zip(figures, (three, three, ratio), strict=True)]
            each = " for each object" if row is not None and row.objects else each
        rows_.append([f"{describe(key)}{each}", *cells])
    a, b = _names(comparisons)
    yield Heading("Requests and reconciles in parallel and alone")
    headings = (a, "alone", "Δ", b, "alone", "Δ")
    yield Table([Column("metric", wraps=True), *(Column(heading, figures=True) for heading in headings)], rows_)


def _kind(key: str) -> str:
    return key.partition(":")[0]


def _phase_order(key: str) -> tuple[int, str]:
    """Order phases as they usually run, so that the first one is at the top."""
    phase = key.partition(":")[2].partition("/")[0]
    known = ("deploy", "steady-state", "delete")
    return (known.index(phase) if phase in known else len(known), phase)


def _row(metric: MetricComparison) -> Row:
    return Row(
        what=describe(metric.key),
        a=figure(metric.a, metric.unit),
        b=figure(metric.b, metric.unit),
        change=change(metric),
        interval=interval(metric),
        verdict=verdict(metric),
        metric=metric,
    )


def change(metric: MetricComparison) -> str:
    """Return B's difference from A: ``−24 %``, ``× 12.3``, ``+ 500``; the latter where A's figure is 0."""
    if metric.ratio is not None:
        return ratio(metric.ratio)
    return NONE if metric.difference is None else _signed(metric.difference, metric.unit)


def ratio(of: float) -> str:
    """Return a ratio as a change: ``−24.1 %``; from three times on as a multiple."""
    if of == 1:
        return "0 %"
    if of >= 3:
        return f"× {three(of)}"
    return f"{(of - 1) * 100:+.1f} %".replace("-", "−")


def _signed(by: float, unit: Unit) -> str:
    sign = "−" if by < 0 else "+"
    return f"{sign} {figure(abs(by), unit)}"


def interval(metric: MetricComparison) -> str:
    """Return the interval of the change, the one that its verdict is made from."""
    if metric.exact:
        return "always so"
    if metric.low is not None and metric.high is not None:
        return f"{ratio(metric.low)} to {ratio(metric.high)}"
    if metric.difference_low is not None and metric.difference_high is not None:
        return f"{_signed(metric.difference_low, metric.unit)} to {_signed(metric.difference_high, metric.unit)}"
    return NONE


def verdict(metric: MetricComparison) -> str:
    """Return a metric's verdict in a word or two; in brackets where it is not gated."""
    words = {} if metric.unit == "s" else _COUNTED if metric.unit in COUNTS else _MORE
    text = words.get(metric.verdict, _VERDICTS[metric.verdict])
    if metric.verdict == "inconclusive" and metric.gated and metric.more_pairs:
        text += f", {metric.more_pairs} more pair{'s' if metric.more_pairs > 1 else ''}"
    return text if metric.gated else f"({text})"


def legend(plan: ComparisonPlan) -> str:
    """Return the legend of the rows."""
    return (
        f"Slower, more: the whole interval lies above {ratio(plan.regression)}; better, fewer, less: below"
        f" {ratio(1 / plan.regression)};"
        f" ok: it ends below {ratio(plan.ok)}. Each interval is the one that decided: {percent(1 - plan.alpha)} over"
        " all analyses, adjusted over the gated metrics (Holm), but for an upper end that decides ok: all must be ok,"
        f" so that end is not adjusted ({percent(1 - 2 * one_sided(plan)[1])}). Verdicts in brackets decide"
        " nothing. Figures are medians of the pairs, Δ is the geometric mean of B / A"
        f" ({plan.b} / {plan.a}); less is better."
    )


def contention_limits(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the rule for contended pairs, and their number, in one line; empty for plans without the rule."""
    planned = [one for one in comparisons if one.plan.max_contention is not None and one.plan.repeats]
    if not planned:
        return []
    plan = planned[0].plan
    found = [pair for one in planned for pair in one.contention]
    again = sum(pair.discarded for pair in found)
    stay = sum(pair.contended and not pair.discarded for pair in found)
    counted = f"{again} discarded, {stay} contended pairs kept" if again or stay else "none was contended"
    return [
        f"a pair is discarded and made again when programs outside the comparison and steal take more than"
        f" {percent(plan.max_contention or 0.0)} of the cores, at most"
        f" {' + '.join(str(one.plan.repeats) for one in planned)} times: {counted}"
    ]


def answer(comparisons: Sequence[Comparison]) -> str:
    """Return the summary in one line."""
    found, plan = overall(comparisons), comparisons[0].plan
    slower, better = _comparatives(comparisons, found)
    texts: dict[ComparisonVerdict, str] = {
        "broken": _broken(comparisons),
        "regression": f"{plan.b} {slower} than {plan.a}: {_named(comparisons, 'regression')}",
        "improvement": f"No regression: {plan.b} {better} than {plan.a}: {_named(comparisons, 'improvement')}",
        "ok": f"No regression: {plan.b} is not slower than {plan.a}{_bounded(comparisons)}",
        "inconclusive": f"Can't tell whether {plan.b} is slower than {plan.a}: {_undecided(comparisons)}",
    }
    return texts[found] + _open_guards(comparisons, found) + _worse_ungated(comparisons, found)


def _open_guards(comparisons: Sequence[Comparison], found: ComparisonVerdict) -> str:
    """Return the guards that are not known to be ok, beside a verdict that they do not hold up; empty without any."""
    guards = [metric for one in comparisons for metric in one.metrics if metric.gated and is_silent(one.plan, metric)]
    if found not in ("ok", "improvement") or not guards:
        return ""
    named = "; ".join(f"{describe(metric.key)} {change(metric)} ({interval(metric)})" for metric in guards[:_NAMED])
    more = f", and {len(guards) - _NAMED} more" if len(guards) > _NAMED else ""
    return f". Can't tell for {named}{more}"


def _worse_ungated(comparisons: Sequence[Comparison], found: ComparisonVerdict) -> str:
    """Return which metrics outside of the gate are worse, in words; empty without any.

    Empty also where the gate has answered already: the others then mostly follow from it.
    """
    worse = [
        metric
        for comparison in comparisons
        for metric in comparison.metrics
        if not metric.gated and metric.verdict == "regression"
    ]
    if found in ("broken", "regression") or not worse:
        return ""
    # Counts first: a difference of them is no matter of the machine.
    worse.sort(key=lambda metric: metric.unit not in COUNTS)
    named = "; ".join(f"{describe(metric.key)} {change(metric)}" for metric in worse[:_NAMED])
    more = f", and {len(worse) - _NAMED} more" if len(worse) > _NAMED else ""
    return f". Worse, but not gated: {named}{more}"


def _comparatives(comparisons: Sequence[Comparison], found: ComparisonVerdict) -> tuple[str, str]:
    """Return the words for B being worse and better than A: counts and sizes are not slow."""
    units = {metric.unit for metric in _gated(comparisons) if metric.verdict == found}
    if units and "s" not in units:
        return "needs more", "needs less"
    return "is slower", "is better"


def _gated(comparisons: Sequence[Comparison]) -> list[MetricComparison]:
    return [metric for comparison in comparisons for metric in comparison.metrics if metric.gated]


def _named(comparisons: Sequence[Comparison], verdict: MetricVerdict) -> str:
    found = [metric for metric in _gated(comparisons) if metric.verdict == verdict]
    texts = [f"{describe(metric.key)} {change(metric)}" for metric in found[:_NAMED]]
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return "; ".join(texts) + more


def _bounded(comparisons: Sequence[Comparison]) -> str:
    gated = _gated(comparisons)
    metrics = "1 gated metric" if len(gated) == 1 else f"{len(gated)} gated metrics"
    return f" ({metrics}, each less than {ratio(comparisons[0].plan.ok)})"


def _undecided(comparisons: Sequence[Comparison]) -> str:
    open_ = [
        metric
        for one in comparisons
        for metric in one.metrics
        if metric.gated and metric.verdict in ("inconclusive", "not-measured") and not is_silent(one.plan, metric)
    ]
    texts = [
        f"{describe(metric.key)} "
        + ("was not measured" if metric.verdict == "not-measured" else f"{change(metric)} ({interval(metric)})")
        for metric in open_[:_NAMED]
    ]
    more = max((metric.more_pairs or 0 for metric in open_), default=0)
    if more:
        texts.append(f"{more} more pair{'s' if more > 1 else ''} would most likely tell{_again(comparisons)}")
    return "; ".join(texts)


def _again(comparisons: Sequence[Comparison]) -> str:
    """Return the option that adds pairs to an inconclusive comparison; empty for finished runs."""
    if any(comparison.weaker for comparison in comparisons):
        return ""
    pairs = max(
        comparison.pairs + (metric.more_pairs or 0)
        for comparison in comparisons
        for metric in comparison.metrics
        if metric.gated and metric.verdict == "inconclusive"
    )
    return f": --pairs {pairs}"


def _broken(comparisons: Sequence[Comparison]) -> str:
    texts = dict.fromkeys(
        f"{broken.name} is broken ({broken.runs} of {comparison.pairs} runs): {broken.why}"
        for comparison in comparisons
        for broken in comparison.broken
    )
    return "; ".join(texts) + ". A broken operator is not a fast one: nothing is said about speed"


_ANSWER: dict[ComparisonVerdict, Tone] = {
    "regression": "bad",
    "broken": "bad",
    "inconclusive": "doubt",
    "ok": "good",
    "improvement": "good",
}
_ROW: dict[MetricVerdict, Tone] = {
    "regression": "bad",
    "improvement": "good",
    "inconclusive": "doubt",
    "not-measured": "doubt",
    "ok": "",
}
_NO_PROFILES = ProfilesCompared()
_NO_SETTINGS = InForce()


def blocks(
    comparisons: Sequence[Comparison], profiles: ProfilesCompared = _NO_PROFILES, settings: InForce = _NO_SETTINGS
) -> Iterator[Block]:
    """Yield the report of one comparison, or of its parts (no-op, deploy and delete) together.

    ``settings``: those that the runs had.
    """
    yield Answer(answer(comparisons), _ANSWER[overall(comparisons)])
    for fact in _facts(comparisons):
        yield Line(fact, "quiet")
    for heading, kinds in SECTIONS:
        found = rows(comparisons, kinds)
        if found:
            yield Heading(heading)
            yield Table(_columns(comparisons), [row[:6] for row in found], [_tone(row) for row in found])
    yield from work_alone(comparisons)
    yield from differences(profiles.functions, _names(comparisons))
    if remarks := list(_remarks(comparisons, profiles)):
        yield Gap()
        for remark in remarks:
            yield Item(remark, "doubt")
    if listed := list(_settings(comparisons, settings)):
        yield Heading("Settings")
        for line in listed:
            yield Item(line)
    yield Gap()
    yield Line(legend(comparisons[0].plan), "quiet")


def _names(comparisons: Sequence[Comparison]) -> tuple[str, str]:
    return comparisons[0].plan.a, comparisons[0].plan.b


def _columns(comparisons: Sequence[Comparison]) -> list[Column]:
    return [
        Column("metric", wraps=True),
        *(Column(name, figures=True) for name in _names(comparisons)),
        Column("Δ", figures=True),
        Column("interval", figures=True),
        Column("verdict", verdict=True),
    ]


def _settings(comparisons: Sequence[Comparison], settings: InForce) -> Iterator[str]:
    """Yield the settings that both variants share, and those in which they differ, a line each."""
    plan = comparisons[0].plan
    for name, (a, b) in settings.differing.items():
        yield f"{_by_verdict(name)}: {plan.a} {fact_values(a) or 'none'}, {plan.b} {fact_values(b) or 'none'}"
    if shared := [
        f"{_by_verdict(name)} {text}" for name, found in settings.shared.items() if (text := fact_values(found))
    ]:
        yield f"the same in both: {', '.join(shared)}"


def _by_verdict(setting: str) -> str:
    return setting.replace("_", " ")


def _tone(row: Row) -> Tone:
    return _ROW[row.metric.verdict] if row.metric.gated else ""


def _facts(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the facts of the comparison and its machine, a line each."""
    plan, machine = comparisons[0].plan, comparisons[0].machine
    if plan.differs:
        yield f"A: {plan.a}, B: {plan.b} ({plan.differs})"
    for comparison in comparisons:
        gated = ", ".join(comparison.plan.gated)
        look = _analysed(comparison)
        warmup = f", the first {comparison.plan.warmup} for warm-up" if comparison.plan.warmup else ""
        pairs = f"{comparison.pairs} of {comparison.plan.pairs} pairs{warmup}"
        how = ", parallel" if comparison.plan.parallel else ""
        yield f"{pairs}{how}, {look}; gated: {gated}"
    yield from contention_limits(comparisons)
    if machine is not None:
        yield (
            f"{machine.cores} × {machine.cpu}, {bytes_(machine.memory_bytes)}, Linux {machine.kernel},"
            f" Python {machine.python}"
        )
    facts = {name: text for comparison in comparisons for name, text in comparison.facts.items()}
    if facts:
        yield ", ".join(f"{name} {text}" for name, text in facts.items())


def _analysed(comparison: Comparison) -> str:
    """Return after how many pairs the verdict was made, and whether that was before the last one."""
    if comparison.look is None and not comparison.stopped:
        return "before the first analysis"
    if comparison.stopped:
        return comparison.stopped
    if comparison.look == comparison.plan.pairs:
        return f"analysed after {comparison.look} pairs"
    return f"stopped early at the planned interim analysis after {comparison.look} pairs"


def _remarks(comparisons: Sequence[Comparison], profiles: ProfilesCompared) -> Iterator[str]:
    """Yield caveats of the figures, each once."""
    for comparison in comparisons:
        if comparison.weaker:
            yield f"Weaker than interleaved runs: {comparison.weaker}"
    yield from dict.fromkeys(warning for comparison in comparisons for warning in comparison.warnings)
    yield from map(not_profiled, profiles.missing)
    notes: dict[str, list[str]] = {}
    for _, kinds in SECTIONS:
        for row in rows(comparisons, kinds):
            if row.metric.note:
                notes.setdefault(row.metric.note, []).append(row.what)
    for note, metrics in notes.items():
        yield f"{', '.join(metrics)}: {note}"


SINGLE = "One run each: no interval, so small differences mean nothing. `grovescale compare` separates them from noise."


def baseline_blocks(
    baseline: Baseline, found: Sequence[BaselineRow], *, same_machine: bool, other_backend: str = ""
) -> Iterator[Block]:
    """Yield the table of one test. ``other_backend``: the baseline's, where it is not the test's."""
    yield Answer(f"Compared with baseline {baseline.name} of {baseline.saved}, run {baseline.run}")
    if not same_machine:
        machine = baseline.machine
        yield Line(
            f"It is from another machine ({machine.cores} × {machine.cpu}): only counts and ratios compare.", "doubt"
        )
    if other_backend:
        yield Line(f"It is of a cluster of backend {other_backend}: only counts and ratios compare.", "doubt")
    columns = [Column("metric", wraps=True), Column("before", True), Column("now", True), Column("Δ", True)]
    yield Table(columns, [_cells(row) for row in found])
    yield Line(SINGLE, "quiet")


def _cells(row: BaselineRow) -> list[str]:
    change = f"{100 * (row.now / row.before - 1):+.1f} %" if row.before else ("0 %" if row.now == 0 else NONE)
    return [row.what, figure(row.before, row.unit), figure(row.now, row.unit), change]
