"""Faults between the operator and the API server: which happened in a phase, and what the operator did about each.

A fault that was answered by the proxy never reached the API server, and is not in its audit log; one whose answer was
lost is, as a success. What followed is read from both: the next time that the same request was made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from statistics import median
from typing import NamedTuple

from ..recording.records import UPDATES, WRITES, FaultInjected, FaultKind, Request
from .api_requests import counted
from .phase_result import FaultRow, FaultsResult, MilestoneResult, PhaseResult
from .recording_index import Contents, PhaseSpan
from .result import OPERATOR

MARK = "faults"
"""Label of the harness's mark whenever faults change; its detail says what is in force from then on."""

NONE = "none"
"""Detail of that mark where there are none any more."""

_EARLY = 0.9
"""Share of Retry-After from which on a repetition counts as late enough: clients and clocks round."""

RequestId = tuple[str, str, str, str, str]
"""Verb (updates and patches are one), resource, subresource, namespace, name."""


class Fault(NamedTuple):
    """One fault, and what followed; times in ns of the recorder's clock."""

    record: FaultInjected
    received: int
    answered: int
    again: int | None
    """When the same request was made again; None: not until the recording's end, or it cannot be recognised."""

    @property
    def recognisable(self) -> bool:
        """Whether a repetition can be recognised among other requests: it names its object."""
        return bool(self.record.name) and not self.record.name.endswith("*") and not self.is_watch

    @property
    def carried_out(self) -> bool:
        """Whether the API server did what it was asked, and only its answer was lost."""
        return 200 <= self.record.applied < 300

    @property
    def is_watch(self) -> bool:
        return self.record.kind in ("watch-cut", "watch-expired")

    @property
    def delay_s(self) -> float | None:
        """Seconds from the answer to the repetition."""
        return None if self.again is None else (self.again - self.answered) / 1e9

    @property
    def too_early(self) -> bool:
        """Whether it was repeated before the time that its Retry-After asks for."""
        wait = self.record.retry_after_s
        return self.recognisable and self.delay_s is not None and self.delay_s < _EARLY * wait

    @property
    def what(self) -> str:
        """The request: ``patch podcliques.grove.io/status``."""
        sub = f"/{self.record.subresource}" if self.record.subresource else ""
        return f"{self.record.verb} {self.record.qualified}{sub}"

    @property
    def title(self) -> str:
        """The request with its object: ``patch pods a/b``."""
        place = "/".join(part for part in (self.record.namespace, self.record.name) if part)
        return f"{self.what} {place}".rstrip()

    @property
    def answer(self) -> str:
        """What the operator was answered, in words."""
        if self.is_watch:
            return "410 Expired" if self.record.code else "the end of the watch"
        return str(self.record.code) if self.record.code else "a cut connection"


class Window(NamedTuple):
    """A time in which faults were in force, ns of the recorder's clock."""

    start: int
    end: int
    text: str
    """As the call has them."""


class ApiFaults:
    """The faults of a recording, with what followed each."""

    def __init__(self, contents: Contents) -> None:
        self.windows = list(_windows(contents))
        self.all: list[Fault] = []
        self._tries: dict[RequestId, list[int]] = defaultdict(list)
        self._writes: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        self._creates: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._watches: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.own: list[int] = []
        """When the operator made a request for an object, faults included; watches are not among them."""
        if contents.faults or self.windows:
            self._read(contents)

    def _read(self, contents: Contents) -> None:
        operator = contents.opened.identities.get(OPERATOR, "")
        clock = contents.clock
        for one in contents.requests:
            if one.user == operator and counted(one) and one.resource:
                self._note(one, one.received_wall - clock.offset(one.at))
        records = [(one, clock.offset(one.at)) for one in contents.faults]
        for fault, offset in records:
            # What the API server carried out is in its log.
            if not fault.applied and fault.kind not in ("watch-cut", "watch-expired"):
                self._note(fault, fault.received_wall - offset)
        for times in (*self._tries.values(), *self._writes.values(), *self._creates.values(), *self._watches.values()):
            times.sort()
        self.own.sort()
        for fault, offset in records:
            answered = fault.answered_wall - offset
            again = _next(self._tries[_id(fault)], answered)
            self.all.append(Fault(fault, fault.received_wall - offset, answered, again))
        self.all.sort(key=lambda one: one.answered)

    def _note(self, one: Request | FaultInjected, at: int) -> None:
        place = one.qualified, one.namespace
        if one.verb == "watch":
            self._watches[place].append(at)
            return
        self._tries[_id(one)].append(at)
        if one.resource not in ("leases", "events"):
            self.own.append(at)
        if one.verb in WRITES:
            self._writes[*place, one.name].append(at)
        if one.verb == "create":
            self._creates[place].append(at)

    def within(self, start: int, end: int) -> list[Fault]:
        """Return the faults of a time."""
        return [one for one in self.all if start <= one.answered < end]

    def in_force(self, start: int, end: int) -> list[Window]:
        """Return the windows of faults that overlap with a time."""
        return [one for one in self.windows if one.start < end and start < one.end]

    def write_repeated(self, fault: Fault) -> int | None:
        """Return when the operator next wrote to the object of a fault; of a generated name, made one of that kind."""
        record = fault.record
        if fault.recognisable:
            return _next(self._writes[record.qualified, record.namespace, record.name], fault.answered)
        return _next(self._creates[record.qualified, record.namespace], fault.answered)

    def watch_opened(self, fault: Fault) -> int | None:
        """Return when the operator next opened a watch on what a fault cut."""
        return _next(self._watches[fault.record.qualified, fault.record.namespace], fault.answered)

    def last_own(self, end: int) -> int | None:
        """Return when the operator made its last request for an object before a moment."""
        index = bisect_right(self.own, end)
        return self.own[index - 1] if index else None

    def up_to(self, fault: Fault) -> list[int]:
        """Return when the same request met faults, up to this one.

        Of objects with generated names, those with the same beginning are one request.
        """
        key = _id(fault.record)
        return [one.answered for one in self.all if one.answered <= fault.answered and _id(one.record) == key]

    def sequences(self, faults: Sequence[Fault]) -> list[list[Fault]]:
        """Return faults of the same request, each the repetition of the one before."""
        found: list[list[Fault]] = []
        open_: dict[RequestId, list[Fault]] = {}
        for one in faults:
            if not one.recognisable:
                continue
            key = _id(one.record)
            last = open_.get(key)
            if last is not None and last[-1].again == one.received:
                last.append(one)
            else:
                open_[key] = [one]
                found.append(open_[key])
        return found


