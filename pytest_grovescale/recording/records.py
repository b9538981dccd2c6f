"""The journal's records: the contents of a recording, line by line.

A recording is a file of JSON lines, one record each, in the order in which the recorder learned of them. The
first record is ``Opened``; a complete recording ends with ``Closed``; one that ends anywhere else was cut short
and is still readable up to its last whole line.

All times are integers, ns. ``at`` is the recorder's clock: the wall clock at its start plus monotonic time
since, so it never steps. Times named ``*_wall`` were read from another process' wall clock (the API server's);
``ClockStep`` holds the difference between wall clock and recorder's clock from then on.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from ..exposition.families import Family, NativeHistogram
from ..kube.faults.settings import FaultKind as FaultKind
from ..kube.resources import UPDATES as UPDATES
from ..kube.resources import WRITES as WRITES
from .conditions import Condition, WatchSpec

SCHEMA_VERSION = 1


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False):
    """Base of all records."""

    at: int
    """Recorder's clock, ns since the epoch."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that the run used. Absolute figures are comparable where ``fingerprint`` is equal."""

    fingerprint: str
    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    python: str


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One object, by name."""

    resource: str
    """Plural with group, such as ``pods`` or ``podcliquesets.grove.io``."""
    namespace: str = ""
    name: str = ""


class ReconcileCounter(msgspec.Struct, frozen=True, kw_only=True):
    """The counter of an operator's reconciles."""

    counter: str
    """Name of the series: ``shop_reconciles_total``."""
    controller_label: str = ""
    """Label with the controller's name; empty: all are of `controller`."""
    result_label: str = ""
    """Label with the result, ``error`` for one that failed; empty: it has none."""
    controller: str = ""


class Opened(Record, tag="opened", frozen=True, kw_only=True):
    schema_version: int
    run: str
    """Id of the run (one pytest session or command); several recordings may share it."""
    test: str
    """What is recorded: a pytest node id or the name of a command."""
    version: str
    """Version of pytest-grovescale that wrote it."""
    machine: Machine
    cluster: dict[str, str | int | float | bool] = {}
    """Facts about the cluster and the limits in force, flat: backend, kubernetes, nodes, apiserver flags …"""
    identities: dict[str, str] = {}
    """Role → user name in the audit log: operator, harness, recorder, kube-scheduler, kwok …"""
    parameters: dict[str, str | int | float | bool] = {}
    """The run's parameters: operator, variant, replicas …"""
    command: str = ""
    """Command that repeats the test with the same options; to be run in the project's root folder."""
    audited: bool = False
    """Whether the API server's audit log is a source of this recording."""
    profiled: bool = False
    """Whether profilers are attached in its phases: its CPU times then include their cost, and gate nothing."""
    contention_limit: float = 0.10
    """Share of the machine's cores that other programs and steal may take before figures count as inflated."""
    findings_off: dict[str, str] = {}
    """Rules of findings that the operator's definition switches off → its reason."""
    reconciles: ReconcileCounter | None = None
    """The counter of reconciles that the operator's definition names."""
    simulated_nodes: dict[str, int] = {}
    """Prefix → number of nodes created for this run, named ``<prefix>-0`` and so on, on a cluster that also has other
    nodes. Empty: all of its nodes are simulated."""


class PhaseStarted(Record, tag="phase-started", frozen=True, kw_only=True):
    phase: str
    timeout_ns: int
    hold_ns: int = 0
    twin_of: str = ""
    """The steady-state phase whose idle twin this one is: of equal length, without a trigger."""


class PhaseEnded(Record, tag="phase-ended", frozen=True, kw_only=True):
    phase: str
    outcome: Literal["passed", "failed", "timeout", "interrupted"]
    message: str = ""


class MilestoneDeclared(Record, tag="milestone", frozen=True, kw_only=True):
    phase: str
    name: str
    condition: Condition


