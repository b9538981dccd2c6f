"""Families that say what a built-in one says: by their values over a run, by those of one scrape, or by their names.

What counts began at 0 when its process started: that makes one scrape the second of two, which is enough where the
counts are large. Gauges need a run, unless they have the same five digits. A name misleads in both ways, so it counts
only where values cannot be compared or agree, and it proves enough: the built-in must be there to be used instead, and
the family have no label that it lacks; one of another name has the values of one of its labels.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ...analysis.metrics.counters import PROCESS_START
from ...analysis.metrics.duplicates import verdicts
from ...analysis.metrics.history import MetricsHistory, TargetHistory
from ...analysis.metrics.selectors import selector
from ...analysis.metrics.snapshot import Surface
from ...analysis.result import OPERATOR, FamilyVerdict, TargetSummary, TestResult
from ...errors import NotMeasuredError
from ...exposition.families import LIBRARIES, MetricType, Series, text
from ...recording.records import Scraped
from ..check import MOST, Outcome
from ..run import Run
from .families import Problem, Served, builtin, builtins, written
from .labels import UNBOUNDED
from .target import OwnFamiliesCheck

MOST_SERIES = 5_000
"""Series of a family whose values are compared; one with more has other faults."""

_ALIKE = 0.25
"""Relative difference up to which two values of one response may be the same quantity, read a moment apart."""

_ONE_START_S = 3.0
"""Two times of a start that lie so close are one, also where one is an age."""

_WORK = ("controller_runtime_", "workqueue_", "rest_client_")


_DIGITS = 5
"""Of a value that two gauges share by no coincidence."""

_SET = re.compile(r"(?<![^_])(?:max|limit|capacity|committed|quota|timestamp|time)(?![^_])")
"""Words of gauges that are set to a round number or to a time, which many may be."""


class _Saying(NamedTuple):
    """What names say that mean a built-in."""

    pattern: re.Pattern[str]
    """Of the whole name, behind any prefix."""
    types: tuple[MetricType, ...]
    builtin: str
    select: str = ""
    """Labels that choose the part of the built-in that is meant."""
    labelled: bool = False
    """Whether such a name says too little alone, and must have values of the built-in's labels."""


def _saying(pattern: str, types: str, name: str, select: str = "", *, labelled: bool = False) -> _Saying:
    kinds: dict[str, MetricType] = {"c": "counter", "g": "gauge", "h": "histogram", "s": "summary"}
    return _Saying(re.compile(f"(?:.*_)?(?:{pattern})"), tuple(kinds[kind] for kind in types), name, select, labelled)


_RECONCILE = r"reconcil(?:e|es|ed|er|iation|iations|ing)"
_IN_FLIGHT = r"in_?flight|active|busy|running|concurrent|current|ongoing"
_LENGTH = r"duration|time|latency|seconds"

_WAITING = r"pending|queued|waiting|enqueued|in_queue|backlogged"
_ITEMS = rf"items|keys|objects|requests|{_RECONCILE}|work"

_HEAP = r"heap_(?:used|usage|in_?use|alloc(?:ated)?)|used_heap|heap(?:_memory)?_used"

_UPTIME = "uptime_seconds"

_KUBE = re.compile(
    r"kube_(?:pod|node|deployment|statefulset|daemonset|replicaset|job|cronjob|service|ingress|networkpolicy|configmap"
    r"|secret|namespace|persistentvolume(?:claim)?|horizontalpodautoscaler|endpoint(?:slice)?|lease|customresource)_"
)
"""How names of kube-state-metrics begin; those of Kubernetes' components begin otherwise: ``kube_apiserver_``."""

_RESTATES = re.compile(
    r"(?:^|_)(?P<kind>deployment|statefulset|daemonset|replicaset)_(?:(?:spec|status)_)?"
    r"(?:replicas(?:_(?:ready|available|updated|current|desired|unavailable))?"
    r"|(?:ready|available|updated|desired|current)_replicas|observed_generation)$"
)
"""Names of what kube-state-metrics serves: https://github.com/kubernetes/kube-state-metrics/tree/main/docs/metrics."""

