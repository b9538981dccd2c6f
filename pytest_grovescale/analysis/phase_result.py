"""The result of one phase: milestones, CPU, API traffic, attribution of time, disruptions, profiles."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..recording.records import FaultKind, IncidentKind, ObjectRef, ProfileKind
from .controller_result import ReconcileRow, Saturation, WorkerRow

Outcome = Literal["passed", "failed", "timeout", "interrupted", "unfinished"]
"""``unfinished``: the recording ends before the phase did (still running, or killed)."""

Category = Literal["object", "lease", "event", "review", "nonresource"]
"""Category of a request. ``review``: authentication and authorization (TokenReview, SubjectAccessReview, TokenRequest),
which store nothing; ``object`` is everything else that names a resource."""

Clock = Literal["server", "watch", "recorder"]
"""``server``: the API server's audit log names the write; ``watch``: when the recorder received the event;
``recorder``: without an event (a timer, or a condition that held from the start)."""


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
    overtaken: int = 0
    """Of these, JSON patches answered 422 since another write had come first, which went through at a later try: they
    are conflicts. 0 in results made before this field."""
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


class FaultRow(msgspec.Struct, frozen=True, kw_only=True):
    """Faults of one kind that requests of one verb and resource met."""

    kind: FaultKind
    verb: str
    resource: str
    """With group and subresource, as in `ApiRow`."""
    count: int


class FaultsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Faults between the operator and the API server in one phase, as ``scale.faults`` asks for, and what followed.

    What followed is None where no audit log covers the phase.
    """

    settings: tuple[str, ...]
    """What was in force, in order: ``conflict=0.02, latency=20ms, seed=1``."""
    seconds: float
    """How long, of the phase."""
    rows: tuple[FaultRow, ...] = ()
    repeated: int | None = None
    """Requests that met a fault and were made again; of those that name an object."""
    not_repeated: int | None = None
    delay_p50_s: float | None = None
    """Median delay from a fault to the repetition; None also where nothing was repeated."""
    delay_max_s: float | None = None
    waits_asked: int = 0
    """Answers with a Retry-After, to requests that name an object."""
    waits_ignored: int | None = None
    """Those of them that were repeated earlier."""
    watches_cut: int = 0
    watches_reopened: int | None = None
    recovery_s: float | None = None
    """From the last fault until all milestones were met; in a phase without any, until the operator's last request.
    None where no fault happened, or it did not recover."""

    @property
    def total(self) -> int:
        """All faults; added latency is none."""
        return sum(row.count for row in self.rows)


DisruptionKind = Literal["component-restart", "component-exit", "stall", "busy-recorder", "watch-gap", "audit-gap"]
"""``component-restart``: a component of the control plane was replaced by another process, or absent, for a part of the
phase; ``component-exit``: it did not come back in the phase; ``stall``: a process that the figures depend on did not
run or did not answer, or the machine was suspended; ``busy-recorder``: the recorder saw everything late, and nothing
else was wrong; ``watch-gap``: events that a milestone counts may have been missed; ``audit-gap``: lines of the audit
log are missing."""


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
    "containers",
    "garbage-collector",
    "namespace-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "endpointslice-controller",
    "workload-controllers",
    "controller-manager-core-wait",
    "machine",
    "held",
    "unattributed",
]
"""What a phase's time is attributed to: the operator's CPU use; its keys waiting for a worker; its client-side rate
limit; its requests at the API server; nothing that it did while it was waited for; the API server's CPU; pods waiting
for the scheduler or for kwok; containers that run until they end; objects waiting for a controller of the controller
manager, each by its own identity in the audit log (``workload-controllers``: all others; where all have one identity,
its deletions are ``garbage-collector``, and what it made or changed ``workload-controllers``); a saturated machine; the
test, which held the phase after its last milestone; unattributed time (idle gaps).
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


class WriteEffects(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator's successful updates and patches from the first trigger on did to their objects."""

    writes: int
    """Those to objects of watched collections."""
    without_effect: int
    """Those that left the object as it was, in the same resourceVersion: more writes than the watch has changes. A
    lower bound where others than the harness write, too."""


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
    missing_rights: tuple[str, ...] = ()
    """What the operator was refused since no role grants it: ``list pods (403, 4 times)``, the most frequent first."""
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
    under_way: str = ""
    """What still went on when the first of them came, in words, so that more than the triggers may have caused what
    followed."""
    counts_no_reconciles: bool = False
    """Whether the operator counts none at all: it serves no metrics, or no counter that is known."""
    trigger_writes: int | None = None
    """Successful object writes by the harness from the first trigger on; None without a complete audit log."""
    written: tuple[ObjectRef, ...] = ()
    """The first 10 objects that the operator wrote to in a phase with triggers, as far as the audit log names them."""
    write_effects: WriteEffects | None = None
    """Of a phase with triggers; None without a complete audit log, and where no written object is watched."""
    late: tuple[LateResult, ...] = ()
    marks: tuple[MarkResult, ...] = ()
    incidents: tuple[IncidentResult, ...] = ()
    disruptions: tuple[Disruption, ...] = ()
    """In the order in which they began."""
    faults: FaultsResult | None = None
    """Faults between the operator and the API server; None where none were in force."""
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