class MilestoneMet(Record, tag="met", frozen=True, kw_only=True):
    """The first moment at which the condition held; a milestone latches."""

    phase: str
    name: str
    watch: str = ""
    """The watch whose event met it; empty for a timer and for a condition that held from the start."""
    object: ObjectRef | None = None
    """The object whose event met it."""
    resource_version: str = ""
    uncertainty_ns: int = 0
    """How much earlier it may have been: length of the watch disconnect or gap that it fell into."""


class Mark(Record, tag="mark", frozen=True, kw_only=True):
    """An action of the harness: ``apply``, ``trigger``, ``scale``, ``delete``, ``operator-start`` …"""

    label: str
    state: Literal["begin", "end", "now"] = "now"
    detail: str = ""
    count: int = 0


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the definition of a custom resource says of its objects, in the version that is watched."""

    status: list[str] = []
    """Names of the fields right below status."""
    subresource: bool = False
    """Whether the status is a subresource."""
    scale: dict[str, str] = {}
    """``replicas`` and ``selector`` → the path by which its scale subresource reads them, ``status.replicas``."""
    blank_columns: dict[str, str] = {}
    """Columns of ``kubectl get`` with a field that no object can have → its JSONPath."""


class WatchOpened(Record, tag="watch-opened", frozen=True, kw_only=True):
    watch: str
    """Id that later records use for this watch."""
    spec: WatchSpec
    mode: Literal["stream", "list"]
    """``stream``: sendInitialEvents; ``list``: LIST, then WATCH (older servers)."""
    declared: Declared | None = None
    """None: no custom resource, or its definition could not be read; older recordings do not say it."""


class WatchLive(Record, tag="watch-live", frozen=True, kw_only=True):
    """The initial events are complete; from here on the store is, too."""

    watch: str
    objects: int
    resource_version: str = ""


class WatchCut(Record, tag="watch-cut", frozen=True, kw_only=True):
    """The stream ended and was resumed at the same resourceVersion: events were delayed, none lost."""

    watch: str
    reason: str
    resource_version: str = ""
    length_ns: int = 0
    """From the last event or bookmark before the disconnect until the stream was open again."""


class WatchGap(Record, tag="watch-gap", frozen=True, kw_only=True):
    """The resourceVersion was gone (410): a new list replaces the events in between."""

    watch: str
    reason: str
    length_ns: int = 0


DifferenceKind = Literal["none", "generation", "time", "counter", "order", "bookkeeping", "content"]
"""``none``: only ``resourceVersion``, ``managedFields`` or a part that is not compared (owners, finalizers);
``generation``: a field outside of the parts that are compared; ``time``, ``counter`` (of attempts), ``order`` (a list
with the same elements): nothing else; ``bookkeeping``: several of these; ``content``: anything else."""


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an object differs from its version before; without values."""

    kind: DifferenceKind
    paths: list[str] = []
    """Fields that differ, at most eight; elements of a list have one path: ``status.conditions[].message``."""
    back: list[str] = []
    """Of these, those that have the value again that they had before the last change."""
    moved: int = 0
    """Conditions of the status whose ``lastTransitionTime`` is another one, and whose status is not."""
    grown: int = 0
    """Bytes of JSON by which the compared parts became larger; below zero: smaller."""


