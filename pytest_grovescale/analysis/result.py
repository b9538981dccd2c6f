"""The result of a run: the typed tree that analysis returns and every report renders.

Figures that were not measured are ``None`` or left out, never zero, and `missing` of their phase says why. The tree is
written as ``result.json``; `schema.py` keeps the JSON Schema that is shipped beside this file.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from ..exposition.families import MetricType
from ..recording.records import CheckDeclared, IncidentKind, Machine, ObjectRef, ProfileKind, TestOutcome

SCHEMA_VERSION = 2

OPERATOR = "operator"
"""The operator under test: its role among the identities, its process, and its metrics endpoint."""

NO_OPERATOR = "none"
"""Name used instead of an operator's where a test runs on the bare cluster."""

Outcome = Literal["passed", "failed", "timeout", "interrupted", "unfinished"]
"""``unfinished``: the recording ends before the phase did (still running, or killed)."""

TestVerdict = Literal["passed", "failed", "inconclusive", "interrupted", "error"]
"""Verdict of a test, from pytest's outcome and its checks together; `verdict.verdict_of` derives it.

``failed``: the test or an enforced check failed. ``inconclusive``: one of them could not be decided, and none failed.
``interrupted``: the test did not finish (Ctrl-C, killed, still running). ``error``: something other than the operator
under test ended it, or its recording is incomplete."""

Category = Literal["object", "lease", "event", "review", "nonresource"]
"""Category of a request. ``review``: authentication and authorization (TokenReview, SubjectAccessReview, TokenRequest),
which store nothing; ``object`` is everything else that names a resource."""

Clock = Literal["server", "watch", "recorder"]
"""``server``: the API server's audit log names the write; ``watch``: when the recorder received the event;
``recorder``: without an event (a timer, or a condition that held from the start)."""

Scalar = str | int | float | bool


class MilestoneResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    condition: str
    """The condition in words."""
    met: bool
    observed_s: float | None = None
    """Seconds from the phase's start until the recorder first saw it hold."""
    server_s: tuple[float, float] | None = None
    """Seconds from the phase's start; the write that met it was committed between these two."""
    clock: Clock = "watch"
    """The better clock of the two available; see `seconds`."""
    held_to_end: bool | None = None
    """Whether it still held when the phase ended; None when it was not met or the phase did not end."""
    uncertainty_s: float = 0.0
    """How far the time may be off beyond its interval: watch disconnect or gap, or a step of the wall clock."""
    why_not_server: str = ""
    """Why there is no ``server_s``."""
    object: ObjectRef | None = None
    """The object whose event met it."""
    reached: int | None = None
    """For a count: the number of objects when it was met, when the phase ended, or when the recording ends."""
    wanted: int | None = None

    @property
    def seconds(self) -> float | None:
        """Seconds from the phase's start by the best clock: the end of the server's interval, else the watch."""
        return self.server_s[1] if self.server_s is not None else self.observed_s


CpuSource = Literal["clock", "scrape"]
"""``clock``: the process's own CPU clock, read on its machine, exact to the ns; ``scrape``: the process's own metrics,
``process_cpu_seconds_total`` and ``process_resident_memory_bytes``, scraped at the phase's edges."""


