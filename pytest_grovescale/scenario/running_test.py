"""The state of one running test, which its ``Scale``, its phases and its workloads share."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from .. import redaction
from ..analysis.disruptions import CONTROL_PLANE, stall_text
from ..analysis.live_analysis import LiveAnalysis
from ..analysis.metrics.history import MetricsHistory
from ..analysis.phase_result import PhaseResult
from ..analysis.profiles.phase_profiles import profiles_in
from ..analysis.result import TestResult
from ..checks.budgets import NO_BUDGET, Budget
from ..checks.check import encode
from ..checks.judge import judge_all
from ..checks.run import Run
from ..cluster import nodes
from ..cluster.handle import Cluster
from ..errors import ClusterError, OperatorError, UsageError
from ..json_lines import Channel
from ..kube.client import Client
from ..kube.errors import ApiError, NotFound, ServerUnavailable
from ..kube.faults.settings import Faults
from ..kube.portal import Portal
from ..kube.resources import Resource
from ..operator import build, fault_proxy
from ..operator.definition import OperatorDefinition, load
from ..operator.handle import Operator
from ..prometheus.statistics import Live
from ..recording.conditions import AllOf, AnyOf, Condition, Count, Timer, WatchSpec, watches
from ..recording.protocol import Profiler
from ..recording.recorder import Recorder
from ..recording.records import CYCLES, RESTART, StallKind, cycle_edge
from ..resources import Folders
from . import tracking_free_pass
from .conditions import Declared, kinds, resolve
from .driver_protocol import AnyOrder, Runs, serve
from .quiescence import idle_cores
from .quiet import Quietness, QuietWait
from .running_phase import Aim, RunningPhase, no_operator
from .workloads import Workload

T = TypeVar("T")
Parameter = str | int | float | bool

TAIL_LINES = 30
_IDLE_S = 10.0
"""Time for the operator to come to rest after a cycle, s."""
_POLL_S = 0.01
"""Poll interval of an action, s: its end is noticed at most this much later."""


class ProgressView(Protocol):
    """Progress display of a running test; ``report.progress`` implements it."""

    def phase(self, name: str, timeout_s: float) -> None: ...
    def update(
        self, counts: Mapping[str, tuple[int, int]], *, elapsed: float, left: float, rate: float | None = None
    ) -> None: ...
    def milestone(self, name: str, after: float) -> None: ...
    def done(self, outcome: str) -> None: ...
    def say(self, text: str) -> None: ...


@dataclasses.dataclass(kw_only=True, eq=False)
class RunningTest:
    """One test's resources and options, and what happened in it so far. The session makes it; ``Scale`` is its face."""

    run_id: str
    cluster: Cluster
    operator: Operator | None
    recorder: Recorder
    portal: Portal
    client: Client
    namespace: str
    progress: ProgressView
    parameters: Mapping[str, Parameter]
    base: Folders
    """Where templates are looked up: the folder of the test's file, then others."""
    longest_hold_s: float = math.inf
    """Maximum length of holds, s."""
    stall_limit_s: float = math.inf
    """Time without a change of any count after which a phase ends, s."""
    wait_quiet_s: float = 0.0
    quietness: Quietness | None = None
    driver: Channel[AnyOrder] | None = None
    """The comparison that has no-op windows measured, until it was served."""
    runs: Runs | None = None
    """The comparison that has the test run again and again, and phases begin with those of the other variant's."""
    budget: Budget = NO_BUDGET
    profiled: bool = False
    """Whether this is the profiling pass, whose figures are not judged."""
    profilers_follow: bool = False
    """Whether a profiling pass follows."""
    profiler_aim: Aim = no_operator
    prometheus: Live | None = None

    cycle: int = 0
    """Number of the cycle of ``Scale.cycles`` that runs; 0 outside of one."""
    faults: Faults = dataclasses.field(default_factory=Faults)
    """The faults in force between the operator and the API server."""

    current: RunningPhase | None = None
    """The open phase."""
    failed_phase: str = ""
    """Name of the phase that did not pass; empty: all have, so far."""
    idle_cores: float = 0.0
    """Cores that the idle operator uses, as the last ``Scale.wait_idle`` measured."""
    workloads: list[Workload] = dataclasses.field(default_factory=list)
    parameters_read: set[str] = dataclasses.field(default_factory=set)
    """Names of the parameters that the test has read so far."""
    unprofiled: dict[str, Profiler] = dataclasses.field(default_factory=dict)
    """Phase → the profiler that it requests although no profiling pass follows."""
    phases: list[str] = dataclasses.field(default_factory=list)
    """Names of the phases that have begun."""
    tracking_free: bool = False
    """Whether the pass without tracking has run: it ends the test."""

    def __post_init__(self) -> None:
        self.pid = os.getpid()
        self.needs_idle_twins = self.budget.enforced and any(check.needs_idle_twin for check, _ in self.budget.declared)
        """Whether steady-state phases are followed by their idle twins."""
        for check, source in self.budget.declared:
            self.recorder.declare_check(encode(check), source, enforced=self.budget.enforced)
        self._profiles = profiles_in(self.recorder.journal.parent.parent)
        self._broken: dict[tuple[str, str], str] = {}
        """(process, how) → disruption of the phase that is open, or was last, in words."""
        self._analysis = LiveAnalysis(self.recorder.journal)

    def watched(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; the open phase, if there is one, is monitored during the run."""
        if self.current is None:
            return self.portal.run(coroutine)
        future = self.portal.submit(coroutine)
        try:
            # The answer of a query, say, must not wait for the recorder's next message.
            while not wait([future], timeout=_POLL_S).done:
                self.current.look(0)
        finally:
            _settle(future)
        return future.result()

    def restart_operator(self, version: str | Mapping[str, str] | None = None) -> None:
        """See ``Scale.restart_operator``."""
        if self.operator is None:
            raise UsageError("there is no operator to restart", next_step="The test runs with operator `none`.")
        other = None
        if version is not None:
            other = self._version(self.operator.definition, version)
            # Before the phase begins, which is to measure the new version only.
            other = build.run(other, self.operator.log.parent, progress=self.progress.say)
        if self.current is not None:
            self.current.begin()
        detail = self.operator.name
        if isinstance(version, str):
            detail += f" as {version}"
        elif version is not None:
            detail += f" with {', '.join(f'{name}={redaction.value(text, name)}' for name, text in version.items())}"
        self.recorder.mark(RESTART, state="begin", detail=detail)
        self.operator.restart(self.progress.say, other)
        self.recorder.mark(RESTART, state="end", detail=detail)

    def _version(self, now: OperatorDefinition, version: str | Mapping[str, str]) -> OperatorDefinition:
        """Return the definition of another version: another file, or the same one with other values."""
        workdir = Path(now.workdir)
        if isinstance(version, str):
            return load(version, base=self.base, workdir=workdir)
        chosen = {name: one if isinstance(one, str) else ",".join(one) for name, one in now.settings.items()}
        return load(now.source, values={**chosen, **version}, base=self.base, workdir=workdir)

    def run_without_tracking(self) -> None:
        """See ``Scale.run_without_tracking``."""
        if self.current is not None:
            raise UsageError(
                f"scale.run_without_tracking() inside of phase {self.current.name!r}",
                next_step="Call it after the last phase.",
            )
        if not self.tracking_free and not self.profiled:
            self.tracking_free = True
            tracking_free_pass.measure(self)

    def phase_name(self, name: str) -> str:
        """Return the name of a phase of the current cycle: that of the first one has no number."""
        return f"{name} (cycle {self.cycle})" if self.cycle > 1 else name

    def begin_cycles(self, warm_up: int) -> None:
        """Measure the operator before the first cycle."""
        if self.current is not None or any(workload.applied and not workload.deleted for workload in self.workloads):
            raise UsageError(
                "scale.cycles() begins while a workload is there, or a phase is open",
                next_step="Make cycles first, or delete the workload before them.",
            )
        self.recorder.mark(CYCLES, count=warm_up)
        self._measure_at_rest(0)

    def end_cycle(self) -> None:
        """Measure the operator after a cycle, in which everything was deleted again."""
        left = [workload for workload in self.workloads if workload.applied and not workload.deleted]
        if left:
            raise UsageError(
                f"cycle {self.cycle} ends, and {left[0].names()[0].name} was not deleted",
                next_step="Delete in each cycle what it applies, in a phase that waits until it is gone.",
            )
        self._measure_at_rest(self.cycle)

    def _measure_at_rest(self, cycle: int) -> None:
        if self.operator is not None and not self.profiled:
            idle_cores(self.operator, limit_s=_IDLE_S)
        self.recorder.settle(_IDLE_S, edge=cycle_edge(cycle))

    def enter(self, phase: RunningPhase) -> None:
        if self.current is not None:
            raise UsageError(
                f"phase {phase.name!r} starts inside phase {self.current.name!r}",
                next_step="Phases follow one another; leave the first one's block first.",
            )
        if self.tracking_free:
            raise UsageError(
                f"phase {phase.name!r} comes after scale.run_without_tracking(), which ends the recording of metrics",
                next_step="Call scale.run_without_tracking() last.",
            )
        self.phases.append(phase.name)
        self._broken.clear()
        self.current = phase

    def leave(self, phase: RunningPhase) -> None:
        if self.current is phase:
            self.current = None

    def serve_windows(self, workloads: Sequence[Workload]) -> None:
        """Let a comparison's driver, if there is one, measure no-op windows now; see ``driver_protocol``."""
        driver, self.driver = self.driver, None
        if driver is not None:
            serve(self, workloads, driver)

    def resolve(self, declared: Mapping[str, Declared]) -> list[tuple[str, Condition]]:
        """Return the recorder's conditions.

        Raises UnknownResource for a kind that the cluster does not serve, UsageError for one that would read all
        objects of a shared cluster.
        """
        wanted = set().union(*(kinds(condition) for condition in declared.values()))
        found = self.portal.run(self._resources(wanted))
        conditions = [(name, resolve(one, found, namespace=self.namespace)) for name, one in declared.items()]
        if not self.cluster.others_use_it:
            return conditions
        return [(name, confined(condition, self.cluster.name)) for name, condition in conditions]

    async def _resources(self, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], Resource]:
        return {pair: await self.client.resource(*pair) for pair in wanted}

    def wait_quiet(self) -> QuietWait | None:
        """Wait for a quiet machine for as long as the run allows; None where the run does not wait."""
        if self.quietness is None or self.wait_quiet_s <= 0 or self.profiled:
            return None
        return self.quietness.wait(self.wait_quiet_s, self.progress.say)

    def process_exited(self, process: str, pid: int, phase: str) -> None:
        """Fail the phase when the operator has died; the supervisor restarts any other process."""
        if process in CONTROL_PLANE and pid not in self.cluster.replaced:
            self._note_broken(process, "ended", f"{process} (pid {pid}) ended in phase {phase!r}")
        if process == fault_proxy.PROCESS:
            raise ClusterError(
                f"the proxy for scale.faults ended in phase {phase!r}",
                next_step=f"It is no fault of the operator's: see {fault_proxy.PROCESS}.log in the run's folder.",
            )
        if self.operator is None or process != self.operator.process:
            return
        if self.operator.outlives(pid):
            # `restart_operator`: this exit was intended; a pod's container is started again.
            return
        # It waits for the exit code, and raises where the operator has died with the cluster's supervisor.
        how = self.operator.describe_exit()
        trouble = self.cluster_trouble()
        raise (ClusterError if trouble else OperatorError)(
            "\n".join([f"the operator {how} in phase {phase!r}", *trouble, *self.operator_tail()]),
            next_step=self.operator.after_exit(),
        )

    def stalled(self, process: str, kind: StallKind, seconds: float) -> None:
        """Record a stall, which a phase's failure then names. A late recorder ends no phase."""
        # The length of a stall that has just begun is unknown.
        text = stall_text(process, kind) + (f" for {seconds:.1f} s" if seconds >= 1 else "")
        if process in CONTROL_PLANE or kind == "suspended":
            self._note_broken(process, kind, text)
        else:
            self.progress.say(text)

    def _note_broken(self, process: str, how: str, text: str) -> None:
        self._broken[process, how] = text
        self.progress.say(text)

    def namespace_trouble(self) -> str:
        """Return that the test's namespace is gone or about to go, so that nothing can be made in it; else nothing."""

        async def found() -> Mapping[str, Any]:
            return await self.client.get(await self.client.resource("Namespace", "v1"), self.namespace)

        try:
            metadata = self.portal.run(found())["metadata"]
        except NotFound:
            return f"the test's namespace {self.namespace} does not exist any more"
        except (ApiError, ServerUnavailable):
            # What the cluster's trouble is, is said elsewhere.
            return ""
        asked = metadata.get("deletionTimestamp")
        return f"the test's namespace {self.namespace} is being deleted, since {asked}" if asked else ""

    def incident(self, kind: str, subject: str, detail: str) -> None:
        """Record an incident of the operator's pods; fail the phase when none of them runs or will run again."""
        self.progress.say(": ".join(filter(None, [f"{kind.replace('-', ' ')} of {subject}", detail])))
        if self.operator is not None:
            self.operator.check()

    def cluster_trouble(self) -> list[str]:
        """Return problems of the cluster, now or in the phase, as lines of an error message; empty without any."""
        now = self.cluster.trouble()
        return [f"the cluster: {text}" for text in dict.fromkeys([*([now] if now else []), *self._broken.values()])]

    def operator_tail(self) -> list[str]:
        """Return the last lines of the operator's log, with a heading; they go into the recording too."""
        if self.operator is None:
            return []
        lines = self.operator.tail(TAIL_LINES)
        if not lines:
            return ["the operator's log is empty"]
        self.recorder.lines(f"log:{self.operator.process}", lines)
        return [f"last {len(lines)} lines of the operator's log:", *(f"  {line}" for line in lines)]

    def result(self) -> TestResult:
        """Return the analysis of everything recorded so far, without findings."""
        return self.analysis().result()

    def judged(self) -> TestResult:
        """Return ``result()`` with the verdicts of all checks."""
        return judge_all(self.recorded())

    def recorded(self, *, findings: bool = False) -> Run:
        """Return everything recorded so far, as checks read it."""
        test = self.analysis().result(findings=findings)
        return Run(test, self.budget.baselines, self.metrics, self._profiles)

    def metrics(self) -> MetricsHistory:
        """Return all scrapes recorded so far, of every target."""
        return self.analysis().contents().metrics

    def analysis(self) -> LiveAnalysis:
        """Return the analysis of everything recorded so far."""
        self.recorder.check_written()
        return self._analysis

    def aim_profiler(self, asked: Profiler | None) -> dict[str, str]:
        """Let the next phase be profiled as it requests; return process → why it cannot be, empty where it can."""
        target = self.profiler_aim(asked)
        if isinstance(target, str):
            return {self.operator.process: target} if self.operator is not None else {}
        self.recorder.add_profile_target(target)
        return {}

    def phase_result(self, name: str) -> PhaseResult:
        """Return everything measured in one phase so far."""
        return self.analysis().phase(name)