_SAYINGS = (
    _saying(
        rf"{_RECONCILE}(?:_(?:loop|process|processing))?_(?:{_LENGTH})(?:_seconds)?(?:_total)?",
        "hs",
        "controller_runtime_reconcile_time_seconds",
    ),
    _saying(rf"{_RECONCILE}_(?:errors?|failures?|failed)_total", "c", "controller_runtime_reconcile_errors_total"),
    _saying(rf"failed_{_RECONCILE}_total", "c", "controller_runtime_reconcile_errors_total"),
    _saying(rf"{_RECONCILE}_panics?_total", "c", "controller_runtime_reconcile_panics_total"),
    _saying(rf"{_RECONCILE}_timeouts?_total", "c", "controller_runtime_reconcile_timeouts_total"),
    _saying(
        rf"(?:{_RECONCILE}_)?(?:requeues?|requeued)_total",
        "c",
        "controller_runtime_reconcile_total",
        '{result=~"requeue.*"}',
    ),
    _saying(
        rf"{_RECONCILE}(?:_(?:count|runs|loops|calls|starts?|started|ends?|ended))?_total",
        "c",
        "controller_runtime_reconcile_total",
    ),
    _saying(
        rf"{_RECONCILE}(?:_workers)?_(?:{_IN_FLIGHT})|(?:{_IN_FLIGHT})_(?:{_RECONCILE}|reconcilers|workers)",
        "g",
        "controller_runtime_active_workers",
    ),
    _saying(
        r"max_concurrent_reconciles|workers?_(?:max|limit|total)", "g", "controller_runtime_max_concurrent_reconciles"
    ),
    _saying(r"(?:work_?)?queue_(?:depth|length|size)", "g", "workqueue_depth"),
    _saying(
        rf"(?:webhook|admission)(?:_requests?)?_(?:{_LENGTH})(?:_seconds)?",
        "hs",
        "controller_runtime_webhook_latency_seconds",
    ),
    _saying(r"(?:webhook|admission)_requests_total", "c", "controller_runtime_webhook_requests_total"),
    _saying(
        rf"(?:{_WAITING})_(?:{_ITEMS})|(?:{_ITEMS})_(?:{_WAITING})|queue_(?:items|keys|backlog)|backlog",
        "g",
        "workqueue_depth",
        labelled=True,
    ),
    _saying(r"(?:work_?)?queue_adds?_total", "c", "workqueue_adds_total"),
    _saying(r"(?:(?:work_?)?queue|items?)_retries_total", "c", "workqueue_retries_total"),
    _saying(r"retries_total|requeues_total|requeued_total", "c", "workqueue_retries_total", labelled=True),
    _saying(r"adds_total|added_total|enqueued_total", "c", "workqueue_adds_total", labelled=True),
    _saying(rf"(?:work_?)?queue_(?:wait_)?(?:{_LENGTH})(?:_seconds)?", "hs", "workqueue_queue_duration_seconds"),
    _saying(
        r"(?:kube_?|k8s_|kubernetes_|api_?server_|rest_)(?:api_|client_)?(?:requests|calls)_total",
        "c",
        "rest_client_requests_total",
    ),
    _saying(r"is_leader|leader|leader_election_status", "g", "leader_election_master_status"),
    _saying(r"goroutines?(?:_(?:count|number|running|current))?", "g", "go_goroutines"),
    _saying(r"cpu(?:_usage|_used|_time|_consumed)*_seconds_total", "c", "process_cpu_seconds_total"),
    _saying(
        r"(?:resident_memory|resident_set(?:_size)?|rss|memory(?:_usage|_used|_rss)?|used_memory)_bytes",
        "g",
        "process_resident_memory_bytes",
    ),
    _saying(r"(?:virtual_memory|vsize|vms)_bytes", "g", "process_virtual_memory_bytes"),
    _saying(rf"(?:{_HEAP})(?:_bytes)?", "g", "jvm_memory_used_bytes", '{area="heap"}'),
    _saying(rf"(?:{_HEAP})(?:_bytes)?", "g", "go_memstats_heap_alloc_bytes"),
    _saying(
        r"(?:gc|garbage_collect(?:ion|or))_(?:runs|collections|cycles)_total|garbage_collections_total",
        "c",
        "python_gc_collections_total",
    ),
    _saying(r"threads?(?:_(?:count|number|current|running))?|threads_live", "g", "jvm_threads_live_threads"),
    _saying(rf"(?:process_)?{_UPTIME}(?:_total)?", "gc", PROCESS_START),
    _saying(
        r"open_(?:fds|files|(?:file_)?(?:descriptors|handles))|(?:fds|file_(?:descriptors|handles))_open",
        "g",
        "process_open_fds",
    ),
    _saying(r"(?:process_)?(?:start(?:ed)?|boot)(?:_time|_timestamp)*_seconds", "g", PROCESS_START),
)
"""The first that holds counts."""