class CpuResult(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time and memory of one process in one phase."""

    process: str
    source: CpuSource = "clock"
    seconds: float
    """CPU seconds used between the phase's edges, children included where the source is its clock."""
    resolution_s: float = 0.0
    """How far `seconds` may be off either way: the resolution of the counter, and the process's possible use in the
    time by which `window_s` is longer than the phase. 0 for a clock."""
    lower_bound: bool = False
    """The process ended or was restarted, or an edge could not be read: it used at least `seconds`."""
    window_s: float
    """Seconds between the two reads whose difference is `seconds`."""
    cores: float
    """`seconds` / `window_s`: cores used on average."""
    rss_bytes: int
    """At the last read of the phase."""
    peak_rss_bytes: int
    """Peak since the process started, as kept by the kernel; else the peak of the reads in this phase."""
    rss_resolution_bytes: int = 0
    """Largest change of memory between two scrapes: a peak between them may be higher by as much. 0 for a process whose
    peak the kernel keeps."""
    restarts: int = 0
    waiting_s: float | None = None
    """Seconds that its threads were runnable without a core, all together and children included: ten threads that wait
    for one second are ten. None where that was not measured."""


class Contention(msgspec.Struct, frozen=True, kw_only=True):
    """Use of the machine's cores in one phase: averages over the phase, in cores.

    None is "not measured". Where the cluster runs elsewhere, only `throttled_s` may be known.
    """

    cores: int | None = None
    """Cores that the run may use on this machine."""
    run_cores: float | None = None
    """Used by the processes of the run, recorder and harness included."""
    others_cores: float | None = None
    """Used by other programs: the rest of the busy time, the kernel's own work included."""
    steal_cores: float | None = None
    """Taken by the hypervisor."""
    iowait_cores: float | None = None
    """Idle while something waited for a disk."""
    idle_cores: float | None = None
    others_share: float | None = None
    """(`others_cores` + `steal_cores`) / `cores`."""
    pressure_share: float | None = None
    """Share of the phase in which some runnable thread of the machine had no core (``some`` of /proc/pressure/cpu)."""
    quota_cores: float | None = None
    """CPU quota of the recorder's cgroup; None also without a quota, where `throttled_s` is 0."""
    throttled_s: float | None = None
    """Seconds that the quota throttled the cgroup, all cores together; for a cluster elsewhere, the scraped containers'
    (``container_cpu_cfs_throttled_seconds_total``)."""
    throttled_share: float | None = None
    """`throttled_s` / (`cores` × seconds of the phase), of this machine's cgroup."""
    waited_s: float | None = None
    """Seconds that the run waited for a quiet machine before the phase (``--grovescale-wait-quiet``); None where it did
    not."""


class ApiRow(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one kind by one identity that the API server received in one phase."""

    identity: str
    """Role (``operator``, ``harness`` …); the user name for a user without a role; ``a+b`` for roles that share one
    user."""
    user: str
    verb: str
    resource: str
    """``pods``, ``podcliquesets.grove.io/status``; the first part of the path for a non-resource request."""
    code: int
    category: Category
    dry_run: bool = False
    count: int
    p50_ms: float
    """Median of the server's time per request, from received to complete; to the first byte for a watch."""
    p99_ms: float


TrafficSource = Literal["audit", "metrics", ""]
"""Source of a phase's API traffic: the API server's audit log, by identity, verb and resource; the operator's own
``rest_client_requests_total``, by HTTP method; or none."""


class ClientRow(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that the operator's client counted in one phase, of one HTTP method and status code.

    All of its requests: objects, Leases, Events and reviews alike, watches as GET.
    """

    method: str
    """``GET``, ``POST``, ``PUT``, ``PATCH``, ``DELETE``."""
    code: str
    """The answer's status code; ``<error>`` without an answer."""
    count: int
    """From the scrape before the phase to the one after it."""
    total: int
    """Since the operator's start. A method with a total of 0 may be one that its client doesn't count."""


class IncidentResult(msgspec.Struct, frozen=True, kw_only=True):
    """An incident in a phase: of a measured process, or of the cluster under it."""

    kind: IncidentKind
    subject: str
    detail: str = ""
    after_s: float
    """Seconds from the phase's start until it was noticed."""


DisruptionKind = Literal["component-restart", "component-exit", "stall", "busy-recorder", "watch-gap", "audit-gap"]
"""``component-restart``: a component of the control plane was replaced by another process, or absent, for a part of the
phase; ``component-exit``: it did not come back in the phase; ``stall``: a process that the figures depend on did not
run or did not answer, or the machine was suspended; ``busy-recorder``: the recorder saw everything late, and nothing
else was wrong; ``watch-gap``: events that a milestone counts may have been missed; ``audit-gap``: lines of the audit
log are missing."""


WHOLE_PHASE: tuple[DisruptionKind, ...] = ("component-restart", "component-exit", "stall")
"""Disruptions that may have changed every figure of their phase; the others affect some of them."""


class Disruption(msgspec.Struct, frozen=True, kw_only=True):
    """A disruption of a phase's measurement, so that figures may be wrong and look right.

    Checks of the phase are inconclusive, except for those that it cannot affect; see `checks.judge`.
    """

    kind: DisruptionKind
    subject: str
    """``kube-apiserver``, ``recorder``, ``machine``, ``audit log``, or the watched resource."""
    from_s: float
    """Seconds from the phase's start; negative where it began before."""
    to_s: float | None = None
    """None: it lasted beyond the phase."""
    text: str
    """A sentence without its end: ``kube-apiserver was restarted 4.2 s into steady-state``."""
    uncertain: tuple[str, ...] = ()
    """Figures of the phase that it may have changed: ``milestone ready``, ``CPU``, ``API traffic``."""


class StrayPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of the run on a node that is not simulated."""

    pod: str
    """``namespace/name``."""
    node: str


class PodPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Placement of the run's pods, on a cluster that has other nodes beside the simulated ones."""

    simulated: int
    """Pods on the run's simulated nodes."""
    elsewhere: int
    strays: tuple[StrayPod, ...] = ()
    """The first 10 pods on other nodes."""


ReconcileSource = Literal["controller-runtime", "work-queue"]
"""The operator's counter of reconciles: ``controller_runtime_reconcile_total``, or
``workqueue_work_duration_seconds_count``: items that workers have taken from a client-go queue and given back."""


class ReconcileRow(msgspec.Struct, frozen=True, kw_only=True):
    controller: str
    """The controller, or the work queue that is named after it."""
    result: str
    """How it ended; empty where the operator's counters do not show it (work queues)."""
    count: int
    lower_bound: bool = False
    """The counter was reset in the phase: the count is a lower bound."""
    source: ReconcileSource = "controller-runtime"
    objects: int | None = None
    """Objects of the controller's kind that existed in the phase, where a watched resource has the controller's name;
    None where none has."""


IdleKind = Literal["object", "watch", "lease", "event", "review", "nonresource"]
"""`Category` of a request in an idle window; ``watch``: one that was opened again, whatever of."""


class IdleRow(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one verb and resource by the operator in an idle window."""

    what: str
    """Verb and resource: ``list pods``, ``update leases.coordination.k8s.io``."""
    kind: IdleKind
    count: int
    bursts: int
    """How often they came: requests within 0.2 s of each other are one burst."""
    period_s: float | None = None
    """Seconds from one burst to the next, where they come regularly: within the window, or in the whole run."""


class IdleController(msgspec.Struct, frozen=True, kw_only=True):
    """Reconciles of one controller in an idle window, between the first scrape in it and the last."""

    controller: str
    count: int
    objects: int | None = None
    """As of `ReconcileRow`."""


class IdleWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which nothing changed but by the operator itself, and what the operator did in it."""

    phase: str
    start_s: float
    """Seconds from the phase's start."""
    seconds: float
    rested: bool = False
    """Whether it begins with its phase: an idle twin, or a phase before which nothing had changed for a second. Others
    follow a change by a second, and may hold work that it caused."""
    objects: int
    """Objects of the resource that the test's figures are related to, which existed at its end."""
    requests: dict[IdleKind, int] = {}
    """The operator's requests; all kinds are named, also those of which there were none."""
    rows: tuple[IdleRow, ...] = ()
    """The same by verb and resource, the most frequent first."""
    cpu_s: float | None = None
    """CPU seconds in `cpu_window_s`; None where the operator's clock was not read twice in the window."""
    cpu_window_s: float = 0.0
    reconciles: tuple[IdleController, ...] = ()
    """Of each controller, also those that made none; empty where the operator was not scraped twice in the window."""
    reconciles_window_s: float = 0.0
    """Seconds between the two scrapes; 0 without them."""
    allocated_bytes: int | None = None
    """Memory that the operator allocated in `reconciles_window_s`, where its runtime's metrics have it."""

    @property
    def covers_s(self) -> float:
        """The longest period of which the window shows two occurrences for certain, s."""
        return self.seconds / 2


class BlockedSpell(msgspec.Struct, frozen=True, kw_only=True):
    """An interval in which a controller's workers waited inside reconciles while keys waited for a worker."""

    start_s: float
    """Seconds from the phase's start; as exact as the scrape interval."""
    end_s: float
    starved: bool = False
    """No reconcile ended in the whole interval."""


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One controller's workers in one phase, by the operator's own metrics and its CPU clock.

    Rates are over the phase's scrapes, from the first to the last; None where the operator's metrics do not show them.
    """

    controller: str
    """The controller, or the work queue that is named after it."""
    workers: int | None = None
    """Maximum concurrent reconciles; None where only its queue's metrics are served."""
    active_share: float | None = None
    """S: active workers / `workers`, on average over the scrapes."""
    unfinished_growth: float | None = None
    """B: seconds per second by which the unfinished work grows older: how many workers are stuck."""
    busy_workers: float | None = None
    """W: seconds per second that workers spent in reconciles, ended or not."""
    finished_per_s: float | None = None
    """μ: reconciles that ended, per second."""
    cores_per_worker: float | None = None
    """κ: CPU seconds of the whole operator per second that one of this controller's workers was busy."""
    depth_max: int | None = None
    """Peak number of keys that waited in its queue."""
    longest_s: float | None = None
    """Longest age of a running reconcile at any scrape."""
    scrapes: int = 0
    blocked: tuple[BlockedSpell, ...] = ()
    """As `no_blocked_workers()` finds them with its defaults."""
    problem: str = ""
    """Why blocked workers cannot be detected: too few scrapes."""

    @property
    def blocked_s(self) -> float:
        """Seconds of the phase in which its workers were blocked."""
        return sum(spell.end_s - spell.start_s for spell in self.blocked)


class Saturation(msgspec.Struct, frozen=True, kw_only=True):
    busy_share: float
    """CPU seconds of all processes whose clocks were read / (cores × seconds of the phase); 1 is all cores all the
    time."""
    saturated: bool
    """At least 95 %: wall times of this phase reflect the machine, not the operator."""
    saturated_s: float | None = None
    """Saturated seconds of the phase, from the 1 s timeline."""
    busiest: tuple[str, ...] = ()
    """Processes by CPU, busiest first."""
    terminated_watchers: int | None = None
    """Watch disconnects because a watcher could not keep up (apiserver_terminated_watchers_total)."""


class MarkResult(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    started_s: float
    ended_s: float | None = None
    """None for a moment, and for an action that had not ended when the recording did."""
    detail: str = ""
    count: int = 0


class LateResult(msgspec.Struct, frozen=True, kw_only=True):
    """An object that kept a milestone from being met in time."""

    milestone: str
    object: ObjectRef
    owner: str = ""
    reason: str = ""
    events: tuple[str, ...] = ()


class FunctionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One function in a profile: a row of its function table."""

    function: str
    """Display name, as in source code: ``reconcile (podclique/reconciler.py)``, ``pkg.(*Type).Method``."""
    module: str
    """File or package, for filters."""
    self_samples: int
    """Samples in which it was the innermost function."""
    samples: int
    """Samples in which it was anywhere on the stack; one that calls itself counts once a sample."""
    share: float
    """`samples` / all on-CPU samples of the profile."""
    share_low: float
    """Wilson's 95 % interval of `share`."""
    share_high: float
    cpu_s: float | None = None
    """`share` × the process's exact CPU seconds in this phase, from the pass without a profiler; None without it."""


class ProfileResult(msgspec.Struct, frozen=True, kw_only=True):
    """A profile of one process in one phase."""

    process: str
    kind: ProfileKind
    file: str
    """The raw file, relative to the run's folder; empty where there is none."""
    more_files: tuple[str, ...] = ()
    """Raw files of further captures in the same phase, in order, summed with the first: the process was restarted, or
    its profile came in slices."""
    folded: str = ""
    """The same as folded stacks (``a;b;c 12`` a line)."""
    speedscope: str = ""
    """The same as speedscope JSON."""
    samples: int | None = None
    """On-CPU samples."""
    independent: float | None = None
    """Number of independent samples they are worth, from which the intervals are computed: fewer where the process
    waited for a core and was sampled repeatedly in one place."""
    errors: int | None = None
    coverage: float = 0.0
    """Share of the phase's time that the profile covers."""
    cpu_s: float | None = None
    """Exact CPU seconds of the pass without a profiler, the base of the functions' shares."""
    profiled_cpu_s: float | None = None
    """The same of the profiling pass: the difference is the profiler's cost."""
    repeated: float = 1.0
    """Triggers of the profiling pass for each of the measuring pass's; they are repeated to get enough samples."""
    functions: tuple[FunctionRow, ...] = ()
    """By `samples`, most first, of CPU profiles; empty where `problem` says why."""
    problem: str = ""
    """Why there is no profile or no table: too few samples, too many errors, the profiler's own message."""


Suspect = Literal[
    "operator-cpu",
    "operator-core-wait",
    "operator-queue",
    "operator-rate-limit",
    "operator-api",
    "operator-idle",
    "api-server",
    "api-server-core-wait",
    "scheduler",
    "scheduler-core-wait",
    "kwok",
    "kwok-core-wait",
    "garbage-collector",
    "workload-controllers",
    "controller-manager-core-wait",
    "machine",
    "unattributed",
]
"""What a phase's time is attributed to: the operator's CPU use; its keys waiting for a worker; its client-side rate
limit; its requests at the API server; nothing that it did while it was waited for; the API server's CPU; pods waiting
for the scheduler or for kwok; deletions waiting for the garbage collector; objects waiting for Kubernetes' workload
controllers (Deployment, Job …) to make or change them; a saturated machine; unattributed time (idle gaps).
``…-core-wait``: the same, while the process that was waited for was runnable without a core; ``api-server-core-wait``
is that of API server and etcd, while requests of any suspect were under way."""


class BottleneckRow(msgspec.Struct, frozen=True, kw_only=True):
    """Share of a phase's wall time attributed to one suspect, working or waited for."""

    suspect: Suspect
    seconds: float
    share: float
    """Of the phase. Contributing factors overlap: shares need not add up to 1."""
    evidence: str
    """Source of the figure, in words."""


Verdict = Literal["pass", "fail", "inconclusive"]

CheckVerdict = Literal["pass", "fail", "inconclusive", "not enforced"]
"""``not enforced``: an exceeded budget in a run with ``--grovescale-budgets=off``."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check of one run."""

    check: str
    """The check with its arguments, as in code: ``noop_writes(max=0)``."""
    subject: str = ""
    """The judged figure in words: ``operator CPU``. `text` begins with it; empty where nothing could be judged."""
    id: str = ""
    """The same in every run with this check: ``cpu.deploy``; see `checks.check.id_of`."""
    phase: str = ""
    verdict: CheckVerdict
    figure: float | None = None
    """The measured value; None when not measured."""
    bound: float | None = None
    unit: str = ""
    text: str
    """One line: figure, bound, and why it is inconclusive."""
    evidence: tuple[str, ...] = ()
    source: str = ""
    """Where it is declared: ``budgets.yaml:12``, ``marker``, ``test``."""


Severity = Literal["defect", "waste", "note"]
"""``defect``: wrong, whatever the load; ``waste``: work without effect; ``note``: worth a look, possibly intended."""


SEVERITIES: tuple[Severity, ...] = ("defect", "waste", "note")
"""The most severe first."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with the operator, found without a declared bound."""

    id: str
    """The rule: ``left-behind``."""
    severity: Severity
    text: str
    """One sentence with figures."""
    evidence: tuple[str, ...] = ()
    check: str = ""
    """The check that would enforce it, as in code: ``noop_writes(max=0)``; empty: none does."""


class PhaseResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    outcome: Outcome
    message: str = ""
    started: str
    """ISO 8601, UTC."""
    seconds: float
    timeout_s: float
    hold_s: float = 0.0
    milestones: tuple[MilestoneResult, ...] = ()
    cpu: tuple[CpuResult, ...] = ()
    api: tuple[ApiRow, ...] = ()
    """Without `audit_complete`, the requests that were read: a lower bound."""
    traffic_source: TrafficSource = ""
    """The best available source of the phase's API traffic; with ``metrics`` the figures are in `client_requests`, for
    the operator only."""
    client_requests: tuple[ClientRow, ...] = ()
    """The operator's requests by its own count; empty where `missing` says why."""
    reconciles: tuple[ReconcileRow, ...] = ()
    workers: tuple[WorkerRow, ...] = ()
    """Of each controller that reconciled or had keys in its queue; empty where `missing` says why."""
    saturation: Saturation | None = None
    contention: Contention | None = None
    """Use of the machine's cores; None where `missing` says why."""
    audit_complete: bool = False
    """Whether the audit log was read without a gap from the phase's start to its end."""
    series: int | None = None
    """Series that the operator's metrics endpoint served at the phase's end; None when it was not scraped."""
    identities_seen: tuple[str, ...] = ()
    """Identities that the audit log named from the recording's start to this phase's end."""
    triggers: int = 0
    """No-op triggers that the harness marked."""
    trigger_writes: int | None = None
    """Successful object writes by the harness from the first trigger on; None without a complete audit log."""
    written: tuple[ObjectRef, ...] = ()
    """The first 10 objects that the operator wrote to in a phase with triggers, as far as the audit log names them."""
    late: tuple[LateResult, ...] = ()
    marks: tuple[MarkResult, ...] = ()
    incidents: tuple[IncidentResult, ...] = ()
    disruptions: tuple[Disruption, ...] = ()
    """In the order in which they began."""
    profiled: bool = False
    """As of its test: CPU budgets are not judged."""
    profiles: tuple[ProfileResult, ...] = ()
    bottlenecks: tuple[BottleneckRow, ...] = ()
    """Largest first; empty where `missing` says why."""
    bottleneck: str = ""
    """The same as one line."""
    idle_twin: str = ""
    """Name of the phase of the same length without a trigger that this steady-state phase is compared with."""
    missing: dict[str, str] = {}
    """What was not measured → why. Keys: ``audit``, ``client_requests``, ``reconciles``, ``workers``, ``saturation``,
    ``contention``, ``bottlenecks``, ``cpu:<process>``, ``profile:<process>``, and ``cpu`` when no process could be
    read."""


class WatchResult(msgspec.Struct, frozen=True, kw_only=True):
    watch: str
    resource: str
    objects: int
    """Number of objects in the initial list."""
    events: int
    cuts: int
    cut_s: float
    """Sum of the disconnects' lengths."""
    gaps: int
    gap_s: float


class WatchLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far the watch was behind the API server: events whose write is known for certain."""

    events: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class RecorderCost(msgspec.Struct, frozen=True, kw_only=True):
    cpu_s: float
    share: float | None
    """Of the CPU seconds of all measured processes; None when no other was measured."""
    peak_rss_bytes: int


VerdictKind = Literal["collision", "duplicate", "refinement", "novel", "unmoved"]
"""``collision``: the name of a built-in family with another type or labels; ``duplicate``: the same information as
another family, or less; ``refinement``: adds up to another family over labels of its own; ``unmoved``: it never
changed, so it is undetermined."""


class FamilySummary(msgspec.Struct, frozen=True, kw_only=True):
    """A family of the program's own on a metrics endpoint, which none of its libraries defines."""

    family: str
    type: MetricType = "unknown"
    series_first: int
    """At the first scrape."""
    series_last: int
    series_peak: int


class FamilyVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Relation of a family of the program's own to the others of its endpoint, by value over the run."""

    family: str
    kind: VerdictKind
    other: str = ""
    """The family that it duplicates, refines, or collides with."""
    of_own: bool = False
    """Whether that family is the program's own, too, not a built-in one."""
    query: str = ""
    """PromQL that gives the same from the other."""
    why: str = ""

    @property
    def refused(self) -> bool:
        """Whether it is at fault. A duplicate of another of the program's own is only a likely fault."""
        return self.kind in ("collision", "duplicate") and not self.of_own


class RetypedFamily(msgspec.Struct, frozen=True, kw_only=True):
    """A family that an endpoint described with another type than before: a former counter may have decreased."""

    family: str
    before: MetricType
    after: MetricType
    when: str
    """The first scrape with the new type: ``4.2 s into deploy``."""


class TargetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One metrics endpoint during a recording. Series are counted as a Prometheus would store them."""

    target: str
    scrapes: int
    """Successful ones."""
    failures: int = 0
    """Failures in the recording; a continuing one may be recorded once."""
    failure: str = ""
    """Reason of the last failure."""
    up_share: float
    """Share of the time from the first scrape to the last (failed ones included) in which the latest had succeeded."""
    series_first: int | None = None
    """None where no scrape succeeded; so are the next two."""
    series_last: int | None = None
    series_peak: int | None = None
    families: int = 0
    """At the last scrape."""
    own: tuple[FamilySummary, ...] = ()
    """Most series first; possibly fewer than `own_families`."""
    own_families: int = 0
    verdicts: tuple[FamilyVerdict, ...] = ()
    """Of each family of the operator's own, by name; empty where they were not analysed, as for other endpoints."""
    retyped: tuple[RetypedFamily, ...] = ()
    """The first of `type_changes`, in their order."""
    type_changes: int = 0
    took_p50_ms: float | None = None
    """From the request to the answer read and parsed."""
    took_p99_ms: float | None = None


class StackGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Threads, tasks or goroutines of one dump whose stacks are equal."""

    kind: Literal["reconcile worker", "goroutine", "task", "thread"]
    count: int
    of: int
    """Total of that kind in the dump."""
    waits_for_key: bool = False
    """Whether they are idle workers, waiting for a key."""
    function: str
    """Innermost function of the operator's own code: ``recorder.RecordErrors``."""
    place: str
    """Its file and line."""
    state: str = ""
    """State of the first one: ``chan receive``; empty where the dump has none."""
    frames: tuple[str, ...]
    """The whole stack, ``function (file:line)``, innermost first."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Text kept as evidence: a process's last log lines, a stack dump."""

    source: str
    """``log:operator``, ``stacks:operator``."""
    phase: str
    """The last phase that had begun; empty before the first."""
    lines: tuple[str, ...]
    """As recorded. Of a dump that was read into ``stacks`` in a run whose phases passed, only its remarks; the
    recording has all of it."""
    stacks: tuple[StackGroup, ...] = ()
    """A dump's stacks: those of reconcile workers first, then by size of the group."""


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of one recording. A recording belongs to one test."""

    __test__: ClassVar[bool] = False  # pytest: not a test class, whatever its name

    test: str
    recording: str = ""
    """Path of the recording, relative to the run's folder."""
    run: str
    version: str
    verdict: TestVerdict = "interrupted"
    """From pytest's outcome and the checks; the verdict that counts. A recording alone has only `scenario_outcome`."""
    scenario_outcome: Outcome
    """How its phases and the recording ended."""
    ended: TestOutcome | None = None
    """pytest's outcome; None when the test did not get that far."""
    error: str = ""
    """The error that ended the test's function, in a phase or between two: ``ApiError: …``. Empty: no error did."""
    failure: str = ""
    """The failed assertion or budget of the test; empty: none failed. The phases may still have passed."""
    started: str
    seconds: float
    machine: Machine
    parameters: dict[str, Scalar] = {}
    command: str = ""
    """The command that repeats the test, for the project's root folder; empty where the recording has none."""
    cluster: dict[str, Scalar] = {}
    identities: dict[str, str] = {}
    audited: bool = True
    """Whether the API server's audit log is a source of the recording."""
    attempt: int = 1
    """Number of the test's run in one run of pytest: a rerun of a failed or crashed test is another one."""
    attempts: int = 1
    """Number of runs; the last one counts."""
    contention_limit: float = 0.10
    """Share of the cores that other programs and steal may take before timing-dependent figures count as inflated."""
    disturbed: str = ""
    """Why others may have used the cluster during the test, which makes its checks inconclusive; else empty."""
    closed: str = ""
    """Why the recorder stopped; empty when not recorded (killed, or still running)."""
    closed_message: str = ""
    profiled: bool = False
    """Whether profilers were attached: its CPU times include their cost, and CPU budgets are not judged by them."""
    phases: tuple[PhaseResult, ...] = ()
    declared: tuple[CheckDeclared, ...] = ()
    """The checks that apply to it; `checks.judge` judges them."""
    checks: tuple[CheckResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What is wrong with the operator, the most severe first; see `analysis.findings`."""
    idle: tuple[IdleWindow, ...] = ()
    """Idle windows, the longest first; empty without one, or without a complete audit log."""
    findings_off: dict[str, str] = {}
    """Rules that the operator's definition switches off → the reason that it gives."""
    floors: dict[str, float] = {}
    """Milestone, or ``phase/milestone``, → seconds that the test measured for it where the operator costs nothing."""
    watches: tuple[WatchResult, ...] = ()
    watch_lag: WatchLag | None = None
    recorder: RecorderCost | None = None
    metrics: tuple[TargetSummary, ...] = ()
    """Every endpoint that was scraped, the operator's first."""
    operator_start_s: float | None = None
    """Duration of the operator's start until it was ready; None where the test started none, or found one running."""
    pod_places: PodPlaces | None = None
    """None where all nodes of the cluster are simulated, and where no watch shows the placement."""
    warnings: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    objects: int | None = None
    """The largest number of objects that a milestone counts; figures per object are divided by it."""
    objects_resource: str = ""

    @property
    def disrupted(self) -> str:
        """The first disruption that makes all figures of a phase uncertain; empty without one."""
        texts = (one.text for phase in self.phases for one in phase.disruptions if one.kind in WHOLE_PHASE)
        return next(texts, "")

    @property
    def superseded(self) -> bool:
        """Whether a rerun replaces it: this run is kept, but does not count."""
        return self.attempt < self.attempts


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run: all its recordings."""

    schema_version: int = SCHEMA_VERSION
    run: str
    version: str
    """Version of pytest-grovescale that recorded it."""
    machine: Machine | None
    """None when its recordings come from different machines; each test has its own."""
    verdict: TestVerdict
    """The worst of its tests' verdicts; of a rerun test, of its last run."""
    scenario_outcome: Outcome
    """The worst of its tests' `scenario_outcome`, in the same way."""
    started: str
    tests: tuple[TestResult, ...] = ()
    warnings: tuple[str, ...] = ()
