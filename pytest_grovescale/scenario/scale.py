"""The ``scale`` fixture's object: workloads, phases, and the operator under test."""

from __future__ import annotations

import math
import warnings
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from .. import durations, redaction
from ..analysis.analyse import contents_of, result_of
from ..analysis.disruptions import CONTROL_PLANE, stall_text
from ..analysis.metrics.history import MetricsHistory
from ..analysis.milestones import FLOOR, floor_detail
from ..analysis.profiles.phase_profiles import profiles_in
from ..analysis.result import CheckResult, PhaseResult, TestResult
from ..checks.check import Bundle, Check, encode, text_of
from ..checks.judge import judge, judge_all
from ..checks.outcome import failure, line
from ..checks.run import Run
from ..cluster import nodes
from ..cluster.handle import Cluster
from ..errors import ClusterError, InconclusiveWarning, NotMeasuredError, OperatorError, UsageError
from ..kube.client import Client
from ..kube.portal import Portal
from ..kube.resources import Resource
from ..operator.handle import Operator
from ..prometheus.answers import Answer
from ..prometheus.live import Live
from ..prometheus.statistics import Statistics
from ..recording.conditions import Condition
from ..recording.journal import read
from ..recording.profiling.plan import Profiler
from ..recording.recorder import Recorder
from ..recording.records import StallKind
from ..workload.template import render
from . import tracking_free_pass
from .budget import NO_BUDGET, TEST, Budget
from .conditions import Declared, kinds, resolve
from .driver_protocol import AnyOrder, Barrier, Line, serve
from .phase import Aim, Asked, Phase, no_operator
from .quiescence import idle_cores
from .quiet import Quietness, QuietWait
from .selector_guard import confined
from .workloads import WorkloadHandle

T = TypeVar("T")
Parameter = str | int | float | bool

TAIL_LINES = 30
_LOOK_S = 0.01
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


