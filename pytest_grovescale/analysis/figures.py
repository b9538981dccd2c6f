"""Figures of a phase for tests. Figures that were not measured raise NotMeasuredError; they are never zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from ..errors import NotMeasuredError, UsageError
from ..recording.records import WRITES, ObjectRef
from .api_requests import READS, SYSTEM_ACCOUNTS
from .phase_result import ApiRow, ClientRow, CpuResult, MilestoneResult, PhaseResult, WriteEffects

Outcome = Literal["passed", "failed", "timeout", "interrupted"]
"""How a phase can end."""


@dataclass(frozen=True)
class ApiFigures:
    """API traffic of one identity in one phase, complete by the audit log.

    ``rows`` are its requests by verb, resource and status code; the other figures are sums of them. Writes are counted
    as attempts, whatever the answer: a 4xx/5xx write counts. Dry runs change nothing and count as requests only.
    """

    identity: str
    rows: tuple[ApiRow, ...]

    @property
    def requests(self) -> int:
        """All requests: of all categories, verbs and answers."""
        return self.count()

    @property
    def object_writes(self) -> int:
        """Create, update, patch and delete of anything but Leases, Events and reviews, 4xx/5xx included."""
        return self._count_of(WRITES, dry_run=False)

    @property
    def successful_object_writes(self) -> int:
        """Those of `object_writes` that were answered with 2xx."""
        return self._count_of(WRITES, dry_run=False, successful=True)

    @property
    def object_reads(self) -> int:
        """Get, list and watch (each counted once, when it starts) of the same objects."""
        return self._count_of(READS)

    @property
    def by_verb(self) -> dict[str, int]:
        """Verb → requests for objects (no Leases, Events, reviews or non-resource requests; no dry runs)."""
        counts: Counter[str] = Counter()
        for row in self.rows:
            if row.category == "object" and not row.dry_run:
                counts[row.verb] += row.count
        return dict(sorted(counts.items()))

    def per_object(self, n: int) -> dict[str, float]:
        """Return verb → requests for each of ``n`` objects; `by_verb` divided by ``n``."""
        if n < 1:
            raise UsageError(f"per_object({n}): there is no such share", next_step="Give the number of objects, ≥ 1.")
        return {verb: count / n for verb, count in self.by_verb.items()}

    def count(self, *, verb: str | None = None, resource: str | None = None, code: int | None = None) -> int:
        """Return how many requests there were, of all categories, that match the given arguments.

        ``resource`` is as in the rows: ``pods``, ``podcliquesets.grove.io/status``.
        """
        return sum(
            row.count
            for row in self.rows
            if (verb is None or row.verb == verb)
            and (resource is None or row.resource == resource)
            and (code is None or row.code == code)
        )

    def _count_of(self, verbs: frozenset[str], *, dry_run: bool | None = None, successful: bool = False) -> int:
        return sum(
            row.count
            for row in self.rows
            if row.category == "object"
            and row.verb in verbs
            and (dry_run is None or row.dry_run == dry_run)
            and (not successful or 200 <= row.code < 300)
        )


METHODS: dict[str, str] = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
"""Verb → HTTP method, as the API server maps it.

