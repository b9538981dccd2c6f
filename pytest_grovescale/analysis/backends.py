"""The same test on several backends, side by side: what must be the same everywhere, and what may differ.

How many objects an operator creates and deletes, and how many scheduling gates it removes, follows from the workload
alone: these figures are equal exactly, or one of the runs did other work. Times, CPU and the rest of the traffic depend
on the cluster and are reported as measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from ..errors import UsageError
from .comparability import RUNS_AS, backend_of
from .phase_result import ApiRow, CpuResult, MilestoneResult, PhaseResult
from .result import NO_OPERATOR, OPERATOR, TestResult

SCHEMA_VERSION = 1

BackendsVerdict = Literal["equal", "unequal", "undetermined"]
"""``equal``: all counts that must be equal are, in all runs that measured them, two at least; ``undetermined``: fewer
than two runs measured them."""

_OTHERS = ("update", "patch", "get", "list", "watch")
"""Verbs of requests whose number may differ: retries, and updates that are coalesced."""

_FLOOR = "Floor"

Unit = Literal["s", "bytes", "requests", "reconciles", "times"]


class BackendRun(msgspec.Struct, frozen=True, kw_only=True):
    """One of the runs: a column."""

    name: str
    """Backend, with ``(pod)`` where the operator ran in a pod: ``kind (pod)``."""
    run: str
    started: str
    fingerprint: str
    """Of the machine that the harness ran on."""
    audited: bool
    """Whether all phases were read in the API server's audit log."""


class BackendsTable(msgspec.Struct, frozen=True, kw_only=True):
    """One test on several backends."""

    schema_version: int = SCHEMA_VERSION
    test: str
    runs: tuple[BackendRun, ...]
    rows: tuple[BackendRow, ...]
    verdict: BackendsVerdict
    warnings: tuple[str, ...] = ()
    """Differences between the runs beyond their backends."""

    @property
    def differing(self) -> tuple[BackendRow, ...]:
        """The rows that must be equal and are not."""
        return tuple(row for row in self.rows if row.differs)

    @property
    def silent(self) -> tuple[str, ...]:
        """Names of the runs without the counts that must be equal."""
        exact = [row for row in self.rows if row.exact]
        return tuple(
            run.name
            for index, run in enumerate(self.runs)
            if not exact or any(row.figures[index].value is None for row in exact)
        )


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one run."""

    value: float | None
    """None where it was not measured; `note` says why."""
    note: str = ""
    """How it was measured, where that is not the best method: ``watch's clock``, ``± 0.06 s``, ``at least``."""


class BackendRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of all runs."""

    group: str
    """Heading of the row's group."""
    what: str
    unit: Unit
    figures: tuple[Figure, ...]
    """One for each run, in their order."""
    exact: bool = False
    """Whether it must be equal everywhere."""

    @property
    def known(self) -> tuple[float, ...]:
        return tuple(figure.value for figure in self.figures if figure.value is not None)

    @property
    def differs(self) -> bool:
        """Whether it must be equal and is not, in the runs that measured it."""
        return self.exact and len(set(self.known)) > 1


def backends_table(
    tests: Sequence[TestResult], names: Sequence[str] = (), *, floors: Mapping[str, TestResult] | None = None
) -> BackendsTable:
    """Return the table of the same test's runs, in the order given.

    ``names``: column names instead of the backends' names; an empty one is generated. ``floors``: by column name, runs
    on the same clusters without an operator. Raises UsageError for fewer than two runs, for runs of different tests,
    and for an invalid floor.
    """
    if len(tests) < 2:
        raise UsageError("one run is compared with nothing", next_step="Name the folders of two runs or more.")
    different = {short(test.test) for test in tests}
    if len(different) > 1:
        raise UsageError(
            f"these are runs of different tests: {', '.join(sorted(different))}", next_step="Compare runs of one test."
        )
    runs = tuple(_runs(tests, [*names, *[""] * (len(tests) - len(names))]))
    bare = _floors(runs, floors or {})
    rows = tuple(rows_of(tests, bare))
    warnings = (*_warnings(tests, runs), *_warnings_of_floors(tests, bare, runs))
    return BackendsTable(test=different.pop(), runs=runs, rows=rows, verdict=_verdict(rows), warnings=warnings)