class Scale:
    """The ``scale`` fixture: one test's cluster, operator, namespace and recording.

    ``namespace`` is the test's own; ``client`` with ``run`` reaches the API server directly.
    """

    def __init__(
        self,
        *,
        run_id: str,
        cluster: Cluster,
        operator: Operator | None,
        recorder: Recorder,
        portal: Portal,
        client: Client,
        namespace: str,
        progress: ProgressView,
        parameters: Mapping[str, Parameter],
        base: Path,
        longest_hold_s: float = math.inf,
        wait_quiet_s: float = 0.0,
        quietness: Quietness | None = None,
        driver: Line[AnyOrder] | None = None,
        barrier: Barrier | None = None,
        budget: Budget = NO_BUDGET,
        profiled: bool = False,
        profilers_follow: bool = False,
        profiler_aim: Aim = no_operator,
        prometheus: Live | None = None,
    ) -> None:
        self.run_id = run_id
        self.cluster = cluster
        self.operator = operator
        self.recorder = recorder
        self.client = client
        self.namespace = namespace
        self.progress = progress
        self.longest_hold_s = longest_hold_s
        """Maximum length of holds, s."""
        self._wait_quiet_s = wait_quiet_s
        self._quietness = quietness
        self.idle_cores = 0.0
        """Cores that the idle operator uses, as the last `settle` measured."""
        self.current: Phase | None = None
        self.failed_phase = ""
        """Name of the phase that did not pass; empty: all have, so far."""
        self.workloads: list[WorkloadHandle] = []
        self._portal = portal
        self._parameters = dict(parameters)
        self.parameters_read: set[str] = set()
        """Names of the parameters that the test has read so far."""
        self._base = base
        self._driver = driver
        self.barrier = barrier or Barrier()
        """Synchronises phases with those of the test that is compared with this one."""
        self._prometheus = prometheus
        self.budget = budget
        self.profiled = profiled
        """Whether this is the profiling pass, whose figures are not judged."""
        self.unprofiled: dict[str, Profiler] = {}
        """Phase → the profiler that it requests although no profiling pass follows."""
        self._profilers_follow = profilers_follow
        self._profiler_aim = profiler_aim
        self.needs_idle_twins = budget.enforced and any(check.needs_idle_twin for check, _ in budget.declared)
        """Whether steady-state phases are followed by their idle twins."""
        for check, source in budget.declared:
            recorder.declare_check(encode(check), source, enforced=budget.enforced)
        self._profiles = profiles_in(recorder.journal.parent.parent)
        self._phases: list[str] = []
        self._untracked = False
        self._broken: dict[tuple[str, str], str] = {}
        """(process, how) → disruption of the phase that is open, or was last, in words."""
        self._read: tuple[int, tuple[TestResult, MetricsHistory]] | None = None

    # ---- for tests

    def parameter(self, name: str, default: T) -> T:
        """Return a parameter of the run (``--grovescale-param name=value``), converted to the default's type."""
        self.parameters_read.add(name)
        if name not in self._parameters:
            return default
        value = self._parameters[name]
        try:
            return type(default)(value)  # type: ignore[call-arg]
        except ValueError as error:
            raise UsageError(
                f"--grovescale-param {name}={redaction.value(value, name)}: not a value like {default!r}",
                next_step=f"Give a value of type {type(default).__name__}.",
            ) from error

    def workload(self, template: str, **parameters: Any) -> WorkloadHandle:
        """Return the objects of a template, rendered but not yet applied.

        ``template`` is a path beside the test, or one in its ``workloads/`` folder, or a bundled one. The test's
        ``namespace`` is a parameter of every template, and so is ``node_labels``: labels that only the cluster's
        simulated nodes have. Raises DefinitionError for a wrong template or parameter.
        """
        rendered = render(
            template,
            parameters,
            namespace=self.namespace,
            run_id=self.run_id,
            node_labels=nodes.labels(self.cluster.name),
            base=self._base,
        )
        self.recorder.conceal(*redaction.secrets_in(parameters), *redaction.secrets_in(rendered.objects))
        handle = WorkloadHandle(self, rendered)
        self.workloads.append(handle)
        return handle

    def phase(self, name: str, *, timeout: str | float = "5m", idle_twin: bool = False, profile: Asked = True) -> Phase:
        """Return a phase to be used as ``with scale.phase("deploy") as deploy:``.

        ``idle_twin``: as long a phase in which nothing is triggered follows it, ``<name> (idle)``. A phase with
        triggers and a hold has one by itself where a declared check needs it. ``profile`` is for the pass with
        profilers, which ``--grovescale-profile`` or the test's marker asks for: ``"pyspy"``, ``"pprof"`` or ``"auto"``
        instead of that pass's own, ``"off"`` or False for none. There, a phase with triggers and a hold repeats them
        until its profile has samples enough.
        """
        if name in self._phases:
            raise UsageError(
                f"this test already had a phase {name!r}", next_step="Give every phase of a test its own name."
            )
        phase = Phase(self, name, timeout=timeout, idle_twin=idle_twin, profile=profile)
        if phase.profiler not in (None, "off") and not (self.profiled or self._profilers_follow):
            self.unprofiled[name] = phase.profiler
        return phase

    def check(self, check: Check) -> CheckResult:
        """Check what was recorded so far against a bound: ``scale.check(checks.NoopWrites(max=0))``.

        Raises CheckFailed when it is exceeded or undecided (the latter is a warning with
        ``--grovescale-inconclusive=warn``); UsageError when several phases could be meant. With profilers attached it
        raises nothing, except for `FunctionNameLabels`, which uses stacks: the measuring pass before was judged.
        Checks that ``grovescale sweep`` judges, as ``Scales``, raise nothing either.
        """
        if isinstance(check, Bundle):
            raise UsageError(
                f"{text_of(check)} stands for several checks",
                next_step="Make each of them: for check in …: scale.check(check).",
            )
        found = judge(check, self._run(), source=TEST)
        if self.profiled and not check.of_profiled_pass:
            return found
        if found.phase and getattr(check, "phase", None) == "":
            # Later phases could match too: bind the check to the phase that it was judged by.
            check = msgspec.structs.replace(check, phase=found.phase)
        self.recorder.declare_check(encode(check), TEST)
        if check.of_sweep:
            return found
        if self.budget.fails(found):
            raise failure([found])
        if found.verdict == "inconclusive":
            warnings.warn(InconclusiveWarning(line(found)), stacklevel=2)
        return found

    def floor(self, milestone: str, seconds: float) -> None:
        """Declare the time of a milestone where the operator costs nothing: the floor of ``milestone(times_floor=…)``.

        ``milestone`` is its name, or ``phase/name`` where several phases have one of that name.
        """
        if seconds <= 0:
            raise UsageError(f"floor({milestone!r}, {seconds}): not a time", next_step="Give seconds, more than 0.")
        self.recorder.mark(FLOOR, detail=floor_detail(milestone, seconds))

    def promql(self, query: str, *, at: float | None = None) -> Answer:
        """Return what Prometheus answers to a query: a Vector, Scalar, Matrix or Text.

        ``at``: the moment of evaluation, s since the epoch; now by default. Raises QueryError with Prometheus' message
        and the place in the query, PrometheusError when it does not answer, UsageError in a run without one.
        """
        return self._watched(self.prometheus.query(query, at=at))

    def statistics(
        self,
        *,
        gauge: Sequence[str] = (),
        diff: Sequence[str] = (),
        rate: Sequence[str] = (),
        by: Sequence[str] = (),
        window: str | float = "30s",
    ) -> Statistics:
        """Return the latest value, the increase over the window, and the rate per second, of any number of metrics.

        All at one moment of evaluation, in the time of one query. Each is summed by the labels ``by``, and selected by
        its name or a selector: ``scale.statistics(gauge=["workqueue_depth"], rate=["workqueue_adds_total"],
        by=["name"])``. No data, a failed query and zero are different answers; see
        ``prometheus.statistics.Statistics``.
        """
        seconds = durations.seconds(window)
        live = self.prometheus
        return self._watched(live.statistics(gauge=gauge, diff=diff, rate=rate, by=by, window_s=seconds))

    @property
    def prometheus(self) -> Live:
        """The run's Prometheus; its URL is ``.api.address.url``. Raises UsageError in a run without one."""
        if self._prometheus is None:
            raise UsageError(
                "this run has no Prometheus",
                next_step="Start one with --grovescale-prometheus=start or grovescale(prometheus='start'), or give "
                "the URL of one that is there.",
            )
        return self._prometheus

    def restart_operator(self) -> None:
        """Stop the operator and start it again, same identity and ports; returns when it is ready.

        In a phase this is an action: lists, writes and reconciles of the new process until the phase's end are the cost
        of catching up.
        """
        if self.operator is None:
            raise UsageError("there is no operator to restart", next_step="The test runs with operator `none`.")
        if self.current is not None:
            self.current.begin()
        self.recorder.mark("operator-restart", state="begin", detail=self.operator.name)
        self.operator.restart(self.progress.say)
        self.recorder.mark("operator-restart", state="end", detail=self.operator.name)

    def settle(self, *, timeout: str | float = "60s") -> None:
        """Return when the operator is idle, between two phases, so that work of one is not measured in the next.

        By its CPU clock: three seconds with equal, low use. One that is never idle, since it runs in a loop, is waited
        for until ``timeout``; the next phase then includes its work.
        """
        if self.current is not None:
            raise UsageError(
                f"scale.settle() inside of phase {self.current.name!r}", next_step="Call it between two phases."
            )
        if self.operator is None:
            return
        self.recorder.mark("settle", state="begin", detail=self.operator.name)
        self.idle_cores = idle_cores(self.operator, limit_s=durations.seconds(timeout))
        self.recorder.mark("settle", state="end", detail=f"{self.idle_cores:.3f} cores")

    def untracked(self) -> None:
        """Run the workload once more without the harness' tracking, and scrape the operator: for ``NoTestLeakage``.

        The last action of a test: its workload is deleted, and the operator restarted. A passed test that declares
        ``NoTestLeakage`` by marker or in ``budgets.yaml`` runs it automatically. See `scenario.untracked`.
        """
        if self.current is not None:
            raise UsageError(
                f"scale.untracked() inside of phase {self.current.name!r}", next_step="Call it after the last phase."
            )
        if not self._untracked and not self.profiled:
            self._untracked = True
            tracking_free_pass.measure(self)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that uses ``client``; an open phase is monitored during the run.

        The coroutine is cancelled when the phase fails or Ctrl-C is pressed.
        """
        if self.current is not None:
            self.current.begin()
        return self._watched(coroutine)

    def _watched(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self.current is None:
            return self._portal.run(coroutine)
        future = self._portal.submit(coroutine)
        try:
            # The answer of a query, say, must not wait for the recorder's next message.
            while not wait([future], timeout=_LOOK_S).done:
                self.current.look(0)
        finally:
            _settle(future)
        return future.result()

    # ---- for phases and workloads

    def enter(self, phase: Phase) -> None:
        if self.current is not None:
            raise UsageError(
                f"phase {phase.name!r} starts inside phase {self.current.name!r}",
                next_step="Phases follow one another; leave the first one's block first.",
            )
        if self._untracked:
            raise UsageError(
                f"phase {phase.name!r} comes after scale.untracked(), which ends the recording of metrics",
                next_step="Call scale.untracked() last.",
            )
        self._phases.append(phase.name)
        self._broken.clear()
        self.current = phase

    def leave(self, phase: Phase) -> None:
        if self.current is phase:
            self.current = None

    def serve_windows(self, workloads: Sequence[WorkloadHandle]) -> None:
        """Let a comparison's driver, if there is one, measure no-op windows now; see ``windows``."""
        driver, self._driver = self._driver, None
        if driver is not None:
            serve(self, workloads, driver)

    def resolve(self, declared: Mapping[str, Declared]) -> list[tuple[str, Condition]]:
        """Return the recorder's conditions.

        Raises UnknownResource for a kind that the cluster does not serve, UsageError for one that would read all
        objects of a shared cluster.
        """
        wanted = set().union(*(kinds(condition) for condition in declared.values()))
        found = self._portal.run(self._resources(wanted))
        conditions = [(name, resolve(one, found, namespace=self.namespace)) for name, one in declared.items()]
        if not self.cluster.others_use_it:
            return conditions
        return [(name, confined(condition, self.cluster.name)) for name, condition in conditions]

    async def _resources(self, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], Resource]:
        return {pair: await self.client.resource(*pair) for pair in wanted}

    def wait_quiet(self) -> QuietWait | None:
        """Wait for a quiet machine for as long as the run allows; None where the run does not wait."""
        if self._quietness is None or self._wait_quiet_s <= 0 or self.profiled:
            return None
        return self._quietness.wait(self._wait_quiet_s, self.progress.say)

    def process_exited(self, process: str, pid: int, phase: str) -> None:
        """Fail the phase when the operator has died; the supervisor restarts any other process."""
        if process in CONTROL_PLANE:
            self._note_broken(process, "ended", f"{process} (pid {pid}) ended in phase {phase!r}")
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
            next_step=f"Its whole log: {self.operator.log.name} in the run's folder.",
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
        self.recorder.lines(f"log:{self.operator.process}", lines)
        return [f"last {len(lines)} lines of the operator's log:", *(f"  {line}" for line in lines)]

    def result(self) -> TestResult:
        """Return the analysis of everything recorded so far."""
        return self._analysed()[0]

    def judged(self) -> TestResult:
        """Return ``result()`` with the verdicts of all checks."""
        return judge_all(self._run())

    def _run(self) -> Run:
        return Run(self.result(), self.budget.baselines, self.metrics, self._profiles)

    def metrics(self) -> MetricsHistory:
        """Return all scrapes recorded so far, of every target."""
        return self._analysed()[1]

    def _analysed(self) -> tuple[TestResult, MetricsHistory]:
        self.recorder.check_written()
        size = self.recorder.journal.stat().st_size
        if self._read is None or self._read[0] != size:
            contents = contents_of(read(self.recorder.journal))
            self._read = (size, (result_of(contents), contents.metrics))
        return self._read[1]

    def aim_profiler(self, asked: Profiler | None) -> dict[str, str]:
        """Let the next phase be profiled as it requests; return process → why it cannot be, empty where it can."""
        target = self._profiler_aim(asked)
        if isinstance(target, str):
            return {self.operator.process: target} if self.operator is not None else {}
        self.recorder.add_profile_target(target)
        return {}

    def phase_result(self, name: str) -> PhaseResult:
        """Return one phase of ``result()``."""
        for phase in self.result().phases:
            if phase.name == name:
                return phase
        raise NotMeasuredError(f"the recording has no phase {name!r}", next_step="It never began.")


def _settle(future: Future[Any]) -> None:
    """Wait until a cancelled coroutine has cleaned up."""
    if not future.done():
        future.cancel()
        wait([future], timeout=5)
