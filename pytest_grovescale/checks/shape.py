"""The checks: what a test can be held to, each with its arguments.

A check is data: it is written in a test, in a marker or in ``budgets.yaml``, goes into the recording, and can be
judged again from there. Durations are seconds or texts (``4s``), sizes bytes or texts (``200Mi``). A check without
``phase`` means the one phase that it can mean; where there are several, its phase has to be named.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from ..analysis.run_metrics import describe
from ..errors import UsageError
from .arguments import CheckArgumentError, duration, not_negative, one_of, size, unknown
from .check import Check, tag_of
from .metrics.shape import (
    AnyMetricCheck,
    Coexistence,
    ConflictRate,
    CounterResets,
    ErrorRatio,
    FunctionNameLabels,
    HistogramBuckets,
    Initialised,
    Invariant,
    Labels,
    MetricNames,
    NoBlockedWorkers,
    NoBuiltinDuplicates,
    Series,
    SeriesGrowth,
)

Duration = str | int | float
Size = str | int

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


class NoopWrites(Check, tag="noop_writes", frozen=True, kw_only=True):
    """Object writes by an identity while it reconciles objects in which nothing has changed."""

    max: int = 0
    phase: str = ""
    identity: str = "operator"

    def refuse(self) -> None:
        not_negative(tag_of(self), max=self.max)


class NoopReads(Check, tag="noop_reads", frozen=True, kw_only=True):
    """Object reads (get, list, and watch when it starts) by an identity in a steady-state phase."""

    max: int
    phase: str = ""
    identity: str = "operator"

    def refuse(self) -> None:
        not_negative(tag_of(self), max=self.max)


class NoopReconciles(Check, tag="noop_reconciles", frozen=True, kw_only=True):
    """Reconciles that each no-op trigger causes: exactly ``per_trigger``, or at most ``max``.

    ``per_trigger`` is a number, of ``controller``, or one for each of several: ``{"podcliqueset": 1, "podclique":
    500}``. ``max`` without ``controller`` is for all controllers together.
    """

    timed: ClassVar[bool] = True

    controller: str = ""
    per_trigger: int | dict[str, int] | None = None
    max: float | None = None
    errors: int = 0
    """How many reconciles of the phase, of all controllers, may end in an error. Not judged where the operator's
    counters do not tell how they ended (work queues)."""
    phase: str = ""

    def refuse(self) -> None:
        one_of(tag_of(self), per_trigger=self.per_trigger, max=self.max)
        not_negative(tag_of(self), max=self.max, errors=self.errors, **_numbered(self.per_trigger))
        if isinstance(self.per_trigger, int) and not self.controller:
            raise CheckArgumentError(
                "noop_reconciles(per_trigger=…) does not say of which controller",
                next_step='Name it: controller="…", or per_trigger={"…": 1}.',
            )
        if isinstance(self.per_trigger, dict) and (self.controller or not self.per_trigger):
            raise CheckArgumentError("noop_reconciles(per_trigger={…}) names at least one controller, and no other")

    @property
    def wanted(self) -> dict[str, int]:
        """Controller → reconciles for each trigger, exactly; empty where ``max`` is given."""
        if isinstance(self.per_trigger, dict):
            return self.per_trigger
        return {} if self.per_trigger is None else {self.controller: self.per_trigger}


class NoopCpu(Check, tag="noop_cpu", frozen=True, kw_only=True):
    """CPU time of a steady-state phase, next to its idle twin; one of three bounds.

    ``per_reconcile``: what the phase used more than its twin, for each reconcile, of one controller or of all.
    ``times_idle``: the phase's CPU time as a multiple of its twin's.
    ``vs``: what a trigger costs over idle, at most ``tolerance`` more than in that baseline.
    A bound within what single runs of one operator vary by is not decided; see `spread`.
    """

    timed: ClassVar[bool] = True

    needs_idle_twin: ClassVar[bool] = True

    per_reconcile: Duration | None = None
    times_idle: float | None = None
    vs: str | None = None
    tolerance: float = 0.10
    controller: str = ""
    """For ``per_reconcile``: whose reconciles it is divided by."""
    phase: str = ""
    process: str = "operator"

    def refuse(self) -> None:
        one_of(tag_of(self), per_reconcile=self.per_reconcile, times_idle=self.times_idle, vs=self.vs)
        duration(tag_of(self), per_reconcile=self.per_reconcile)
        not_negative(tag_of(self), times_idle=self.times_idle, tolerance=self.tolerance)
        if self.vs is not None and self.process != "operator":
            raise CheckArgumentError("noop_cpu(vs=…): baselines hold the operator's CPU only")


class SimulatedNodesOnly(Check, tag="simulated_nodes_only", frozen=True, kw_only=True):
    """Whether all pods of the run were put on simulated nodes, on a cluster that has other nodes as well.

    Every run on such a cluster is held to it. On a cluster without other nodes there is nothing to judge.
    """

    failure_stands: ClassVar[bool] = True


class HotLoop(Check, tag="hot_loop", frozen=True, kw_only=True):
    """Whether reconciles cause reconciles.

    It fails when they go on in the idle twin, where nothing was triggered, at more than ``idle_per_second``; or when
    a trigger caused more than ``passes`` reconciles for each object of the test (the largest number of objects that
    one of its milestones counts), which is more than a look at each of them.
    """

    timed: ClassVar[bool] = True

    needs_idle_twin: ClassVar[bool] = True

    idle_per_second: float = 1.0
    passes: float = 2.0
    phase: str = ""

    def refuse(self) -> None:
        not_negative(tag_of(self), idle_per_second=self.idle_per_second, passes=self.passes)


class _OfPhase(Check, frozen=True):
    positional: ClassVar[tuple[str, ...]] = ("phase",)

    phase: str


class _OfVerb(_OfPhase, frozen=True):
    positional: ClassVar[tuple[str, ...]] = ("phase", "verb")

    verb: str = ""


class ApiRequests(_OfVerb, tag="api_requests", frozen=True, kw_only=True):
    """Requests for objects by one identity in one phase: of one verb and resource, or of all.

    Leases, Events, reviews and dry runs are left out, as in the report, unless ``resource`` names them.
    """

    max: float
    resource: str = ""
    """As in the report: ``pods``, ``podcliquesets.grove.io/status``."""
    per_object: bool | int = False
    """Divide by that many; True: by the largest number of objects that a milestone of the test counts."""
    identity: str = "operator"

    def depends_on_timing(self) -> bool:
        # Each object is created and deleted once; how often it is read and patched depends on retries and reconciles.
        return self.verb not in ("create", "delete")

    def refuse(self) -> None:
        not_negative(tag_of(self), max=self.max, per_object=self.per_object)
        if self.verb and self.verb not in VERBS:
            raise CheckArgumentError(f"api_requests(verb={self.verb!r}): {unknown('verb', self.verb, VERBS)}")


class Cpu(_OfPhase, tag="cpu", frozen=True, kw_only=True):
    """CPU time of a process in a phase."""

    timed: ClassVar[bool] = True

    max: Duration
    process: str = "operator"
    per_object: bool | int = False
    """As for `ApiRequests`."""

    def refuse(self) -> None:
        duration(tag_of(self), max=self.max)
        not_negative(tag_of(self), per_object=self.per_object)


class Rss(Check, tag="rss", frozen=True, kw_only=True):
    """Peak resident memory of a process up to the end of a phase; without ``phase``, of the last one it was read in."""

    max: Size
    process: str = "operator"
    phase: str = ""

    def refuse(self) -> None:
        size("rss", max=self.max)


class _Named(Check, frozen=True):
    positional: ClassVar[tuple[str, ...]] = ("name",)

    name: str


class Milestone(_Named, tag="milestone", frozen=True, kw_only=True):
    """How long a milestone took: at most ``max``, or at most ``times_floor`` times its floor.

    The floor is what the same takes where the operator costs nothing. ``floor`` says where it is from: a time
    (``3.2s``), ``phase/milestone`` of the same test, or ``baseline:NAME`` for this milestone's time in that baseline.
    Without it, it is what the test gave to ``scale.floor``.
    """

    timed: ClassVar[bool] = True

    max: Duration | None = None
    times_floor: float | None = None
    floor: Duration = ""
    phase: str = ""

    def refuse(self) -> None:
        one_of(tag_of(self), max=self.max, times_floor=self.times_floor)
        duration(tag_of(self), max=self.max)
        not_negative(tag_of(self), times_floor=self.times_floor)
        if self.floor != "" and self.times_floor is None:
            raise CheckArgumentError("milestone(floor=…) needs times_floor=…")
        if not (isinstance(self.floor, str) and (not self.floor or "/" in self.floor or self.baseline)):
            duration(tag_of(self), floor=self.floor)

    @property
    def baseline(self) -> str:
        """Name of the baseline that ``floor`` names, or nothing."""
        kind, _, name = str(self.floor).partition(":")
        return name if kind == "baseline" else ""


class _OfMetric(Check, frozen=True):
    positional: ClassVar[tuple[str, ...]] = ("metric",)

    metric: str
    """Key of a figure, as in `analysis.run_metrics`: ``cpu:deploy``, ``milestone:deploy/pods-ready``, ``noop_cpu``."""


class Scales(_OfMetric, tag="scales", frozen=True, kw_only=True):
    """A figure grows with at most this power of the workload's size.

    ``grovescale sweep`` judges it, by runs of several sizes: one run has but one.
    """

    of_sweep: ClassVar[bool] = True

    exponent_max: float = 1.15

    def refuse(self) -> None:
        not_negative(tag_of(self), exponent_max=self.exponent_max)
        try:
            describe(self.metric)
        except KeyError:
            raise CheckArgumentError(
                f"scales({self.metric!r}): no metric is called so",
                next_step="Write it as in the sweep's sweep.json: cpu:deploy, api:deploy, rss:deploy, noop_cpu.",
            ) from None


AnyCheck = (
    NoopWrites
    | NoopReads
    | NoopReconciles
    | NoopCpu
    | SimulatedNodesOnly
    | HotLoop
    | ApiRequests
    | Cpu
    | Rss
    | Milestone
    | Scales
    | AnyMetricCheck
)

noop_writes = NoopWrites
noop_reads = NoopReads
noop_reconciles = NoopReconciles
noop_cpu = NoopCpu
simulated_nodes_only = SimulatedNodesOnly
hot_loop = HotLoop
api_requests = ApiRequests
cpu = Cpu
rss = Rss
milestone = Milestone
scales = Scales
series = Series
series_growth = SeriesGrowth
labels = Labels
no_builtin_duplicates = NoBuiltinDuplicates
metric_names = MetricNames
function_name_labels = FunctionNameLabels
initialised = Initialised
invariant = Invariant
counter_resets = CounterResets
histogram_buckets = HistogramBuckets
coexistence = Coexistence
conflict_rate = ConflictRate
error_ratio = ErrorRatio
no_blocked_workers = NoBlockedWorkers


def decode(plain: dict[str, Any]) -> AnyCheck:
    """Return the check in plain data. Raises UsageError for one that this version does not know."""
    try:
        found: AnyCheck = msgspec.convert(plain, AnyCheck)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the recording holds a check that cannot be read: {error}",
            next_step="Use the version of pytest-grovescale that wrote it, or a newer one.",
        ) from None
    return found


def _numbered(per_trigger: int | dict[str, int] | None) -> dict[str, int]:
    if isinstance(per_trigger, dict):
        return per_trigger
    return {} if per_trigger is None else {"per_trigger": per_trigger}