https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb"""


@dataclass(frozen=True)
class ClientFigures:
    """The operator's requests in one phase, as counted by its own client.

    The counts are upper bounds of the requests for objects, as Leases, Events and reviews are counted, too.
    """

    rows: tuple[ClientRow, ...]

    @property
    def requests(self) -> int:
        """All requests."""
        return sum(row.count for row in self.rows)

    @property
    def by_method(self) -> dict[str, int]:
        """HTTP method → requests."""
        counts: Counter[str] = Counter()
        for row in self.rows:
            counts[row.method] += row.count
        return dict(sorted(counts.items()))

    def at_most(self, verbs: Iterable[str]) -> int:
        """Return the upper bound of requests for objects with these verbs."""
        methods = {METHODS[verb] for verb in verbs}
        return sum(row.count for row in self.rows if row.method in methods)

    def ever_counted(self, verbs: Iterable[str]) -> bool:
        """Return whether it has counted any request of these verbs' methods by the phase's end.

        Where it has not, its client may not count them, and a count of zero proves nothing.
        """
        methods = {METHODS[verb] for verb in verbs}
        return any(row.total for row in self.rows if row.method in methods)


@dataclass(frozen=True)
class CpuFigures:
    """CPU time and memory of one process in one phase."""

    result: CpuResult

    @property
    def seconds(self) -> float:
        """CPU seconds in the phase. Raises NotMeasuredError when only a part of them was measured."""
        if self.result.lower_bound:
            raise NotMeasuredError(
                f"{self.result.process} was not measured from the phase's start to its end: it used at least"
                f" {self.result.seconds:.3g} s of CPU",
                next_step="It ended, was restarted or its phase was cut; use .at_least if that is enough.",
            )
        return self.result.seconds

    @property
    def at_least(self) -> float:
        """CPU seconds that were measured: all of them, or fewer when the process ended or was restarted."""
        return self.result.seconds

    @property
    def resolution(self) -> float:
        """How far `seconds` may be off either way, s: 0 where the process's clock was read."""
        return self.result.resolution_s

    @property
    def cores(self) -> float:
        """Cores used on average. Raises as `seconds` does."""
        return self.seconds / self.result.window_s if self.result.window_s > 0 else 0.0

    @property
    def rss_bytes(self) -> int:
        """Resident memory at the phase's end, bytes."""
        return self.result.rss_bytes

    @property
    def peak_rss_bytes(self) -> int:
        """Highest resident memory up to the phase's end, bytes."""
        return self.result.peak_rss_bytes


@dataclass(frozen=True)
class MilestoneFigures:
    """When a milestone was met, in seconds from its phase's start."""

    result: MilestoneResult

    @property
    def seconds(self) -> float:
        """By the best clock available: the API server's (the end of its interval), else the watch's."""
        seconds = self.result.seconds
        if seconds is None:
            raise NotMeasuredError(f"milestone {self.result.name!r} was not met in its phase")
        return seconds

    @property
    def observed(self) -> float:
        """When the recorder observed it."""
        if self.result.observed_s is None:
            raise NotMeasuredError(f"milestone {self.result.name!r} was not met in its phase")
        return self.result.observed_s

    @property
    def server(self) -> tuple[float, float]:
        """The write that met it was committed between these two. Raises NotMeasuredError if that write is unknown."""
        if self.result.server_s is None:
            why = self.result.why_not_server or "it was not met in its phase"
            raise NotMeasuredError(f"milestone {self.result.name!r} has no server time: {why}")
        return self.result.server_s

    @property
    def clock(self) -> str:
        """Which clock `seconds` comes from."""
        return self.result.clock

    @property
    def held_to_end(self) -> bool:
        """Whether it still held when the phase ended."""
        if self.result.held_to_end is None:
            raise NotMeasuredError(f"milestone {self.result.name!r}: whether it held to the phase's end is not known")
        return self.result.held_to_end


@dataclass(frozen=True)
class NoopEvidence:
    """Whether a steady-state phase proves that its no-op reconciles wrote nothing."""

    state: Literal["no-writes", "writes", "inconclusive"]
    why: tuple[str, ...]
    """Why it is inconclusive; empty otherwise."""
    object_writes: int | None
    """None when not measured; from the operator's own count it is known only where it is 0."""
    object_reads: int | None
    triggers: int
    reconciles: dict[str, int]
    """Controller → reconciles in the phase; empty when not measured."""

    def per_trigger(self, controller: str) -> float:
        """Return reconciles of a controller for each trigger."""
        if not self.triggers or controller not in self.reconciles:
            raise NotMeasuredError(
                f"reconciles of {controller!r} per trigger: " + ("; ".join(self.why) or "no trigger")
            )
        return self.reconciles[controller] / self.triggers