def _windows(contents: Contents) -> Iterator[Window]:
    marks = [mark for mark in contents.marks if mark.label == MARK]
    for mark, following in zip_longest(marks, marks[1:]):
        if mark.detail != NONE:
            yield Window(mark.at, following.at if following is not None else contents.last_at + 1, mark.detail)


def _id(one: Request | FaultInjected) -> RequestId:
    verb = "change" if one.verb in UPDATES else one.verb
    return verb, one.qualified, one.subresource, one.namespace, one.name


def _next(times: Sequence[int], after: int) -> int | None:
    index = bisect_right(times, after)
    return times[index] if index < len(times) else None


def gaps_of(sequence: Sequence[Fault]) -> list[float]:
    """Return the delays of a sequence of one request's faults, s: from each answer to the next try."""
    gaps = [(after.received - before.answered) / 1e9 for before, after in pairwise(sequence)]
    last = sequence[-1].delay_s
    return gaps if last is None else [*gaps, last]


def faults_of_phase(
    contents: Contents, phase: PhaseSpan, milestones: Sequence[MilestoneResult], faults: ApiFaults, *, logged: bool
) -> FaultsResult | None:
    """Return the faults of a phase, and what the operator did; None where none were in force.

    ``logged``: whether the audit log covers the phase; what followed a fault is not known without it.
    """
    end = contents.end_of(phase)
    windows = faults.in_force(phase.start, end)
    if not windows:
        return None
    met = faults.within(phase.start, end)
    rows = Counter((one.record.kind, one.record.verb, _resource(one)) for one in met)
    # What was carried out need not be made again.
    repeatable = [one for one in met if one.recognisable and not one.carried_out]
    delays = sorted(one.delay_s for one in repeatable if one.delay_s is not None and one.again is not None)
    asked = [one for one in repeatable if one.record.retry_after_s]
    cut = [one for one in met if one.is_watch]
    return FaultsResult(
        settings=tuple(dict.fromkeys(one.text for one in windows)),
        seconds=sum(min(one.end, end) - max(one.start, phase.start) for one in windows) / 1e9,
        rows=tuple(
            FaultRow(kind=kind, verb=verb, resource=resource, count=number)
            for (kind, verb, resource), number in sorted(rows.items())
        ),
        repeated=len(delays) if logged else None,
        not_repeated=len(repeatable) - len(delays) if logged else None,
        delay_p50_s=median(delays) if delays and logged else None,
        delay_max_s=delays[-1] if delays and logged else None,
        waits_asked=len(asked),
        waits_ignored=sum(one.too_early for one in asked) if logged else None,
        watches_cut=len(cut),
        watches_reopened=sum(faults.watch_opened(one) is not None for one in cut) if logged else None,
        recovery_s=_recovery(phase, milestones, met, faults, end) if logged else None,
    )


def injected(phases: Iterable[PhaseResult], kind: FaultKind) -> int:
    """Return how many faults of a kind the operator met in phases: errors that are not its own."""
    faults = [phase.faults for phase in phases if phase.faults is not None]
    return sum(row.count for one in faults for row in one.rows if row.kind == kind)


def _resource(fault: Fault) -> str:
    return fault.what.partition(" ")[2]


def _recovery(
    phase: PhaseSpan, milestones: Sequence[MilestoneResult], met: Sequence[Fault], faults: ApiFaults, end: int
) -> float | None:
    """Return the time from the last fault to the last milestone, or where there is none to the operator's last request.

    None where no fault happened, or the milestones were not met.
    """
    if not met or not all(one.met for one in milestones):
        return None
    reached = [phase.start + round((one.observed_s or 0.0) * 1e9) for one in milestones]
    last = max(reached) if reached else faults.last_own(end)
    return None if last is None else max(0, last - met[-1].answered) / 1e9