class ObjectSeen(Record, tag="object", frozen=True, kw_only=True):
    """One watch event, reduced to the fields that this watch keeps."""

    watch: str
    change: Literal["added", "modified", "deleted"]
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    initial: bool = False
    """Part of the initial events, or derived from a new list after a gap."""
    fields: dict[str, Any] = {}
    """Field path → value; without the paths that the object lacks."""
    owner: str | None = None
    """UID of the owner that controls it, else of its first owner; empty without one. None: as in the event before, or,
    in recordings made before this field, unknown."""
    owner_kind: str = ""
    """Kind of that owner in lower case, with its group: ``podcliqueset.grove.io``; where ``owner`` has a UID."""
    owner_version: str = ""
    """API version by which the reference names it, without the group: ``v1``; recordings made before this field do not
    say it."""
    finalizers: list[str] | None = None
    """None: as in the event before; see `owner`."""
    controlled: bool | None = None
    """Whether one of its owners is its controller; None: as in the event before, or unknown."""
    difference: Difference | None = None
    """None: not compared, or nothing to compare with."""
    numbers: dict[str, str | int] = {}
    """Path → value of whole numbers and phases right below spec and status, the length of lists right below spec
    (``spec.components[]``), ``metadata.generation``, and the status of conditions; those that changed. Not of pods, nor
    of objects that only a condition reads."""
    needs: list[str] = []
    """When it was first seen: what it names and needs in its namespace, as ``configmaps/NAME``, and of custom resources
    checksums of what may be names, ``*/bf31d03``; see `object_references`. Older recordings say it of fewer kinds."""
    dropped: list[str] = []
    """When a custom resource's spec changed: checksums, as of ``needs``, of what may be names that it had, and has no
    more; empty in older recordings."""
    selects: str = ""
    """When it was first seen: a checksum of what it selects its pods by; empty without, and in older recordings."""
    selector: dict[str, str] = {}
    """When a Service or NetworkPolicy was first seen: label → value that it wants of its pods; older recordings do not
    say it."""
    labels: dict[str, str] = {}
    """Of a pod: label → value that no pod of its namespace had before, since this watch compares them; ``*`` for all
    further values of a label with a thousand. Older recordings do not say it."""
    exposed: list[str] = []
    """Changed fields of its annotations, status and data, and variables of containers, as ``env[NAME] in spec``, with
    what looks like a credential; never of a Secret."""
    written: list[str] = []
    """Fields right below its status, of those that the definition declares, that it is the first of the watch to have:
    with a value other than 0, none, or empty."""
    coarse: dict[str, int] = {}
    """Path of a new time in the status that is rounded to a minute, an hour or a day → that length, s."""


class Request(Record, tag="request", frozen=True, kw_only=True):
    """One line of the API server's audit log (level Metadata)."""

    user: str
    verb: str
    stage: Literal["ResponseStarted", "ResponseComplete", "Panic"] = "ResponseComplete"
    group: str = ""
    resource: str = ""
    """Plural; empty for a non-resource request."""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """Only for non-resource requests."""
    code: int = 0
    received_wall: int = 0
    completed_wall: int = 0
    """The write was committed between these two times."""
    dry_run: bool = False
    unlimited: bool = False
    """A LIST without a limit, of the newest state rather than the API server's cache (``resourceVersion=0``)."""
    unselected: bool = False
    """A WATCH without a label or field selector; recordings made before this field do not say it."""
    message: str = ""
    """Why a request was refused that no retry mends (400, 403, 413, 422), in the API server's words, redacted and cut;
    empty for Secrets, and in recordings made before this field."""

    @property
    def qualified(self) -> str:
        """Return ``pods`` or ``podcliquesets.grove.io``, as a WatchSpec names it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


OBJECTS = "objects"
"""Source of a `SourceFailed` for objects that are not followed, or not compared, since there are too many."""


class SourceFailed(Record, tag="source-failed", frozen=True, kw_only=True):
    """A source of the recording failed; its data is missing, not zero."""

    source: str
    """``audit``, ``cpu``, `OBJECTS`, ``scrape:<target>`` (at each edge of a phase, and between them when it is new),
    ``watch:<id>``, ``pods:<name>`` (events of these pods are missing), ``profile:<process>`` (of the phase before, if
    none is open), ``stacks:<process>``, ``condition:<phase>/<milestone>`` (it raised on an object; the milestone is
    unknown)."""
    message: str


class ProcessSeen(Record, tag="process", frozen=True, kw_only=True):
    """A process is measured from here on; a restarted one is seen again with its new pid."""

    process: str
    pid: int
    started_ticks: int
    """Field 22 of /proc/PID/stat; identifies the process together with its pid."""
    ran_ns: int = 0
    """How long it had been running by then; its start is known to 10 ms."""


class ProcessGone(Record, tag="process-gone", frozen=True, kw_only=True):
    process: str
    pid: int


class CpuRead(Record, tag="cpu", frozen=True, kw_only=True):
    """Exact CPU time of one process and its children since its start."""

    process: str
    pid: int
    cpu_ns: int
    reaped_ns: int = 0
    """Of that, of children that have ended, to a hundredth of a second; older recordings do not say it."""
    rss_bytes: int
    peak_rss_bytes: int = 0
    waiting_ns: int | None = None
    """Total time that its threads and its children's were runnable without a core, since it is measured or before: only
    differences are meaningful. Includes threads that ended, so it never decreases; None where the kernel does not count
    it. (Recordings made before this field have ``ready_ns``, for the main thread alone, which is ignored.)"""
    threads: int | None = None
    """Of it and its children; None where they were not read. Recordings of earlier versions have them at edges only."""
    files: int | None = None
    """Open files, without sockets, at edges; None where they were not read. ``sockets`` likewise."""
    sockets: int | None = None
    zombies: int | None = None
    """Children that have ended and that it has not waited for, at edges; older recordings have none."""
    accepted: int | None = None
    """TCP connections that its network namespace has accepted since it exists, of all its processes, at edges; older
    recordings have none."""
    edge: str = ""
    """``start:<phase>`` or ``end:<phase>`` for a read at a phase's edge; `SETTLED`, or that of a cycle; empty for the
    1 s timeline."""


class CoreTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Time use of the cores since boot, summed, ns in steps of a clock tick (proc_stat(5))."""

    cores: int
    """Online cores that the recorder may run on."""
    busy_ns: int
    """Running any code, interrupts included."""
    idle_ns: int
    """Idle, not waiting for a disk."""
    iowait_ns: int
    steal_ns: int
    """Taken by the hypervisor for other machines."""


class CgroupCpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The CPU limit of the recorder's cgroup, or of its ancestor with the lowest limit."""

    quota_cores: float | None = None
    """Number of cores that its processes may use together; None: no limit."""
    throttled_ns: int = 0
    """How long the kernel kept it from running because its quota was used up, summed over all cores."""


class MachineRead(Record, tag="machine", frozen=True, kw_only=True):
    """Use of the cores of the recorder's machine. Figures that cannot be read are None, never zero."""

    times: CoreTimes | None = None
    pressure_ns: int | None = None
    """Time since boot in which at least one runnable thread of the machine had no core: ``some`` of
    /proc/pressure/cpu."""
    cgroup: CgroupCpu | None = None
    edge: str = ""
    """As in `CpuRead`."""


class FaultInjected(Record, tag="fault", frozen=True, kw_only=True):
    """A request or a watch of the operator met a fault on its way to the API server."""

    kind: FaultKind
    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    """Also of an object to be made; ends in ``*`` where its name is to be generated, and is not known."""
    code: int = 0
    """What the operator was answered; 0: the connection was cut, or the watch ended."""
    applied: int = 0
    """What the API server itself answered; 0: the request did not reach it, and is not in its audit log."""
    retry_after_s: int = 0
    received_wall: int
    answered_wall: int

    @property
    def qualified(self) -> str:
        """Return ``pods`` or ``podcliquesets.grove.io``, as a WatchSpec names it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


SETTLED = "settled"
"""Label of the mark, and edge of the scrapes, after the last phase: the workload was gone and the operator had time to
react."""


CYCLES = "cycles"
"""Label of the mark before the first of several cycles; its count is how many of them fill caches."""


RESTART = "operator-restart"
"""Label of the marks around a restart of the operator that the test asked for."""

TOUCH = "touch"
"""Label of the marks around the change of an annotation of one object; their detail: ``pods a-namespace/a-name``."""


def cycle_edge(number: int) -> str:
    """Return the label of the mark, and the edge of scrapes and reads, after a cycle; 0: before the first one."""
    return f"cycle {number}"


class Scraped(Record, tag="scrape", frozen=True, kw_only=True):
    """One scrape; ``samples`` holds only the series whose value changed since the target's last scrape."""

    target: str
    edge: str = ""
    """As in `CpuRead`."""
    took_ns: int = 0
    samples: dict[str, float] = {}
    """Series as exposed, ``name{label="value",…}`` with labels sorted by name → value."""
    special: dict[str, str] = {}
    """Series whose value changed to one that JSON cannot represent: ``NaN``, ``+Inf``, ``-Inf``."""
    gone: list[str] = []
    """Series of the last scrape that this one lacks, or has in ``special`` instead of ``samples``.
    Any scrape can be rebuilt from the records before: remove ``gone``, then add ``samples`` and ``special``."""
    families: dict[str, Family] = {}
    """Families that are new, or whose description changed since the last scrape."""
    families_gone: list[str] = []
    native: dict[str, NativeHistogram] = {}
    """Series with exponential buckets whose buckets changed; ``gone`` removes such a series, too."""
    created: dict[str, str] = {}
    """Series with a new creation time: s since the epoch. A series known before was reset."""
    refused: list[str] = []
    """Why a Prometheus refuses this response, or drops samples of it; looked for where families came or went."""


