"""API requests of a phase: by identity, verb, resource and status code from the audit log; without one, by the
operator's own client metrics.

A request belongs to the phase in which it was answered: the log is written then, so a phase's requests are complete
once the log was read up to its end, whatever is still under way.

*Without an audit log.* client-go counts every answer in ``rest_client_requests_total`` by method, status code and host.
It knows no resource, so that a Lease, an Event and an object look the same: the count is an upper bound of the requests
for objects.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple, Protocol, TypeVar

from ..exposition.families import parse
from ..recording.records import UPDATES, WRITES, ObjectRef, Request
from .metrics.counters import growth_within, process_lifetimes
from .phase_result import ApiRow, Category, ClientRow, WriteEffects
from .reconciles import why_not_scraped
from .recording_index import Contents, PhaseSpan
from .result import OPERATOR
from .statistics.quantile import quantile

READS = frozenset({"get", "list", "watch"})

_REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})

TRIGGER = "trigger"

HARNESS = "harness"

SYSTEM_ACCOUNTS = "system:serviceaccount:kube-system:"
"""How the user names of Kubernetes' own controllers begin, where each has an identity."""

_MEANING = {
    400: "bad request",
    401: "not authenticated",
    403: "forbidden",
    409: "it exists already",
    413: "too large",
    422: "invalid",
    429: "too many requests",
    500: "error of the server",
}
BEING_TERMINATED = "being terminated"
"""What the API server's message has for a namespace that is being deleted."""
_LIMITS_OF_OTHERS = (
    (BEING_TERMINATED, "its namespace is being deleted"),
    ("exceeded quota", "a quota is used up"),
    ("admission webhook", "an admission webhook denied it"),
    ("PodSecurity", "the namespace's pod security level denied it"),
    ("field not declared in schema", "its kind has no such field in the cluster: another version of the CRD"),
)
"""What the API server's message has → why a request was refused, though there was a right to it."""
MISSING_RIGHT = "a right is missing"
_RIGHT = " cannot "
"""What its message has where no role grants the request."""

WRITTEN_SHOWN = 10

FAMILY = "rest_client_requests_total"

_EVENT_LATE_NS = 1_000_000_000

_REST_NS = 500_000_000
"""Time without a change after which earlier work is taken to be over."""
_RENEWED = ("leases.coordination.k8s.io", "events", "events.events.k8s.io")
"""Kinds that change while all is at rest."""
"""How long after a phase a watch may still deliver a change that was made in it."""


class Kind(NamedTuple):
    """Key by which rows are grouped."""

    user: str
    verb: str
    resource: str
    code: int
    category: Category
    dry_run: bool