_NO_REFINEMENT = frozenset({"instance", "job", "service", "component", *UNBOUNDED})
"""Labels that add nothing: who serves, which the scraper adds anyway, and those that are unbounded."""


class NoBuiltinDuplicates(OwnFamiliesCheck, tag="no_builtin_duplicates", frozen=True, kw_only=True):
    """Whether a family of the operator's own says what a built-in one says already, or takes its name.

    Values over the run decide, whatever the names; see `analysis.metrics.duplicates`. A family that adds up to a
    built-in one over labels of its own is allowed, and named. One that duplicates another of the operator's own is
    named as well, and fails nothing: that they are the same is only likely.
    """

    one_scrape = "since_start"

    def judge_target(self, run: Run) -> Outcome:
        target = run.metrics().target(self.target)
        families = [verdict for verdict in verdicts(target, builtins()) if not self.ignored(verdict.family)]
        refused = [verdict for verdict in families if verdict.refused]
        if not refused:
            _refuse_unmoved(target)
        order = ("collision", "duplicate", "refinement", "unmoved")
        # Of the novel ones the number is enough.
        listed = sorted((one for one in families if one.kind in order), key=lambda one: order.index(one.kind))
        return Outcome(
            verdict="fail" if refused else "pass",
            figure=len(refused),
            bound=0,
            text=_text(families, refused),
            evidence=tuple(_line(verdict) for verdict in listed[:MOST]),
        )


def with_verdicts(test: TestResult, metrics: Callable[[], MetricsHistory]) -> TestResult:
    """Return a test's result with the verdict of each family of the operator's own, whatever checks the test has."""
    return msgspec.structs.replace(test, metrics=tuple(_with_verdicts(target, metrics) for target in test.metrics))


def since_start(
    target: str, families: Iterable[Served], samples: Mapping[str, float], *, phase: str = ""
) -> TargetHistory:
    """Return a scrape as the second of two: at the first, its process had just started, and all counts were 0.

    ``phase``: the name of a phase that it is the end of; empty: of none.
    """
    compared = [family for family in families if len(family.series) <= MOST_SERIES]
    described = {family.name: family.family for family in compared}
    start = {written(one): 0.0 for family in compared for one in family.series if _counts(family, one)}
    now = {text: samples[text] for family in compared for one in family.series if (text := written(one)) in samples}
    history = TargetHistory(target)
    history.feed(Scraped(at=0, target=target, samples=start, families=described), "")
    history.feed(Scraped(at=1, target=target, edge=f"end:{phase}" if phase else "", samples=now), phase)
    return history


def problems(
    surface: Surface, every: list[Served], own: list[Served], *, now_s: float | None = None
) -> Iterator[Problem]:
    """Yield the families that have a built-in's name, its values in one scrape, or a name that promises them.

    ``every``: the families of the endpoint; ``own``: those that no library brought. ``now_s``: when it was served, s
    since the epoch; None where this is not known.
    """
    judged: set[str] = set()
    for verdict in verdicts(since_start(surface.target, every, surface.samples), builtins()):
        if verdict.kind in ("collision", "duplicate", "refinement"):
            judged.add(verdict.family)
        if verdict.kind == "collision":
            yield Problem(family=verdict.family, rule="builtin-collision", says=verdict.why, fix="give it another name")
        elif verdict.kind == "duplicate":
            yield Problem(
                family=verdict.family,
                rule="builtin-duplicate",
                says=f"since the start it has counted what {verdict.other} counts",
                fix=f"take it away, and read {verdict.query}",
            )
    named = [
        *_by_name(
            (family for family in own if family.name not in judged),
            {family.name: family for family in every},
            surface.samples,
            now_s,
        )
    ]
    yield from named
    judged.update(problem.family for problem in named)
    yield from _of_kube_state_metrics(family for family in own if family.name not in judged)
    yield from _by_digits([family for family in own if family.name not in judged], every, surface.samples)


