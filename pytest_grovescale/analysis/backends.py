"""The same test on several backends: figures that must be equal everywhere, and figures that may differ.

How many objects an operator creates and deletes, and how many scheduling gates it removes, follows from the workload
alone: these figures are equal exactly, or one of the runs did other work. Times, CPU and the rest of the traffic depend
on the cluster and are reported as measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from ..errors import UsageError
from .backend_rows import BackendRow, rows_of
from .likeness import NO_OPERATOR, RUNS_AS, backend_of
from .result import TestResult

SCHEMA_VERSION = 1

BackendsVerdict = Literal["equal", "unequal", "not-told"]
"""``equal``: all counts that must be equal are, in all runs that measured them, two at least; ``not-told``: fewer than
two runs measured them."""


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
    return "equal" if exact and all(len(row.told) > 1 for row in exact) else "not-told"


def _warnings(tests: Sequence[TestResult], runs: Sequence[BackendRun]) -> Iterator[str]:
    for test, run in zip(tests, runs, strict=True):
        if test.disturbed:
            yield f"{run.name}: others may have used the cluster meanwhile: {test.disturbed}"
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
        told = ", ".join(f"{run.name} {value}" for run, value in zip(runs, values, strict=True))
        yield f"the runs differ in {what}: {told}"
