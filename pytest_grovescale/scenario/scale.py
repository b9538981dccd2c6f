"""The ``scale`` fixture's object: workloads, phases, and the operator under test."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar, Unpack

import msgspec

from .. import durations, redaction
from ..analysis.milestones import FLOOR, floor_detail
from ..analysis.result import CheckResult, TestResult
from ..checks.budgets import TEST
from ..checks.check import Bundle, Check, encode, failure, line, text_of
from ..checks.judge import judge
from ..cluster import nodes
from ..cluster.handle import Cluster
from ..errors import InconclusiveWarning, UsageError
from ..kube.client import Client
from ..kube.faults.settings import FaultArguments
from ..operator.handle import Operator
from ..prometheus.answers import Answer
from ..prometheus.statistics import Live, Statistics
from ..recording.journal import read
from ..recording.records import AnyRecord
from ..workload.template import render
from .faults import FaultsInForce
from .faults import start as start_faults
from .phase import Phase
from .quiescence import idle_cores
from .running_phase import Asked, RunningPhase
from .running_test import RunningTest
from .touches import touch_each_kind
from .workloads import Workload

T = TypeVar("T")
Parameter = str | int | float | bool

TAIL_LINES = 30

_LEAST_CYCLES = 3
"""Cycles after those that warm up: with the state before them, four points of a line."""
_LOOK_S = 0.01
"""Poll interval of an action, s: its end is noticed at most this much later."""


class Scale:
    """The ``scale`` fixture: one test's cluster, operator, namespace and recording."""

    def __init__(self, test: RunningTest) -> None:
        self._test = test

    @property
    def run_id(self) -> str:
        """The id of the run, as in the name of its folder and in the label ``grovescale.io/run``."""
        return self._test.run_id

    @property
    def cluster(self) -> Cluster:
        """The cluster that the test runs on."""
        return self._test.cluster

    @property
    def operator(self) -> Operator | None:
        """The operator under test; None where the test runs without one."""
        return self._test.operator

    @property
    def namespace(self) -> str:
        """The name of the test's own namespace."""
        return self._test.namespace

    @property
    def client(self) -> Client:
        """An asynchronous client of the API server, for coroutines that ``run`` executes."""
        return self._test.client

    def parameter(self, name: str, default: T) -> T:
        """Return a parameter of the run (``--grovescale-param name=value``), converted to the default's type."""
        self._test.parameters_read.add(name)
        if name not in self._test.parameters:
            return default
        value = self._test.parameters[name]
        try:
            return type(default)(value)  # type: ignore[call-arg]
        except ValueError as error:
            raise UsageError(
                f"--grovescale-param {name}={redaction.value(value, name)}: not a value like {default!r}",
                next_step=f"Give a value of type {type(default).__name__}.",
            ) from error

    def workload(self, template: str, **parameters: Any) -> Workload:
        """Return the objects of a template, rendered but not yet applied.

        ``template`` is a path beside the test, or one in its ``workloads/`` folder, or a bundled one. The test's
        ``namespace`` is a parameter of every template, and so is ``node_labels``: labels that only the cluster's
        simulated nodes have. Raises DefinitionError for a wrong template or parameter.
        """
        # An error quotes what was rendered.
        self._test.recorder.conceal(*redaction.secrets_in(parameters))
        rendered = render(
            template,
            parameters,
            namespace=self.namespace,
            run_id=self.run_id,
            node_labels=nodes.labels(self.cluster.name),
            base=self._test.base,
        )
        self._test.recorder.conceal(*redaction.secrets_in(rendered.objects))
        handle = Workload(self._test, rendered)
        self._test.workloads.append(handle)
        return handle

    def phase(self, name: str, *, timeout: str | float = "5m", idle_twin: bool = False, profile: Asked = True) -> Phase:
        """Return a phase to be used as ``with scale.phase("deploy") as deploy:``.

        ``idle_twin``: as long a phase in which nothing is triggered follows it, ``<name> (idle)``. A phase with
        triggers and a hold has one by itself where a declared check needs it. ``profile`` is for the pass with
        profilers, which ``--grovescale-profile`` or the test's marker asks for: ``"pyspy"``, ``"pprof"`` or ``"auto"``
        instead of that pass's own, ``"off"`` or False for none. There, a phase with triggers and a hold repeats them
        until its profile has samples enough.
        """
        name = self._test.phase_name(name)
        if name in self._test.phases:
            raise UsageError(
                f"this test already had a phase {name!r}", next_step="Give every phase of a test its own name."
            )
        phase = RunningPhase(self._test, name, timeout=timeout, idle_twin=idle_twin, profile=profile)
        if phase.profiler not in (None, "off") and not (self._test.profiled or self._test.profilers_follow):
            self._test.unprofiled[name] = phase.profiler
        return Phase(phase)

    def cycles(self, n: int = 6, *, duration: str | float | None = None, warm_up: int = 1) -> Iterator[int]:
        """Yield 1 to ``n``: ``for cycle in scale.cycles(6):`` deploys a workload and deletes it again, in phases.

        ``duration``: further cycles begin until so long, such as ``30m``, is over.
        After each cycle the operator is measured at rest: memory, threads, files, connections, watches, series. What
        grows from cycle to cycle after the first ``warm_up`` is a finding (`cycles`), which one cycle cannot show.
        Phases of later cycles get the cycle's number: ``deploy``, ``deploy (cycle 2)``, and so on.
        """
        if n - warm_up < _LEAST_CYCLES or warm_up < 0:
            raise UsageError(
                f"scale.cycles({n}, warm_up={warm_up}): too few for a slope",
                next_step=f"Make at least {_LEAST_CYCLES} cycles after those that warm up.",
            )
        end = time.monotonic() + durations.seconds(0 if duration is None else duration)
        self._test.begin_cycles(warm_up)
        try:
            for number in itertools.count(1):
                if number > n and time.monotonic() >= end:
                    break
                self._test.cycle = number
                yield number
                self._test.end_cycle()
        finally:
            self._test.cycle = 0

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
        found = judge(check, self._test.recorded(), source=TEST)
        if self._test.profiled and not check.of_profiled_pass:
            return found
        if found.phase and getattr(check, "phase", None) == "":
            # Later phases could match too: bind the check to the phase that it was judged by.
            check = msgspec.structs.replace(check, phase=found.phase)
        self._test.recorder.declare_check(encode(check), TEST)
        if check.of_sweep:
            return found
        if self._test.budget.fails(found):
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
        self._test.recorder.mark(FLOOR, detail=floor_detail(milestone, seconds))

    def promql(self, query: str, *, at: float | None = None) -> Answer:
        """Return what Prometheus answers to a query: a Vector, Scalar, Matrix or Text.

        ``at``: the moment of evaluation, s since the epoch; now by default. Raises QueryError with Prometheus' message
        and the place in the query, PrometheusError when it does not answer, UsageError in a run without one.
        """
        return self._test.watched(self.prometheus.query(query, at=at))

    def statistics(
        self,
        *,
        gauge: Sequence[str] = (),
        increase: Sequence[str] = (),
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
        return self._test.watched(live.statistics(gauge=gauge, increase=increase, rate=rate, by=by, window_s=seconds))

    @property
    def prometheus(self) -> Live:
        """The run's Prometheus; its URL is ``.api.address.url``. Raises UsageError in a run without one."""
        if self._test.prometheus is None:
            raise UsageError(
                "this run has no Prometheus",
                next_step="Start one with --grovescale-prometheus=start or grovescale(prometheus='start'), or give "
                "the URL of one that is there.",
            )
        return self._test.prometheus

    def restart_operator(self, version: str | Mapping[str, str] | None = None) -> None:
        """Stop the operator and start it again, same identity and ports; returns when it is ready.

        ``version``: as another version, until the end of the test: values that differ (``{"tag": "v2"}``), or another
        definition file. In a phase this is an action: lists, writes and reconciles of the new process until the
        phase's end are the cost of catching up. Raises UsageError for a version that runs as pods, or otherwise cannot
        take the place of the first.
        """
        self._test.restart_operator(version)

    def faults(self, **faults: Unpack[FaultArguments]) -> FaultsInForce:
        """Put faults between the operator and the API server in force: ``scale.faults(conflict=0.02, latency="20ms")``.

        As a context manager for its block, else until the end of the test; another call replaces them. Around a phase,
        as its block ends before its milestones are waited for: ``with scale.faults(error=0.01), scale.phase(…):``.
        Requests are hit by ``seed`` and their order, each verb and resource apart. Raises UsageError for wrong
        arguments.
        """
        return start_faults(self._test, faults)

    def wait_idle(self, *, timeout: str | float = "60s") -> None:
        """Return when the operator is idle, between two phases, so that work of one is not measured in the next.

        By its CPU clock: three seconds with equal, low use, or eight in which that comes and goes. One that is never
        idle, since it runs in a loop, is waited for until ``timeout``; the next phase then includes its work.
        """
        if self._test.current is not None:
            raise UsageError(
                f"scale.wait_idle() inside of phase {self._test.current.name!r}",
                next_step="Call it between two phases.",
            )
        if self.operator is None:
            return
        self._test.recorder.mark("wait-idle", state="begin", detail=self.operator.name)
        limit_s = durations.seconds(timeout)
        if self._test.runs is not None:
            limit_s = min(limit_s, self._test.runs.wait_idle_s)
        self._test.idle_cores = idle_cores(self.operator, limit_s=limit_s, say=self._test.progress.say)
        self._test.recorder.mark("wait-idle", state="end", detail=f"{self._test.idle_cores:.3f} cores")

    def touch_each_kind(self, name: str = "touch", *, timeout: str | float = "2m") -> None:
        """Annotate one object of each kind, one after another: what else does a change of one object wake?

        A phase of its own, while the workload is deployed and the operator idle; about a second for each kind of the
        workload's objects and of those made for it, and for a simulated node where the operator watches nodes. Triggers
        of all objects at once cannot show it, since a queue holds each key once. An operator that reconciles half of
        its objects for one of them, or writes, is a finding (`reconcile-amplification`, `noop-work`). Raises UsageError
        without an operator, or a workload.
        """
        touch_each_kind(self._test, self._test.phase_name(name), timeout=timeout)

    def run_without_tracking(self) -> None:
        """Run the workload once more without the harness' tracking, and scrape the operator: for ``NoTestLeakage``.

        The last action of a test: its workload is deleted, and the operator restarted. A passed test that declares
        ``NoTestLeakage`` by marker or in ``budgets.yaml`` runs it automatically. See ``scenario.tracking_free_pass``.
        """
        self._test.run_without_tracking()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that uses ``client``; an open phase is monitored during the run.

        The coroutine is cancelled when the phase fails or Ctrl-C is pressed.
        """
        if self._test.current is not None:
            self._test.current.begin()
        return self._test.watched(coroutine)

    def result(self) -> TestResult:
        """Return the analysis of everything recorded so far, as in ``result.json``."""
        return self._test.result()

    def recording(self) -> list[AnyRecord]:
        """Return the records written so far, in the order of their writing."""
        self._test.recorder.flush()
        return list(read(self._test.recorder.journal))
