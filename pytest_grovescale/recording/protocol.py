"""Messages between the harness and the recorder process, over a socket pair.

The first line is a ``Configure``; credentials travel here, never by argument or environment. Every request is
answered by one ``Done`` or ``Refused`` with its id; unsolicited updates come in between.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..endpoints import Address
from ..kube.access import Access
from .conditions import Condition, WatchSpec
from .records import SETTLED, IncidentKind, LateObject, Opened, StallKind, TestOutcome
from .scrape_targets import OfFollowed, ScrapeTarget

Outcome = Literal["passed", "failed", "timeout", "interrupted"]


class ProcessTarget(msgspec.Struct, frozen=True):
    """A process to measure while it is in the processes file."""

    name: str


Profiler = Literal["auto", "pyspy", "pprof", "off"]
"""How a process is profiled; ``auto``: as its definition and its interpreter say."""


class ProfileTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A process that can be profiled in phases that request it, and whose stacks are dumped at a timeout."""

    process: str
    profiler: Literal["pyspy", "pprof"]
    address: Address | None = None
    """URL of ``net/http/pprof``, ``http://127.0.0.1:6060/debug/pprof``; only for ``pprof``."""
    stacks: Address | None = None
    """The process's own endpoint for its task stacks; see `operator.shape.OperatorFile.stacks`."""
    pprof_at: OfFollowed | None = None
    """As `address`, in followed pods: at the leader."""
    stacks_at: OfFollowed | None = None
    """As `stacks`, in followed pods."""

    @property
    def serves_pprof(self) -> bool:
        """Whether ``net/http/pprof`` is available, on this host or in pods."""
        return self.address is not None or self.pprof_at is not None


class PodsToFollow(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one program, such as the operator's replicas, whose events are journaled."""

    name: str
    """Name of the program, such as ``operator``; `targets.OfFollowed` and incidents use it."""
    namespace: str
    label_selector: str
    lease: str = ""
    """Name of the Lease that their leader holds; empty: no leader election, the oldest running pod is the leader."""
    lease_namespace: str = ""
    """Empty: the pods' namespace."""


class RecorderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a recorder records, and where."""

    journal: str
    run_folder: str = ""
    """The run's folder; profiles go into its ``profiles/<journal's stem>/``. Empty: no profiles."""
    opened: Opened
    """First record; the recorder sets its ``at``."""
    access: Access
    audit_log: str = ""
    """The API server's audit log, JSON lines; empty: no readable one."""
    fault_log: str = ""
    """The log of the proxy on the operator's way to the API server; empty: there is no proxy."""
    processes_file: str = ""
    """JSON {name: ProcessInfo}, replaced as a whole at every change."""
    processes: tuple[ProcessTarget, ...] = ()
    """The processes to measure; empty: all."""
    extra_processes: dict[str, tuple[int, int]] = {}
    """Name → (pid, started_ticks) of processes that are in no file, such as the harness itself."""
    scrape_targets: tuple[ScrapeTarget, ...] = ()
    scrape_interval_s: float = 5.0
    """Interval between scrapes of a target without its own interval, s; 0: only at the edges of phases."""
    after_close: tuple[str, ...] = ()
    """Program that the recorder executes after it has closed the journal because its controller vanished."""
    timeline_s: float = 1.0
    """Interval between reads of the CPU clocks within a phase, s."""
    concealed: tuple[str, ...] = ()
    """Secrets of the run to redact in all texts; see ``redaction.conceal``. They are sent through the socket only."""


# ---- harness → recorder


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="do"):
    id: int


class Configure(Request, tag="configure", frozen=True, kw_only=True):
    config: RecorderConfig
    controller: int
    """Pid of the harness; a child of it may hold a copy of the socket."""
    import_path: list[str]
    """The harness' import path, for conditions that are functions."""


class OpenWatches(Request, tag="watch", frozen=True, kw_only=True):
    specs: list[WatchSpec]
    timeout: float


class BeginPhase(Request, tag="begin", frozen=True, kw_only=True):
    phase: str
    milestones: list[tuple[str, Condition]]
    timeout: float
    hold: float
    twin_of: str = ""
    profile: bool = False
    """Attach a profiler to every profile target from the phase's begin to its end."""
    unprofiled: dict[str, str] = {}
    """Process → why it cannot be profiled as the phase requests; journaled."""
    edges_only: bool = False
    """Scrape only at the phase's edges: a scrape in between would distort what it measures."""


class EndPhase(Request, tag="end", frozen=True, kw_only=True):
    phase: str
    outcome: Outcome
    message: str = ""


class Explain(Request, tag="explain", frozen=True, kw_only=True):
    """Return late objects of each unmet milestone of the open phase, with reasons; nothing is journaled."""


class AddMark(Request, tag="mark", frozen=True, kw_only=True):
    label: str
    state: Literal["begin", "end", "now"]
    detail: str
    count: int


class AddLines(Request, tag="lines", frozen=True, kw_only=True):
    source: str
    lines: list[str]


class QuietPhase(Request, tag="quiet", frozen=True, kw_only=True):
    """From here on the open phase is scraped only at its end."""