def api(phase: PhaseResult, identity: str) -> ApiFigures:
    """Return the API traffic of an identity: a role as ``operator``, one of Kubernetes' controllers as
    ``job-controller``, or a full user name.

    Raises NotMeasuredError when the audit log does not cover the phase, or when it has never named that identity: then
    the identity is wrong, and the absence of requests proves nothing.
    """
    if not phase.audit_complete:
        raise NotMeasuredError(
            f"API traffic of {identity!r} in phase {phase.name!r} was not measured: {phase.missing.get('audit', '')}",
            next_step="See the recorder's warnings in the report; client_requests() has the operator's own count.",
        )
    rows = tuple(row for row in phase.api if identity in (row.identity, row.user))
    if not rows and identity.removeprefix(SYSTEM_ACCOUNTS) not in phase.identities_seen:
        shared = [name for name in phase.identities_seen if identity in name.split("+")]
        raise NotMeasuredError(
            f"{identity!r} shares its user with another role ({shared[0]}): its requests cannot be counted separately"
            if shared
            else f"the audit log has no request by {identity!r} up to the end of phase {phase.name!r}",
            next_step="Identities that it names: " + (", ".join(phase.identities_seen) or "none") + ".",
        )
    return ApiFigures(identity, rows)


def client_requests(phase: PhaseResult) -> ClientFigures:
    """Return the operator's requests by its own count. Raises NotMeasuredError where it serves none at the edges."""
    if why := phase.missing.get("client_requests", ""):
        raise NotMeasuredError(f"the operator's own count of its requests in phase {phase.name!r}: {why}")
    if not phase.client_requests:
        raise NotMeasuredError(f"the operator's own count of its requests in phase {phase.name!r} was not measured")
    return ClientFigures(phase.client_requests)


def cpu(phase: PhaseResult, process: str) -> CpuFigures:
    """Return CPU time and memory of a process.

    Raises NotMeasuredError when it was not read in the phase, or when the reads include a profiler's cost.
    """
    if phase.profiled:
        raise NotMeasuredError(
            f"CPU of {process!r} was not measured: phase {phase.name!r} was profiled, and what was used holds the"
            " profilers' cost",
            next_step="The same test's pass without profilers has it.",
        )
    result = next((row for row in phase.cpu if row.process == process), None)
    if result is None:
        known = ", ".join(row.process for row in phase.cpu) or "none"
        why = phase.missing.get(f"cpu:{process}") or phase.missing.get("cpu") or "no process of that name was read"
        raise NotMeasuredError(
            f"CPU of {process!r} in phase {phase.name!r} was not measured: {why}",
            next_step=f"Processes that were: {known}.",
        )
    return CpuFigures(result)


def reconciles(phase: PhaseResult, controller: str, *, result: str | None = None) -> int:
    """Return a controller's reconciles in the phase, of one result or of all, by the operator's own metrics.

    Raises NotMeasuredError when a scrape at the phase's edges is missing, the counter was reset, or the operator has no
    such controller or result.
    """
    if why := phase.missing.get("reconciles", ""):
        raise NotMeasuredError(f"reconciles in phase {phase.name!r} were not measured: {why}")
    rows = [row for row in phase.reconciles if row.controller == controller]
    chosen = [row for row in rows if result is None or row.result == result]
    if not chosen:
        known = {row.result for row in rows} if rows else {row.controller for row in phase.reconciles}
        what = f"result {result!r} of controller {controller!r}" if rows else f"controller {controller!r}"
        raise NotMeasuredError(
            f"the operator's metrics have no {what} in phase {phase.name!r}",
            next_step="It has: " + (", ".join(sorted(filter(None, known))) or "none") + ".",
        )
    count = sum(row.count for row in chosen)
    if any(row.lower_bound for row in chosen):
        raise NotMeasuredError(
            f"the operator was restarted in phase {phase.name!r}: its counters restarted at 0, {controller!r} made"
            f" at least {count} reconciles",
            next_step="See its log for why it ended.",
        )
    return count


def milestone(phase: PhaseResult, name: str) -> MilestoneFigures:
    """Return when a milestone was met. Raises NotMeasuredError when the phase has none of that name."""
    row = next((milestone for milestone in phase.milestones if milestone.name == name), None)
    if row is None:
        known = ", ".join(milestone.name for milestone in phase.milestones) or "none"
        raise NotMeasuredError(f"phase {phase.name!r} has no milestone {name!r}", next_step=f"It has: {known}.")
    return MilestoneFigures(row)