class TargetSeen(Record, tag="target", frozen=True, kw_only=True):
    """A metrics target answers from here on: for the first time, again, or at another location.

    Precedes the scrape. ``SourceFailed`` with source ``scrape:<target>`` records that it stopped answering.
    """

    target: str
    url: str
    """Without query and user information."""


class TargetGone(Record, tag="target-gone", frozen=True, kw_only=True):
    """A metrics target is no longer scraped: all of its series have ended. A later target of that name starts fresh."""

    target: str


ProfileKind = Literal["pyspy", "pprof", "heap", "goroutines"]
"""``pyspy``: folded stacks at 100 Hz, all threads; ``pprof``: a Go CPU profile; ``heap``, ``goroutines``: snapshots of
a Go process at the phase's end. All but the first are ``profile.proto``, gzipped."""


class ProfileTaken(Record, tag="profile", frozen=True, kw_only=True):
    """A profile of one process in one phase, as the profiler wrote it."""

    phase: str
    process: str
    kind: ProfileKind
    file: str
    """Relative to the run's folder: ``profiles/<recording>/<phase>-<process>-<kind>.txt`` (py-spy's raw format) or
    ``.pb.gz``. A process that was restarted in the phase has a file per lifetime: ``…-<kind>-2.txt``."""
    started: int
    """Recorder's clock, ns: the capture covers from here"""
    ended: int
    """to here. Both are the moment of ``heap`` and ``goroutines``, which are read right after the phase."""
    samples: int | None = None
    """On-CPU samples as counted by the profiler, one per thread that ran; None where only the file has the count."""
    errors: int | None = None
    """Stacks that the profiler could not read."""


TestOutcome = Literal["passed", "failed", "inconclusive", "error"]
"""``inconclusive``: the test failed only because a check, or a figure that it reads, was undetermined."""


class TestEnded(Record, tag="test-ended", frozen=True, kw_only=True):
    """pytest's outcome of the test's setup, call or teardown; of several records the worst counts.

    A recording without one belongs to a test that was killed or interrupted. That of the teardown may follow
    ``Closed``.
    """

    __test__: ClassVar[bool] = False  # pytest: not a test class, whatever its name

    outcome: TestOutcome
    message: str = ""
    """First line of the failure; empty for a test that passed."""


class CheckDeclared(Record, tag="check", frozen=True, kw_only=True):
    """A bound that this run must meet. Verdicts are derived from the recording, so they can be recomputed."""

    check: dict[str, Any]
    """The check as ``checks.check`` encodes it, its kind under ``check``."""
    source: str
    """Where it is declared: ``budgets.yaml:12``, ``marker``, ``test``."""
    enforced: bool = True
    """False: judged and reported without effect on the outcome (``--grovescale-budgets=off``)."""