class _Answered(Protocol):
    """What a request of the log and a request as the rules read it have in common."""

    @property
    def user(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def subresource(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def code(self) -> int: ...


_R = TypeVar("_R", bound=_Answered)


def overtaken(requests: Sequence[_R], received: Callable[[_R], int]) -> list[_R]:
    """Return the JSON patches that another write overtook: they are conflicts, though their code is another.

    A patch may test the version that it is made for, is answered 422 where that is another by then
    (https://www.rfc-editor.org/rfc/rfc6902#section-4.6), and goes through at the next try. ``received``: when a request
    came, ns.
    """
    refused = [one for one in requests if one.code == HTTPStatus.UNPROCESSABLE_ENTITY and one.verb == "patch"]
    accepted: dict[tuple[str, ...], int] = {}
    # Most runs have none.
    for one in requests if refused else ():
        if one.verb == "patch" and 200 <= one.code < 300:
            key = _patched(one)
            accepted[key] = max(received(one), accepted.get(key, 0))
    return [one for one in refused if accepted.get(_patched(one), 0) > received(one)]


def _patched(one: _Answered) -> tuple[str, ...]:
    return one.user, one.resource, one.subresource, one.namespace, one.name


def open_watches(requests: Iterable[Request], user: str, at: int) -> Counter[str]:
    """Return resource → how many watches of a user were open at a moment, of those begun in the recording."""
    begun: Counter[str] = Counter()
    for one in requests:
        if one.verb == "watch" and one.user == user and one.code < 400 and one.at <= at:
            begun[one.qualified] += 1 if one.stage == "ResponseStarted" else -1
    return begun


def why_refused(code: int, verb: str, message: str) -> str:
    """Return why a request was refused, in words; ``message``: the API server's, empty where it is not known.

    Empty where the code does not say.
    """
    for words, why in _LIMITS_OF_OTHERS:
        if words in message:
            return why
    if code == HTTPStatus.FORBIDDEN and (not message or _RIGHT in message):
        return MISSING_RIGHT
    if code == HTTPStatus.CONFLICT and verb != "create":
        return "a conflict"
    return _MEANING.get(code, "")


def missing_rights(requests: Iterable[Request], user: str) -> tuple[str, ...]:
    """Return what a user was refused for a missing right, the most frequent first: ``list pods (403, 4 times)``.

    Without creations that were refused without a message: in a namespace that is being deleted, all are.
    """
    refused = Counter(
        f"{one.verb} {kind_of(one).resource}"
        for one in requests
        if one.user == user
        and (one.message or one.verb != "create")
        and why_refused(one.code, one.verb, one.message) == MISSING_RIGHT
    )
    return tuple(f"{what} (403, {number:,} time{'s' * (number != 1)})" for what, number in refused.most_common())


def api_rows(requests: Sequence[Request], identities: Mapping[str, str]) -> tuple[ApiRow, ...]:
    """Count requests; rows sorted by identity, verb, resource and code."""
    took: dict[Kind, list[int]] = defaultdict(list)
    conflicts = Counter(kind_of(one) for one in overtaken(requests, lambda one: one.received_wall))
    for request in requests:
        took[kind_of(request)].append(request.completed_wall - request.received_wall)
    names = roles(identities)
    rows = [
        ApiRow(
            identity=identity_of(kind.user, names),
            user=kind.user,
            verb=kind.verb,
            resource=kind.resource,
            code=kind.code,
            category=kind.category,
            dry_run=kind.dry_run,
            count=len(times),
            overtaken=conflicts[kind],
            p50_ms=quantile(times, 0.50) / 1e6,
            p99_ms=quantile(times, 0.99) / 1e6,
        )
        for kind, times in took.items()
    ]
    rows.sort(key=lambda row: (row.identity, row.user, row.verb, row.resource, row.code, row.dry_run))
    return tuple(rows)


def kind_of(request: Request) -> Kind:
    """Return the group of a request."""
    category = category_of(request)
    if category == "nonresource":
        resource = "/" + request.path.lstrip("/").partition("/")[0].partition("?")[0]
    else:
        resource = request.qualified + (f"/{request.subresource}" if request.subresource else "")
    return Kind(request.user, request.verb, resource, request.code, category, request.dry_run)


def category_of(request: Request) -> Category:
    """Return the category of a request; see `result.Category`."""
    if not request.resource:
        return "nonresource"
    if request.group in _REVIEW_GROUPS or (request.resource, request.subresource) == ("serviceaccounts", "token"):
        return "review"
    if request.resource == "leases" and request.group == "coordination.k8s.io":
        return "lease"
    if request.resource == "events" and request.group in ("", "events.k8s.io"):
        return "event"
    return "object"


def counted(request: Request) -> bool:
    """Return whether this line of the log counts as a request: each request has one line that does.

    A watch has two lines, at its start and at its end; it counts when it starts. A rejected watch has only an end.
    """
    if request.verb == "watch":
        return request.stage == "ResponseStarted" or request.code >= 400
    return request.stage != "ResponseStarted"


def roles(identities: Mapping[str, str]) -> dict[str, str]:
    """Return user name → identity; two roles that share one user become ``a+b``."""
    users: dict[str, list[str]] = defaultdict(list)
    for role, user in identities.items():
        users[user].append(role)
    return {user: "+".join(sorted(names)) for user, names in users.items()}


def identity_of(user: str, names: Mapping[str, str]) -> str:
    """Return the name of a user in tables: its role (``names``: of `roles`), ``job-controller``, or all of it."""
    return names.get(user, user.removeprefix(SYSTEM_ACCOUNTS))


class Traffic:
    """The requests of each phase, and the identities seen by its end."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._starts = [phase.start for phase in contents.phases]
        self._requests: list[list[Request]] = [[] for _ in contents.phases]
        self._first: dict[str, int] = {}
        steady = not contents.clock.steps
        for request in contents.requests:
            if counted(request):
                offset = 0 if steady else contents.clock.offset(request.at)
                self._add(request, request.completed_wall - offset)

    def _add(self, request: Request, answered: int) -> None:
        if answered < self._first.get(request.user, answered + 1):
            self._first[request.user] = answered
        index = bisect_right(self._starts, answered) - 1
        if index >= 0 and answered <= self._contents.end_of(self._contents.phases[index]):
            self._requests[index].append(request)

    def requests(self, phase: PhaseSpan) -> list[Request]:
        """Return the requests that were answered in a phase, in the order of the log."""
        return self._requests[self._contents.phases.index(phase)]

    def identities_seen(self, phase: PhaseSpan) -> tuple[str, ...]:
        """Return the identities whose requests had been answered by the end of a phase, sorted."""
        names = roles(self._contents.opened.identities)
        end = self._contents.end_of(phase)
        return tuple(sorted({identity_of(user, names) for user, at in self._first.items() if at <= end}))

    def trigger_writes(self, phase: PhaseSpan) -> int:
        """Return the harness's successful object writes since the first trigger of a phase."""
        triggers = triggers_of(self._contents, phase)
        user = self._contents.opened.identities.get(HARNESS)
        if not triggers:
            return 0
        offset = self._contents.clock.offset(triggers[0][0])
        return sum(
            request.user == user
            and request.verb in WRITES
            and category_of(request) == "object"
            and 200 <= request.code < 300
            and not request.dry_run
            and request.completed_wall - offset >= triggers[0][0]
            for request in self.requests(phase)
        )

    def written(self, phase: PhaseSpan) -> tuple[ObjectRef, ...]:
        """Return the first objects that the operator wrote to in a phase, of those that the log names."""
        user = self._contents.opened.identities.get(OPERATOR)
        writes = [
            request
            for request in self.requests(phase)
            if request.user == user
            and request.name
            and request.verb in WRITES
            and category_of(request) == "object"
            and not request.dry_run
        ]
        refs = (
            ObjectRef(resource=request.qualified, namespace=request.namespace, name=request.name)
            for request in sorted(writes, key=lambda write: write.received_wall)
        )
        return tuple(itertools.islice(dict.fromkeys(refs), WRITTEN_SHOWN))


def write_effects(contents: Contents, phase: PhaseSpan, requests: Iterable[Request]) -> WriteEffects | None:
    """Return what the operator's writes did in a phase with triggers; None where no written object is watched.

    ``requests``: those of the phase.
    """
    triggers = triggers_of(contents, phase)
    if not triggers:
        return None
    begin, end = triggers[0][0], contents.end_of(phase)
    # What a later phase changes is not of this one.
    later = (other.start for other in contents.phases if other.start > end)
    until = min([end + _EVENT_LATE_NS, *later])
    identities = contents.opened.identities
    writes: dict[str, Counter[tuple[str, str, str]]] = defaultdict(Counter)
    for one in requests:
        succeeded = one.verb in UPDATES and one.code == HTTPStatus.OK and not one.dry_run
        if succeeded and one.completed_wall - contents.clock.offset(one.at) >= begin:
            writes[one.user][one.qualified, one.namespace, one.name] += 1
    own, of_harness = writes[identities.get(OPERATOR, "")], writes[identities.get(HARNESS, "")]
    counted = wasted = 0
    for story in contents.watches.values():
        spec = story.opened.spec
        if spec.label_selector or spec.field_selector or story.gaps:
            continue
        for (namespace, name), events in story.objects.items():
            key = spec.resource, namespace, name
            if number := own.pop(key, 0):
                changes = sum(begin <= event.at <= until and event.change == "modified" for event in events)
                counted += number
                # What the harness writes changes an annotation.
                wasted += max(0, number - max(0, changes - of_harness[key]))
    return WriteEffects(writes=counted, without_effect=wasted) if counted else None


def under_way(contents: Contents, phase: PhaseSpan) -> str:
    """Return what was still going on when the first no-op trigger of a phase came, in words; empty: nothing was.

    What is written after it may then be the end of earlier work, which the objects show by coming to rest in the phase.
    Where they change until its end about as often as at first, it is no end of anything, and counts.
    """
    triggers = triggers_of(contents, phase)
    if not triggers:
        return ""
    first, end = triggers[0][0], contents.end_of(phase)
    changes = sorted(
        (event.at, story.opened.spec.resource)
        for story in contents.watches.values()
        if story.opened.spec.resource not in _RENEWED
        for events in story.objects.values()
        for event in events
        if first - _REST_NS <= event.at <= end and not event.initial
    )
    before = [change for change in changes if change[0] < first]
    third = (end - first) // 3
    early, late = sum(first <= at < first + third for at, _ in changes), sum(at >= end - third for at, _ in changes)
    if not before or late >= max(1, early / 2):
        return ""
    at, resource = before[-1]
    return (
        f"{resource} still changed {(first - at) / 1e6:.0f} ms before the trigger, so that earlier work may have been"
        " under way: scale.wait_idle() before the phase waits for its end"
    )


def triggers_of(contents: Contents, phase: PhaseSpan) -> list[tuple[int, int]]:
    """Return (when, how many) for each no-op trigger that the harness marked in a phase."""
    end = contents.end_of(phase)
    return [
        (mark.at, max(1, mark.count))
        for mark in contents.marks
        if mark.label == TRIGGER and mark.state != "end" and phase.start <= mark.at <= end
    ]


def client_requests_of_phase(contents: Contents, phase: PhaseSpan) -> tuple[tuple[ClientRow, ...], str]:
    """Return the operator's requests between its scrapes around a phase, or nothing and why not.

    There is no count of a phase in which the operator was another process, or another replica: the requests that the
    first one sent after its last scrape are lost.
    """
    start, end = phase.scrape_start.get(OPERATOR), phase.scrape_end.get(OPERATOR)
    target = contents.metrics.targets.get(OPERATOR)
    if start is None or end is None or target is None:
        return (), why_not_scraped(contents, phase, OPERATOR, start, end)
    inside = [scrape for scrape, moment in enumerate(target.moments) if start.at <= moment.at <= end.at]
    counted = [series for series in target.series if series.partition("{")[0] == FAMILY]
    if not any(target.value(series, inside[-1]) is not None for series in counted):
        return (), f"the operator's metrics have no {FAMILY}"
    lifetimes = process_lifetimes(target, inside)
    if len(lifetimes) > 1 or any(growth_within(target, series, lifetimes) < 0 for series in counted):
        return (), f"the operator was restarted in the phase, or another replica took over: {FAMILY} restarted at 0"
    counts: dict[tuple[str, str], float] = defaultdict(float)
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for series in counted:
        labels = parse(series).labels
        # Hosts are summed: they are addresses of one API server.
        key = labels.get("method", ""), labels.get("code", "")
        counts[key] += growth_within(target, series, lifetimes)
        totals[key] += target.value(series, inside[-1]) or 0.0
    return tuple(
        ClientRow(method=method, code=code, count=round(counts[method, code]), total=round(totals[method, code]))
        for method, code in sorted(counts)
    ), ""