def _floors(runs: Sequence[BackendRun], floors: Mapping[str, TestResult]) -> list[TestResult | None]:
    """Return the floor of each column."""
    names = [run.name for run in runs]
    for name, floor in floors.items():
        if name not in names:
            raise UsageError(
                f"a floor of {name!r}, which is no column", next_step=f"The columns are: {', '.join(names)}."
            )
        if (operator := floor.parameters.get("operator", NO_OPERATOR)) != NO_OPERATOR:
            raise UsageError(
                f"{short(floor.test)} ran with the operator {operator}: that is no floor",
                next_step="Run a test of bare pods with --grovescale-operator=none, as tests/scale/test_bare_pods.py.",
            )
    return [floors.get(name) for name in names]


def short(nodeid: str) -> str:
    """Return a test's id without its folders: the same test may run from another folder."""
    return nodeid.rpartition("/")[2]


def _runs(tests: Sequence[TestResult], names: Sequence[str]) -> Iterator[BackendRun]:
    used: Counter[str] = Counter()
    for test, given in zip(tests, names, strict=True):
        pod = " (pod)" if test.parameters.get(RUNS_AS) == "pod" else ""
        name = given or f"{backend_of(test) or 'unknown'}{pod}"
        used[name] += 1
        yield BackendRun(
            name=name if used[name] == 1 else f"{name} #{used[name]}",
            run=test.run,
            started=test.started,
            fingerprint=test.machine.fingerprint,
            audited=bool(test.phases) and all(phase.audit_complete for phase in test.phases),
        )


def _verdict(rows: Sequence[BackendRow]) -> BackendsVerdict:
    exact = [row for row in rows if row.exact]
    if any(row.differs for row in exact):
        return "unequal"
    return "equal" if exact and all(len(row.known) > 1 for row in exact) else "undetermined"


def _warnings(tests: Sequence[TestResult], runs: Sequence[BackendRun]) -> Iterator[str]:
    for test, run in zip(tests, runs, strict=True):
        if test.disturbed:
            yield f"{run.name}: others may have used the cluster during the test: {test.disturbed}"
        if test.disrupted:
            yield f"{run.name}: {test.disrupted}"
        for phase in test.phases:
            if phase.outcome != "passed":
                yield f"{run.name}: {phase.name}: {phase.outcome}"
            elif phase.saturation is not None and phase.saturation.saturated:
                yield f"{run.name}: the machine was saturated in {phase.name}: its times measure the machine"
    if len({run.fingerprint for run in runs}) > 1:
        yield "the runs are from different machines: their times and CPU do not compare"
    for fact in ("kubernetes", "nodes"):
        yield from _unlike(fact, [test.cluster.get(fact, "") for test in tests], runs)
    # Parameters that only some runs have belong to their operators' definitions, as an image does.
    for name in sorted(set.intersection(*(set(test.parameters) for test in tests)) - {RUNS_AS}):
        yield from _unlike(name, [test.parameters[name] for test in tests], runs)


def _warnings_of_floors(
    tests: Sequence[TestResult], floors: Sequence[TestResult | None], runs: Sequence[BackendRun]
) -> Iterator[str]:
    for test, floor, run in zip(tests, floors, runs, strict=True):
        if floor is None:
            continue
        if (on := backend_of(floor)) != backend_of(test):
            yield f"{run.name}: its floor was measured on {on or 'an unknown backend'}"
        for name in sorted({*test.parameters} & {*floor.parameters} - {"operator", RUNS_AS}):
            if (one := str(test.parameters[name])) != (other := str(floor.parameters[name])):
                yield f"{run.name}: its floor has another {name}: {other}, not {one}"
        yield from (
            f"{run.name}: floor, {phase.name}: {phase.outcome}" for phase in floor.phases if phase.outcome != "passed"
        )


def _unlike(what: str, values: Sequence[str | int | float | bool], runs: Sequence[BackendRun]) -> Iterator[str]:
    if len({str(value) for value in values}) > 1:
        named = ", ".join(f"{run.name} {value}" for run, value in zip(runs, values, strict=True))
        yield f"the runs differ in {what}: {named}"


class _Made(NamedTuple):
    """An operation that every run must do equally often."""

    verb: str
    resource: str


def rows_of(tests: Sequence[TestResult], floors: Sequence[TestResult | None]) -> Iterator[BackendRow]:
    """Yield all rows of the same test's runs, group by group.

    ``floors``: for each of them a run on the same backend without an operator; None where there is none.
    """
    names = dict.fromkeys(phase.name for test in tests for phase in test.phases)
    phases = {name: [_phase(test, name) for test in tests] for name in names}
    yield from _starts(tests)
    yield from _floor_rows(tests, floors)
    for name, of_runs in phases.items():
        yield from _times(name, of_runs)
    for name, of_runs in phases.items():
        yield _row("CPU and memory of the operator", f"CPU, {name}", "s", [_cpu(phase) for phase in of_runs])
    for name, of_runs in phases.items():
        yield _row("CPU and memory of the operator", f"peak memory, {name}", "bytes", [_peak(p) for p in of_runs])
    for name, of_runs in phases.items():
        yield from _made(name, of_runs)
    for name, of_runs in phases.items():
        yield from _asked(name, of_runs)