def _of_kube_state_metrics(own: Iterable[Served]) -> Iterator[Problem]:
    """Yield names that begin as its own, and gauges of what specs and statuses of Kubernetes' own workloads say."""
    own = list(own)
    theirs = [family for family in own if _KUBE.match(family.name)]
    for family in theirs if 2 * len(theirs) < len(own) else ():
        says = "names that begin so are those of kube-state-metrics, which another target serves"
        fix = "begin its name with the operator's, as its others do"
        yield Problem(family=family.name, rule="builtin-collision", says=says, fix=fix)
    for family in own:
        match = _RESTATES.search(family.name) if not family.name.startswith("kube_") else None
        if match is not None and family.family.type == "gauge" and {match["kind"], "name"} & family.labels().keys():
            says = f"it says of each {match['kind']} what kube-state-metrics says of all, from the same fields"
            fix = f"take it away, and read kube_{match['kind']}_…: an operator serves what only it knows"
            example = written(family.series[0])
            yield Problem(family=family.name, rule="builtin-duplicate", says=says, series=example, fix=fix)


def _with_verdicts(target: TargetSummary, metrics: Callable[[], MetricsHistory]) -> TargetSummary:
    # Of several pods each is a target: operator/<pod>.
    if target.target.partition("/")[0] != OPERATOR or not target.scrapes:
        return target
    return msgspec.structs.replace(target, verdicts=tuple(verdicts(metrics().target(target.target), builtins())))


def _refuse_unmoved(target: TargetHistory) -> None:
    """Raise NotMeasuredError for a history without changes, in which no duplicate shows."""
    if not target.moments:
        raise NotMeasuredError(f"{target.target} was never scraped")
    built_in = [series for series in target.series if series.startswith(LIBRARIES)]
    # Those of Go and of the process always change, even of an operator without work.
    work = [series for series in built_in if series.startswith(_WORK)]
    if not any(target.changes(series) > 1 for series in work or built_in):
        raise NotMeasuredError(
            f"no built-in metric of reconciles, queues or requests changed between {len(target.moments)} scrapes:"
            " duplicates are found by what changes",
            next_step="Let the operator work between two scrapes.",
        )


def _text(families: list[FamilyVerdict], refused: list[FamilyVerdict]) -> str:
    if refused:
        names = ", ".join(f"{verdict.family} ({verdict.kind} of {verdict.other})" for verdict in refused[:3])
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        return f"{len(refused)} of {len(families)} own families say what a built-in one says: {names}{more}"
    kinds = Counter(verdict.kind for verdict in families)
    parts = [f"{kinds[kind]} {kind}" for kind in ("novel", "refinement") if kinds[kind]]
    if kinds["duplicate"]:
        parts.append(f"{kinds['duplicate']} duplicate of another own one")
    if kinds["unmoved"]:
        parts.append(f"{kinds['unmoved']} not comparable, since they never changed")
    return f"no own family says what a built-in one says: {', '.join(parts) or 'there is none'}"


def _line(verdict: FamilyVerdict) -> str:
    match verdict.kind:
        case "collision":
            return f"{verdict.family}: {verdict.why}; give it another name"
        case "duplicate":
            other = f"the same as {verdict.other}, its own too: " if verdict.of_own else ""
            return f"{verdict.family}: {other}{verdict.why}; leave it out and ask for {verdict.query}"
        case "refinement":
            return f"{verdict.family} refines {verdict.other}: {verdict.why}, it is {verdict.query}"
        case _:
            return f"{verdict.family}: {verdict.why}"


def _counts(family: Served, series: Series) -> bool:
    """Return whether a series began at 0; a summary's quantiles did not."""
    return family.family.type in ("counter", "histogram", "summary") and "quantile" not in series.labels


def _by_name(
    families: Iterable[Served], names: Mapping[str, Served], samples: Mapping[str, float], now_s: float | None
) -> Iterator[Problem]:
    """Yield families whose names promise what a built-in says; ``names``: all families of the endpoint by name."""
    origins = {known.origin for name in names if (known := builtin(name)) is not None}
    for family in families:
        if family.builtin is None and (duplicate := _duplicate(family, names, origins, samples, now_s)) is not None:
            yield duplicate


def _by_digits(own: Iterable[Served], every: Iterable[Served], samples: Mapping[str, float]) -> Iterator[Problem]:
    """Yield gauges whose values are, to the last digit, those of a library's gauge: of its series or their sums."""
    gauges = [
        family
        for family in every
        if family.of_library and family.family.type == "gauge" and not _SET.search(family.name)
    ]
    theirs: dict[float, tuple[str, str]] = {}
    for family in gauges:
        for query, value in _slices(family, samples):
            if _is_telling(value):
                theirs.setdefault(value, (family.name, query))
    for family in own:
        if family.family.type not in ("gauge", "unknown") or _SET.search(family.name) or not family.series:
            continue
        values = [samples.get(written(one), math.nan) for one in family.series]
        found = {theirs[value] for value in values if value in theirs}
        if len(found) == len(values) and len({name for name, _ in found}) == 1:
            ((name, query), *_) = sorted(found)
            says = f"its value is that of {name}, to the last digit"
            fix = f"take it away, and read {query if len(found) == 1 else name}"
            yield Problem(family=family.name, rule="builtin-duplicate", says=says, fix=fix)