class Conceal(Request, tag="conceal", frozen=True, kw_only=True):
    """Redact these secrets in all texts of the recording from here on; see ``redaction.conceal``."""

    secrets: list[str]


class AddTarget(Request, tag="add-target", frozen=True, kw_only=True):
    target: ScrapeTarget


class RemoveTarget(Request, tag="remove-target", frozen=True, kw_only=True):
    name: str


class ScrapeOnce(Request, tag="scrape", frozen=True, kw_only=True):
    """Scrape a target without an interval, now."""

    name: str


class DeclareCheck(Request, tag="check", frozen=True, kw_only=True):
    check: dict[str, Any]
    source: str
    enforced: bool = True


class EndTest(Request, tag="end-test", frozen=True, kw_only=True):
    """Journal the test's outcome in pytest."""

    outcome: TestOutcome
    message: str


class AddProfileTarget(Request, tag="add-profile-target", frozen=True, kw_only=True):
    target: ProfileTarget


class AlsoWatch(Request, tag="also-watch", frozen=True, kw_only=True):
    """Add a watch to every phase from the next on."""

    specs: list[WatchSpec]


class FollowPods(Request, tag="follow-pods", frozen=True, kw_only=True):
    pods: PodsToFollow


class AddIncident(Request, tag="incident", frozen=True, kw_only=True):
    kind: IncidentKind
    subject: str
    detail: str


class MeasureFile(Request, tag="measure-file", frozen=True, kw_only=True):
    """Also measure the processes in this file, as they start, change and end."""

    path: str


class Settle(Request, tag="settle", frozen=True, kw_only=True):
    """The workload is gone: wait until what the operator has made goes too (`FollowedKinds.settled`), then scrape."""

    timeout: float
    edge: str = SETTLED
    """Label of the mark, and edge of the scrape and of the reads of clocks and memory."""


class Flush(Request, tag="flush", frozen=True, kw_only=True):
    pass


class Stop(Request, tag="stop", frozen=True, kw_only=True):
    reason: Literal["stopped", "interrupted", "failed"]


Command = (
    OpenWatches
    | BeginPhase
    | EndPhase
    | Explain
    | AddMark
    | AddLines
    | QuietPhase
    | Conceal
    | AddTarget
    | RemoveTarget
    | ScrapeOnce
    | AddProfileTarget
    | AlsoWatch
    | FollowPods
    | AddIncident
    | MeasureFile
    | DeclareCheck
    | EndTest
    | Settle
    | Flush
    | Stop
)
AnyRequest = Configure | Command


# ---- recorder → harness


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="say"):
    pass


class Done(Answer, tag="done", frozen=True, kw_only=True):
    id: int
    late: list[LateObject] = []


class Refused(Answer, tag="refused", frozen=True, kw_only=True):
    id: int
    usage: bool
    """True: the request was wrong (UsageError). False: it was impossible (RecordingError)."""
    message: str
    next_step: str


class MilestoneReached(Answer, tag="milestone", frozen=True, kw_only=True):
    phase: str
    name: str
    at: int
    """Recorder's clock, ns."""
    elapsed: float
    """Since the phase's start, s."""


class Progress(Answer, tag="progress", frozen=True, kw_only=True):
    """Sent at most twice a second, and only when something changed."""

    phase: str
    counts: dict[str, tuple[int, int]]
    """Milestone → (have, want): objects, seconds of a timer, or parts of all/any."""
    elapsed: float
    api_requests: int
    """Requests in the audit log since the phase's start, of all identities; 0 without an audit log."""
    api_rate: float
    """The same per second, since the last progress."""


class PhaseComplete(Answer, tag="complete", frozen=True, kw_only=True):
    """All milestones are met and the hold is over."""

    phase: str
    at: int


class ProcessStarted(Answer, tag="process-started", frozen=True, kw_only=True):
    process: str
    pid: int


class ProcessExited(Answer, tag="process-exited", frozen=True, kw_only=True):
    process: str
    pid: int


class IncidentSeen(Answer, tag="incident", frozen=True, kw_only=True):
    """Something happened to followed pods."""

    kind: IncidentKind
    subject: str
    detail: str


class StallSeen(Answer, tag="stall", frozen=True, kw_only=True):
    """A process has stalled, or is still stalled; as ``records.Stalled``."""

    process: str
    kind: StallKind
    seconds: float
    """So far."""


JOURNAL = "journal"
"""Source of a `SourceBroke` for a recording that cannot be written any more."""


class SourceBroke(Answer, tag="source-broke", frozen=True, kw_only=True):
    source: str
    """As in ``records.SourceFailed``; also `JOURNAL` and ``condition:<phase>/<milestone>``."""
    message: str
    next_step: str = ""
    fatal: bool = False
    """Whether the open phase cannot continue: one of its milestones can no longer be judged, or nothing is recorded any
    more."""


Update = (
    MilestoneReached
    | Progress
    | PhaseComplete
    | ProcessStarted
    | ProcessExited
    | IncidentSeen
    | StallSeen
    | SourceBroke
)
AnyAnswer = Done | Refused | Update