def _phase(test: TestResult, name: str) -> PhaseResult | None:
    return next((phase for phase in test.phases if phase.name == name), None)


def _row(group: str, what: str, unit: Unit, figures: Sequence[Figure], *, exact: bool = False) -> BackendRow:
    return BackendRow(group=group, what=what, unit=unit, figures=tuple(figures), exact=exact)


def _starts(tests: Sequence[TestResult]) -> Iterator[BackendRow]:
    facts = {"start_s": "cluster", "api_server_ready_s": "of it, API server", "nodes_ready_s": "of it, nodes Ready"}
    for key, what in facts.items():
        if any(key in test.cluster for test in tests):
            yield _row("Start-up", what, "s", [_fact(test, key) for test in tests])
    yield _row("Start-up", "operator until ready", "s", [_known(test.operator_start_s) for test in tests])


def _floor_rows(tests: Sequence[TestResult], floors: Sequence[TestResult | None]) -> Iterator[BackendRow]:
    """Yield the floors that a test declared, and each milestone that a run without an operator has too."""
    for name in dict.fromkeys(name for test in tests for name in test.floors):
        yield _row(_FLOOR, name, "s", [_known(test.floors.get(name)) for test in tests])
    shared = dict.fromkeys(
        (phase.name, milestone.name)
        for test, floor in zip(tests, floors, strict=True)
        if floor is not None
        for phase in test.phases
        for milestone in phase.milestones
        if (bare := _phase(floor, phase.name))
        and any(bare_milestone.name == milestone.name for bare_milestone in bare.milestones)
    )
    for phase, name in shared:
        without = [_floor(floor, phase, name) for floor in floors]
        yield _row(_FLOOR, f"{phase}: {name}, without an operator", "s", without)
        withs = [_milestone(_phase(test, phase), name) for test in tests]
        over = [_over(one, bare) for one, bare in zip(withs, without, strict=True)]
        yield _row(_FLOOR, f"{phase}: {name}, with it against that", "times", over)


def _floor(floor: TestResult | None, phase: str, name: str) -> Figure:
    return Figure(value=None, note="not measured") if floor is None else _milestone(_phase(floor, phase), name)


def _over(figure: Figure, floor: Figure) -> Figure:
    if figure.value is None or not floor.value:
        return Figure(value=None, note=figure.note or floor.note)
    return Figure(value=figure.value / floor.value)


def _fact(test: TestResult, key: str) -> Figure:
    value = test.cluster.get(key)
    return _known(float(value) if isinstance(value, int | float) else None)


def _known(value: float | None) -> Figure:
    return Figure(value=value, note="" if value is not None else "not measured")


def _times(name: str, phases: Sequence[PhaseResult | None]) -> Iterator[BackendRow]:
    yield _row("Wall clock", name, "s", [_whole(phase) for phase in phases])
    milestones = dict.fromkeys(one.name for phase in phases if phase is not None for one in phase.milestones)
    for milestone in milestones:
        yield _row("Wall clock", f"{name}: {milestone}", "s", [_milestone(phase, milestone) for phase in phases])


def _whole(phase: PhaseResult | None) -> Figure:
    usable = _usable(phase)
    return usable if isinstance(usable, Figure) else Figure(value=usable.seconds)


def _milestone(phase: PhaseResult | None, name: str) -> Figure:
    milestone: MilestoneResult | None = next((m for m in phase.milestones if m.name == name), None) if phase else None
    if milestone is None or milestone.seconds is None:
        return Figure(value=None, note="not met" if milestone is not None else "no such milestone")
    return Figure(value=milestone.seconds, note="" if milestone.clock == "server" else f"{milestone.clock}'s clock")


def _usable(phase: PhaseResult | None) -> PhaseResult | Figure:
    """Return a phase that passed; else the figure that replaces each of its figures."""
    if phase is None:
        return Figure(value=None, note="no such phase")
    return phase if phase.outcome == "passed" else Figure(value=None, note=phase.outcome)


def _operator(phase: PhaseResult | None) -> CpuResult | Figure:
    usable = _usable(phase)
    if isinstance(usable, Figure):
        return usable
    return next((row for row in usable.cpu if row.process == OPERATOR), Figure(value=None, note="not measured"))


