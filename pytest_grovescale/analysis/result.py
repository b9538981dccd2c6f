"""The result of a run: the typed tree that analysis returns and every report renders.

Figures that were not measured are ``None`` or left out, never zero, and `missing` of their phase says why. The tree is
written as ``result.json``; its JSON Schema is shipped (`cli.schemas`).

A test's verdict is pytest's outcome, its checks and its recording in one word; of reruns, the last one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import msgspec

from ..exposition.families import MetricType
from ..recording.records import CheckDeclared, Machine, TestEnded, TestOutcome
from .controller_result import IdleWindow
from .phase_result import DisruptionKind, Outcome, PhaseResult, PodPlaces

SCHEMA_VERSION = 2

OPERATOR = "operator"
"""The operator under test: its role among the identities, its process, and its metrics endpoint."""

NO_OPERATOR = "none"
"""Name used instead of an operator's where a test runs on the bare cluster."""

TestVerdict = Literal["passed", "failed", "inconclusive", "interrupted", "error"]
"""Verdict of a test, from pytest's outcome and its checks together; `verdict.verdict_of` derives it.

``failed``: the test or an enforced check failed. ``inconclusive``: one of them could not be decided, and none failed.
``interrupted``: the test did not finish (Ctrl-C, killed, still running). ``error``: something other than the operator
under test ended it, or its recording is incomplete."""

Scalar = str | int | float | bool


WHOLE_PHASE: tuple[DisruptionKind, ...] = ("component-restart", "component-exit", "stall")
"""Disruptions that may have changed every figure of their phase; the others affect some of them."""


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
    explains: tuple[Finding, ...] = ()
    """What other rules found of the same cause: consequences of it, or the same in more general words."""

    @property
    def all(self) -> tuple[Finding, ...]:
        """Itself, and what it explains."""
        return self, *self.explains


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
    value_first: float | None = None
    """Sum of its series where it was first served; None for a histogram or a summary: they are no single figure."""
    value_last: float | None = None
    value_max: float | None = None


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
    refused: tuple[str, ...] = ()
    """Why a Prometheus refuses what it serves, or drops samples of it."""
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


class CycleResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator held at rest after a cycle; 0: before the first. None: not measured."""

    cycle: int
    pid: int | None = None
    rss_bytes: int | None = None
    heap_bytes: int | None = None
    """In use, by its own metrics."""
    goroutines: int | None = None
    threads: int | None = None
    files: int | None = None
    """Open files, without sockets."""
    sockets: int | None = None
    watches: int | None = None
    """Open watches that began in the recording."""
    series: int | None = None
    """Of its metrics endpoint."""
    reconciles: int | None = None
    """Since its start."""


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
    findings_failed: dict[str, str] = {}
    """Rules that ended with an error, by a defect of this project → the error and where; they found nothing or less."""
    findings_limited: tuple[str, ...] = ()
    """Phases in which other programs kept the operator or the API server from the cores: times show nothing there."""
    cycles: tuple[CycleResult, ...] = ()
    """Empty for a test that does not use `Scale.cycles`."""
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


_OUTCOMES: tuple[TestOutcome, ...] = ("error", "failed", "inconclusive", "passed")
"""Worst first."""

_WORST: tuple[TestVerdict, ...] = ("failed", "error", "interrupted", "inconclusive", "passed")
"""Worst first, over several tests: failures of the operator before failures of a test's environment."""

_BROKEN = ("failed", "journal-full")
"""Reasons for which a recorder stops involuntarily."""

_OF_PHASES: dict[Outcome, TestVerdict] = {"passed": "passed", "interrupted": "interrupted", "unfinished": "interrupted"}
"""Verdict by the phases' outcome where pytest's outcome is missing; all others are ``failed``."""


def verdict_of(test: TestResult) -> TestVerdict:
    """Return a test's verdict, with the checks that have been judged so far."""
    if test.closed in _BROKEN:
        return "error"
    match test.ended:
        case None:
            # An orderly stop without pytest's outcome means that the recording is not of a pytest test.
            stopped = test.closed == "stopped"
            judged: TestVerdict = "interrupted" if not stopped else _OF_PHASES.get(test.scenario_outcome, "failed")
        case outcome:
            judged = outcome
    if judged in ("error", "interrupted"):
        return judged
    verdicts = {check.verdict for check in test.checks}
    if judged == "failed" or "fail" in verdicts:
        return "failed"
    return "inconclusive" if judged == "inconclusive" or "inconclusive" in verdicts else "passed"


def worst_of(verdicts: Iterable[TestVerdict]) -> TestVerdict:
    """Return the combined verdict of several tests."""
    present = set(verdicts)
    return next((verdict for verdict in _WORST if verdict in present), "passed")


def ended_as(ends: Sequence[TestEnded]) -> tuple[TestOutcome | None, str]:
    """Return the worst outcome that pytest gave a test in its set-up, function and teardown, and its message."""
    for outcome in _OUTCOMES:
        for end in ends:
            if end.outcome == outcome:
                return outcome, end.message
    return None, ""


def numbered(tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the tests in the order of their starts, each with its run number and the number of its runs.

    A test's profiling pass is counted separately from the pass that measures.
    """
    ordered = sorted(tests, key=lambda test: (test.started, test.test))
    of_each = Counter((test.test, test.profiled) for test in ordered)
    so_far: Counter[tuple[str, bool]] = Counter()
    runs = []
    for test in ordered:
        key = test.test, test.profiled
        so_far[key] += 1
        runs.append(msgspec.structs.replace(test, attempt=so_far[key], attempts=of_each[key]))
    return runs


def last(tests: Sequence[TestResult]) -> list[TestResult]:
    """Return the runs that count."""
    return [test for test in tests if not test.superseded]