IncidentKind = Literal[
    "container-restart",
    "pod-started",
    "pod-gone",
    "leader-change",
    "process-restart",
    "node-restart",
    "api-server-restart",
]
"""``container-restart``: a container of a followed pod was restarted; ``pod-started``, ``pod-gone``: a followed pod
appeared after the first look, or disappeared; ``leader-change``: the Lease of the operator's leader election has
another holder; ``process-restart``: a measured process was replaced; ``node-restart``: the container that is the
cluster's node was restarted; ``api-server-restart``: the API server is another process."""


class Incident(Record, tag="incident", frozen=True, kw_only=True):
    """An incident of what is measured, or of the cluster below it; it affects how figures are read."""

    kind: IncidentKind
    subject: str
    """What it happened to: ``operator/pod-a/manager``, ``kube-apiserver``, the name of a Lease or a container."""
    detail: str = ""


StallKind = Literal["late", "busy", "stopped", "suspended", "silent"]
"""``late``: the recorder's heartbeat was late while the recorder neither ran nor waited for a core: it, or the whole
machine, was stopped; ``busy``: the heartbeat was late while the recorder ran or waited for a core; ``stopped``: the
process was stopped (state T of proc_pid_stat(5)); ``suspended``: the machine was suspended (CLOCK_BOOTTIME is ahead of
CLOCK_MONOTONIC); ``silent``: the server did not answer, and showed no other activity."""


class Stalled(Record, tag="stall", frozen=True, kw_only=True):
    """A process did not run, or did not answer, for a while. A stall that continues is journaled again, with the same
    begin, when it is over and at the phase's end."""

    process: str
    """``recorder``, ``kube-apiserver``, ``etcd``, ``operator`` …; ``machine`` when all of it was suspended."""
    kind: StallKind
    began: int
    """Recorder's clock, ns."""
    length_ns: int
    """Length so far. Not ``at - began`` when the machine was suspended: the recorder's clock stood still then."""


class Lines(Record, tag="lines", frozen=True, kw_only=True):
    """Text kept as evidence: a process's last log lines, a stack dump."""

    source: str
    lines: list[str]


STACKS, STACKS_FIRST, STACKS_LEFT = "stacks:", "stacks-first:", "stacks-left:"
"""Beginnings of the sources of `Lines` with the stacks of a process: of blocked workers; of the tasks that an asyncio
program has before the first phase, and what a run left behind. Older recordings have no first ones."""


class LateObject(Record, tag="late", frozen=True, kw_only=True):
    """An object that kept a milestone from being met at its phase's timeout, and why, as far as the API shows."""

    phase: str
    milestone: str
    object: ObjectRef
    owner: str = ""
    reason: str = ""
    """Conditions that are not True, scheduling gates, finalizers, deletionTimestamp, as text."""
    events: list[str] = []


class ClockStep(Record, tag="clock-step", frozen=True, kw_only=True):
    """The wall clock was set: wall clock - recorder's clock is ``offset_ns`` from here on (0 at the start)."""

    offset_ns: int


class Closed(Record, tag="closed", frozen=True, kw_only=True):
    reason: Literal["stopped", "controller-gone", "interrupted", "journal-full", "failed"]
    message: str = ""


AnyRecord = (
    Opened
    | PhaseStarted
    | PhaseEnded
    | MilestoneDeclared
    | MilestoneMet
    | Mark
    | WatchOpened
    | WatchLive
    | WatchCut
    | WatchGap
    | ObjectSeen
    | Request
    | FaultInjected
    | SourceFailed
    | ProcessSeen
    | ProcessGone
    | CpuRead
    | MachineRead
    | Scraped
    | TargetSeen
    | TargetGone
    | ProfileTaken
    | CheckDeclared
    | TestEnded
    | Incident
    | Stalled
    | Lines
    | LateObject
    | ClockStep
    | Closed
)