def _slices(family: Served, samples: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield queries of a family with their values: of all its series, and of those with one value of a label."""
    if len(family.series) == 1:
        yield written(family.series[0]), samples.get(written(family.series[0]), math.nan)
        return
    values: dict[str, list[float]] = defaultdict(list)
    for one in family.series:
        value = samples.get(written(one), math.nan)
        for query in (family.name, *(text(family.name, {label: of}) for label, of in one.labels.items())):
            values[query].append(value)
    for query, some in values.items():
        yield f"sum({query})" if len(some) > 1 else query, math.fsum(some)


def _is_telling(value: float) -> bool:
    """Return whether a value has so many digits that two numbers are no more than this by coincidence."""
    if not math.isfinite(value) or value <= 0 or math.frexp(value)[0] == 0.5:
        return False  # a power of two among them
    return len(f"{value:.17g}".partition("e")[0].replace(".", "").strip("0")) >= _DIGITS


def _may_agree(
    family: Served, known: Served | None, select: str, samples: Mapping[str, float], now_s: float | None
) -> bool:
    """Return whether two families of one response may say the same; so do two that cannot be compared."""
    if known is None or not known.series or {family.family.type, known.family.type} & {"histogram", "summary"}:
        return True
    chosen = selector(f"{known.name}{select}")
    here = math.fsum(samples.get(written(one), 0.0) for one in family.series)
    there = math.fsum(samples.get(written(one), 0.0) for one in known.series if chosen.fits(one))
    if known.name == PROCESS_START:
        if _UPTIME in family.name:
            if now_s is None:
                return True
            here = now_s - here
        return math.isclose(here, there, rel_tol=0.0, abs_tol=_ONE_START_S)
    return math.isclose(here, there, rel_tol=_ALIKE, abs_tol=1.0)


def _duplicate(
    family: Served,
    names: Mapping[str, Served],
    origins: Collection[str],
    samples: Mapping[str, float],
    now_s: float | None,
) -> Problem | None:
    for saying in _SAYINGS:
        if not saying.pattern.fullmatch(family.name) or family.family.type not in (*saying.types, "unknown"):
            continue
        known, there = builtins().get(saying.builtin), names.get(saying.builtin)
        # A lazy family is absent until its first use; others of its library show that it is built in.
        if there is None and (known is None or known.origin not in origins or known.when == "always"):
            continue
        aliases = _aliases(family, there)
        theirs = {*(known.labels if known is not None else ()), *(there.labels() if there is not None else ())}
        if not family.series or not set(family.labels()) - aliases.keys() <= {*theirs, *_NO_REFINEMENT}:
            continue
        if saying.labelled and not (there and _agree_by_label(family, there, aliases, samples)):
            continue
        if not _may_agree(family, there, saying.select, samples, now_s):
            continue
        return Problem(
            family=family.name,
            rule="builtin-duplicate",
            says=f"its name promises what {saying.builtin}{saying.select} says already",
            fix=f"take it away, and read {saying.builtin}{saying.select}",
        )
    return None


def _aliases(family: Served, known: Served | None) -> dict[str, str]:
    """Return label → the built-in's label that has its values, under another name. Numbers are too common to tell."""
    theirs = known.labels() if known is not None else {}
    return {
        label: other
        for label, values in family.labels().items()
        for other, said in theirs.items()
        if values.keys() <= said.keys() and not all(value.isdigit() or not value for value in values)
    }


def _agree_by_label(family: Served, known: Served, aliases: Mapping[str, str], samples: Mapping[str, float]) -> bool:
    """Return whether each series is the sum of the built-in's with its value of a label, and one is not 0."""
    for label, other in aliases.items():
        sums: defaultdict[str, float] = defaultdict(float)
        for of, name, sign in ((family, label, 1), (known, other, -1)):
            for one in of.series:
                sums[one.labels.get(name, "")] += sign * samples.get(written(one), math.nan)
        apart = [sums[value] for value in family.labels()[label]]
        if not any(apart) and any(samples.get(written(one)) for one in family.series):
            return True
    return False