def _settle(future: Future[Any]) -> None:
    """Wait until a cancelled coroutine has cleaned up."""
    if not future.done():
        future.cancel()
        wait([future], timeout=5)


SINGLE_WATCHES = 32
"""Maximum number of single-object watches that a test may have open; each holds a connection of the recorder."""


def confined(condition: Condition, cluster: str) -> Condition:
    """Return a condition that reads no objects of all namespaces without a selector, for a cluster with other users.

    A namespace of the test's own holds its own objects. All namespaces, or a cluster-scoped kind, hold the objects of
    all users, however many: they are read through a selector or not at all.

    Nodes are limited to those of ``cluster``; a cluster-scoped kind is narrowed to the object that the condition names.
    Raises UsageError where neither is possible.
    """
    match condition:
        case Timer():
            return condition
        case AllOf() | AnyOf():
            narrowed = msgspec.structs.replace(condition, of=tuple(confined(part, cluster) for part in condition.of))
            _refuse_many(narrowed)
            return narrowed
        case Count(names=names, n=n) if len(names) > 1 and _is_open(condition.watch) and n in (0, len(names)):
            # No field selector names several objects: each gets a condition of its own.
            singles = (msgspec.structs.replace(condition, name=name, n=min(n, 1)) for name in names)
            return confined(AllOf(of=tuple(singles)), cluster)
        case Count():
            return msgspec.structs.replace(condition, watch=_confined(condition, cluster))


def _is_open(watch: WatchSpec) -> bool:
    """Return whether a watch shows objects of all namespaces, or of none, without a selector."""
    return not ("/namespaces/" in watch.path or watch.label_selector or watch.field_selector)


def _confined(count: Count, cluster: str) -> WatchSpec:
    watch = count.watch
    if not _is_open(watch):
        return watch
    if len(count.names) == 1:
        return msgspec.structs.replace(watch, field_selector=f"metadata.name={count.names[0]}")
    if watch.resource == "nodes":
        return msgspec.structs.replace(watch, label_selector=nodes.selector(cluster))
    raise UsageError(
        f"all {watch.resource} of a cluster that others use would be watched",
        next_step=f'Say which: conditions.count("{watch.resource}", …, selector="grovescale.io/run=…"), or another'
        " label.",
    )


def _refuse_many(condition: Condition) -> None:
    single = {watch for watch in watches(condition) if watch.field_selector.startswith("metadata.name=")}
    if len(single) > SINGLE_WATCHES:
        raise UsageError(
            f"{len(single)} objects in no namespace would be watched one by one, at most {SINGLE_WATCHES} can be",
            next_step="Count them by a label that they have: conditions.count(KIND, 0,"
            ' selector="grovescale.io/run=…").',
        )