def _cpu(phase: PhaseResult | None) -> Figure:
    row = _operator(phase)
    if isinstance(row, Figure):
        return row
    notes = ["at least"] if row.lower_bound else []
    if row.source == "scrape":
        notes.append(f"scraped, ± {row.resolution_s:.2g} s")
    return Figure(value=row.seconds, note=", ".join(notes))


def _peak(phase: PhaseResult | None) -> Figure:
    row = _operator(phase)
    if isinstance(row, Figure):
        return row
    return Figure(value=row.peak_rss_bytes, note="" if row.source == "clock" else "highest scrape")


def _made(name: str, phases: Sequence[PhaseResult | None]) -> Iterator[BackendRow]:
    """Yield what must be equal: creates and deletes by resource, and gates taken off pods."""
    counts = [_counted(phase) for phase in phases]
    kinds = sorted({kind for counter in counts if not isinstance(counter, Figure) for kind in counter})
    for kind in kinds:
        figures = [counter if isinstance(counter, Figure) else Figure(value=counter[kind]) for counter in counts]
        what = f"{name}: {'gates taken off pods' if kind.verb == 'gate' else f'{kind.verb} {kind.resource}'}"
        yield _row("Objects made and deleted by the operator", what, "requests", figures, exact=True)


def _counted(phase: PhaseResult | None) -> Counter[_Made] | Figure:
    """Return how often each operation that must be equal succeeded."""
    logged = _logged(phase)
    if isinstance(logged, Figure):
        return logged
    counter: Counter[_Made] = Counter()
    for row in logged:
        verb = _must_be_equal(row)
        if verb and 200 <= row.code < 300:
            counter[_Made(verb, row.resource)] += row.count
    return counter


def _logged(phase: PhaseResult | None) -> list[ApiRow] | Figure:
    """Return the operator's requests for objects in a phase, from the audit log; else why they are unknown."""
    usable = _usable(phase)
    if isinstance(usable, Figure):
        return usable
    if not usable.audit_complete:
        return Figure(value=None, note="no audit log")
    return [row for row in usable.api if row.identity == OPERATOR and row.category == "object" and not row.dry_run]


def _must_be_equal(row: ApiRow) -> str:
    """Return the operation that a row counts, of those that must be equal; empty for all others.

    A pod's spec is immutable but for its image, tolerations, deadline and gates: an operator of gangs that writes to
    pods removes their scheduling gates.
    https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
    """
    if row.verb in ("create", "delete", "deletecollection"):
        return row.verb
    return "gate" if row.resource == "pods" and row.verb in ("patch", "update") else ""


def _asked(name: str, phases: Sequence[PhaseResult | None]) -> Iterator[BackendRow]:
    """Yield the rest of the traffic: all requests, the other writes and reads, and reconciles."""
    group = "API traffic of the operator"
    logged = [_logged(phase) for phase in phases]
    seen = {row.verb for rows in logged if not isinstance(rows, Figure) for row in rows}
    for what, verbs in (("requests for objects", seen), *((verb, {verb}) for verb in _OTHERS if verb in seen)):
        if seen:
            yield _row(group, f"{name}: {what}", "requests", [_sum(rows, verbs) for rows in logged])
    methods = {row.method for phase in phases if phase is not None for row in phase.client_requests if row.count}
    for method in sorted(methods):
        what = f"{name}: {method} by its own count"
        yield _row(group, what, "requests", [_own_count(phase, method) for phase in phases])
    if any(phase is not None and phase.reconciles for phase in phases):
        yield _row(group, f"{name}: reconciles", "reconciles", [_reconciles(phase) for phase in phases])


def _sum(rows: list[ApiRow] | Figure, verbs: Collection[str]) -> Figure:
    if isinstance(rows, Figure):
        return rows
    return Figure(value=sum(row.count for row in rows if row.verb in verbs))


def _own_count(phase: PhaseResult | None, method: str) -> Figure:
    usable = _usable(phase)
    if isinstance(usable, Figure):
        return usable
    if not usable.client_requests:
        return Figure(value=None, note="not measured")
    return Figure(value=sum(row.count for row in usable.client_requests if row.method == method))


def _reconciles(phase: PhaseResult | None) -> Figure:
    usable = _usable(phase)
    if isinstance(usable, Figure):
        return usable
    if not usable.reconciles:
        return Figure(value=None, note="not measured")
    least = "at least" if any(row.lower_bound for row in usable.reconciles) else ""
    return Figure(value=sum(row.count for row in usable.reconciles), note=least)