def noop(phase: PhaseResult, identity: str = "operator") -> NoopEvidence:
    """Return whether a phase proves that an identity's no-op reconciles made no object writes.

    "No writes" needs: an audit log without a gap, that names the identity before; a trigger, and its own write in the
    log; at least one reconcile since. An object write proves the opposite whatever else is missing. Without an audit
    log, an operator that counts its writes and counted none in the phase made none.
    """
    why: list[str] = []
    writes: int | None = None
    reads: int | None = None
    counts: Counter[str] = Counter()
    for row in phase.reconciles:
        counts[row.controller] += row.count
    try:
        traffic = api(phase, identity)
        writes, reads = traffic.object_writes, traffic.object_reads
    except NotMeasuredError as error:
        if identity == "operator" and not phase.audit_complete and wrote_nothing(phase):
            writes = 0
        else:
            why.append(error.message)
    why += trigger_doubts(phase)
    return NoopEvidence(
        state="writes" if writes else "inconclusive" if why else "no-writes",
        why=() if writes else tuple(why),
        object_writes=writes,
        object_reads=reads,
        triggers=phase.triggers,
        reconciles=dict(sorted(counts.items())),
    )


def wrote_nothing(phase: PhaseResult) -> bool:
    """Return whether the operator's own count proves that it wrote nothing in a phase: no objects, Leases or Events."""
    try:
        counted = client_requests(phase)
    except NotMeasuredError:
        return False
    return counted.ever_counted(WRITES) and not counted.at_most(WRITES)


def trigger_doubts(phase: PhaseResult, *, by_log: bool = False) -> list[str]:
    """Return why a phase may not show the effects of its no-op triggers; empty if there is no reason.

    Coverage by the audit log is not checked here: `api` checks it. ``by_log``: an operator that counts no reconciles at
    all is judged by the log alone.
    """
    doubts: list[str] = []
    if not phase.triggers:
        doubts.append("no trigger was made in the phase")
    elif phase.trigger_writes is not None and phase.trigger_writes < phase.triggers:
        doubts.append(f"the audit log holds {phase.trigger_writes} writes of {phase.triggers} triggers")
    if "reconciles" in phase.missing:
        if not (by_log and phase.counts_no_reconciles and phase.trigger_writes is not None):
            doubts.append(f"reconciles were not measured: {phase.missing['reconciles']}")
    elif any(row.lower_bound for row in phase.reconciles):
        doubts.append("the operator was restarted in the phase")
    elif not sum(row.count for row in phase.reconciles):
        doubts.append(
            "no reconcile followed the trigger: does the operator pass it over (`trigger:` in its definition)?"
        )
    return doubts


def effects_text(effects: WriteEffects) -> list[str]:
    """Return whether a no-op's writes changed anything: one without effect has another cure than one that changes."""
    writes = f"of {effects.writes:,} updates and patches"
    lines = []
    if effects.without_effect:
        lines.append(f"{effects.without_effect:,} {writes} changed nothing: they apply what is there")
    if changing := effects.writes - effects.without_effect:
        lines.append(f"{changing:,} {writes} changed their object, for a trigger that asks for no change")
    return lines


class Late(Protocol):
    """A late object, as the recorder or the result has it."""

    @property
    def milestone(self) -> str: ...
    @property
    def object(self) -> ObjectRef: ...
    @property
    def owner(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def events(self) -> Sequence[str]: ...


def late_text(late: Late) -> str:
    """Return a late object in one line: milestone, name, owner, and the reason as far as the API shows one.

    No colon stands behind the milestone: one that is called ``tokens`` would have what follows taken for its value.
    """
    where = " ".join([late.object.resource, *filter(None, [place(late)])])
    owner = f" (of {late.owner})" if late.owner else ""
    known = "; ".join(filter(None, (late.reason, *late.events[-1:])))
    return f"{late.milestone} waits for {where}{owner}: {known or 'the API server reports no reason'}"


def place(late: Late) -> str:
    """Return where a late object is: namespace and name, as far as there are any."""
    return "/".join(filter(None, (late.object.namespace, late.object.name)))


def as_plain(phase: PhaseResult) -> dict[str, Any]:
    """Return a phase's result as dicts, lists and scalars, as in result.json."""
    plain: dict[str, Any] = msgspec.to_builtins(phase)
    return plain
