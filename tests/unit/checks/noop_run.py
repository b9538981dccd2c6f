"""A recorded run with a no-op phase and its idle twin, and whatever can be wrong with it, one fault at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.analysis.result import TestResult
from pytest_grovescale.checks.check import Check, text_of
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.recording import records as rec
from tests.unit.analysis.simulated import IDENTITIES, PCS, PODS, Simulation, pods

STEADY = "steady-state"
IDLE = "steady-state (idle)"
DEPLOY_AT, STEADY_AT, IDLE_AT, END = 100.0, 5000.0, 35_100.0, 65_200.0
HOLD = 30_000.0
PODS_N = 10


@dataclass(kw_only=True)
class NoopRun:
    """What happened. The defaults are a sound operator: one trigger, five reconciles, nothing written."""

    triggers: int = 1
    writes: int = 0
    reads: int = 0
    reconciles: Mapping[str, int] = field(default_factory=lambda: {"podcliqueset": 1, "podclique": 4})
    errors: int = 0
    idle_reconciles: int = 0
    idle_polls: int = 0
    """LISTs in the idle twin, spread over it evenly."""
    idle_renewals: int = 0
    """The same of a Lease."""
    steady_cpu: float | None = 0.3
    idle_cpu: float | None = 0.1
    deploy_cpu: float = 2.0
    rss: int = 90_000_000
    floors: Mapping[str, float] = field(default_factory=dict)
    checks: tuple[tuple[dict[str, Any], str], ...] = ()
    # Faults.
    audited: bool = True
    operator_user: str = IDENTITIES["operator"]
    """Who the operator is taken to be; its requests are by the true one."""
    trigger_logged: bool = True
    audit_gap: bool = False
    restarted: bool = False
    scraped: bool = True
    profiled: bool = False
    twin: bool = True
    steady_outcome: str = "passed"
    twin_outcome: str = "passed"

    def result(self) -> TestResult:
        """Return the analysis of its recording."""
        return analyse(self.simulation().records())

    def simulation(self) -> Simulation:
        sim = Simulation(audited=self.audited)
        at, number, opened = sim.items[0]
        assert isinstance(opened, rec.Opened)
        reported = {**IDENTITIES, "operator": self.operator_user}
        sim.items[0] = (at, number, msgspec.structs.replace(opened, profiled=self.profiled, identities=reported))
        for check, source in self.checks:
            sim.add(rec.CheckDeclared(at=sim.at(1), check=check, source=source))
        sim.watch(PODS, 1)
        sim.watch(PCS, 4)
        for milestone, seconds in self.floors.items():
            sim.add(rec.Mark(at=sim.at(50), label="floor", detail=f"{milestone} {seconds}"))
        self._deploy(sim)
        self._steady(sim)
        if self.twin:
            self._idle(sim)
        sim.request(END + 100, user="recorder", verb="get", path="/readyz")
        sim.add(rec.Closed(at=sim.at(END + 500), reason="stopped"))
        return sim

    def _deploy(self, sim: Simulation) -> None:
        sim.phase("deploy", DEPLOY_AT, STEADY_AT - 100, pods_created=pods(PODS_N))
        self._edges(sim, "deploy", DEPLOY_AT, STEADY_AT - 100, cpu=(1.0, 1.0 + self.deploy_cpu), before={}, after={})
        for number in range(PODS_N):
            sim.write(PODS, f"pod-{number}", 200 + number * 10, verb="create", fields={}, took=2)
            sim.request(700 + number * 10, verb="patch", resource="pods", namespace="t", name=f"pod-{number}")

    def _steady(self, sim: Simulation) -> None:
        end = STEADY_AT + HOLD
        sim.phase(STEADY, STEADY_AT, end, outcome=self.steady_outcome)
        used = None if self.steady_cpu is None else (4.0, 4.0 + self.steady_cpu)
        self._edges(sim, STEADY, STEADY_AT, end, cpu=used, before={}, after=self.reconciles, restarted=self.restarted)
        for number in range(self.triggers):
            at = STEADY_AT + 20 + number * 100
            sim.add(rec.Mark(at=sim.at(at), label="trigger", state="begin", count=1))
            if self.trigger_logged:
                sim.request(
                    at + 1,
                    user="harness",
                    verb="patch",
                    resource="podcliquesets",
                    group="grove.io",
                    namespace="t",
                    name="pcs",
                )
            sim.add(rec.Mark(at=sim.at(at + 20), label="trigger", state="end", count=1))
        for number in range(self.writes):
            sim.request(STEADY_AT + 6000 + number, verb="patch", resource="pods", namespace="t", name=f"pod-{number}")
        for number in range(self.reads):
            sim.request(STEADY_AT + 8000 + number, verb="list", resource="pods", namespace="t")
        if self.audit_gap:
            sim.add(rec.SourceFailed(at=sim.at(STEADY_AT + 9000), source="audit", message="rotated away"))

    def _idle(self, sim: Simulation) -> None:
        end = IDLE_AT + HOLD
        started = rec.PhaseStarted(at=sim.at(IDLE_AT), phase=IDLE, timeout_ns=10**11, twin_of=STEADY)
        sim.add(started)
        sim.add(rec.PhaseEnded(at=sim.at(end), phase=IDLE, outcome=self.twin_outcome))  # type: ignore[arg-type]
        used = None if self.idle_cpu is None else (6.0, 6.0 + self.idle_cpu)
        for each in range(self.idle_polls):
            sim.request(IDLE_AT + HOLD * (each + 0.5) / self.idle_polls, verb="list", resource="pods", namespace="t")
        for each in range(self.idle_renewals):
            at = IDLE_AT + HOLD * (each + 0.5) / self.idle_renewals
            sim.request(at, verb="update", resource="leases", group="coordination.k8s.io", namespace="t", name="l")
        if self.idle_cpu is not None:
            for second in range(1, 30):
                sim.cpu("operator", IDLE_AT + second * 1000, 6.0 + self.idle_cpu * second / 30, rss=self.rss)
        more = {
            name: count + self.idle_reconciles * (name == "podcliqueset") for name, count in self.reconciles.items()
        }
        self._edges(sim, IDLE, IDLE_AT, end, cpu=used, before=self.reconciles, after=more)

    def _edges(
        self,
        sim: Simulation,
        phase: str,
        start: float,
        end: float,
        *,
        cpu: tuple[float, float] | None,
        before: Mapping[str, int],
        after: Mapping[str, int],
        restarted: bool = False,
    ) -> None:
        if cpu is not None:
            sim.cpu("operator", start - 1, cpu[0], edge=f"start:{phase}", rss=self.rss)
            pid = 11 if restarted else 10
            sim.cpu("operator", end - 1, cpu[1], edge=f"end:{phase}", rss=self.rss, pid=pid)
        if self.scraped:
            sim.scrape(start - 1, self._counters(before), edge=f"start:{phase}")
            sim.scrape(end - 1, self._counters(after, again=restarted), edge=f"end:{phase}")

    def _counters(self, made: Mapping[str, int], *, again: bool = False) -> dict[str, float]:
        def series(controller: str, result: str) -> str:
            return f'controller_runtime_reconcile_total{{controller="{controller}",result="{result}"}}'

        before, failed = (0, 0) if again else (40, 3)
        found = {series(name, "success"): float(before + made.get(name, 0)) for name in self.reconciles}
        found[series("podcliqueset", "error")] = float(failed + (self.errors if made else 0))
        return {**found, "process_start_time_seconds": 8.0 if again else 7.0}


def phase(test: TestResult, name: str = STEADY) -> PhaseResult:
    return next(found for found in test.phases if found.name == name)


def changed(test: TestResult, name: str, **fields: Any) -> TestResult:
    """Return a result in which one phase is another."""
    phases = tuple(msgspec.structs.replace(p, **fields) if p.name == name else p for p in test.phases)
    return msgspec.structs.replace(test, phases=phases)


def in_words(value: object) -> str | None:
    """Return what the id of a parametrized test says of a value: a check as it is written, facts, a verdict alone."""
    match value:
        case msgspec.Struct() if isinstance(value, Check):
            return text_of(value)
        case str():
            return value.partition(":")[0]
        case dict() if len(value) < 4:
            return ",".join(f"{name}={fact}" for name, fact in value.items())
    return None


def verdict(check: Any, run: NoopRun | TestResult, **judging: Any) -> str:
    """Return verdict and text, so that a failing test shows why: ``pass: object writes …``."""
    found = judge(check, Run(run if isinstance(run, TestResult) else run.result(), **judging))
    return f"{found.verdict}: {found.text}"
