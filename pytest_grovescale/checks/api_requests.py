"""API requests of an identity in a phase, by verb and resource, as a total or for each object.

They come from the audit log; without one, from the operator's own count of its client's requests. That count includes
Leases, Events and reviews and has no resources, so it is an upper bound: a bound above it passes for certain, a bound
below it stays undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ..analysis import figures
from ..analysis.api_requests import FAMILY
from ..analysis.phase_result import ApiRow, PhaseResult
from ..analysis.result import OPERATOR, TestResult
from ..errors import NotMeasuredError
from .check import Check, CheckArgumentError, Outcome, against, at_most, not_negative
from .run import Run, named_phase, unfinished, unknown

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

ROWS_SHOWN = 10
"""Rows of evidence: the largest ones."""


class _Positional(Check, frozen=True):
    positional = ("phase", "verb")

    phase: str
    verb: str = ""


class ApiRequests(_Positional, tag="api_requests", frozen=True, kw_only=True):
    """Requests for objects by one identity in one phase: of one verb and resource, or of all.

    Leases, Events, reviews and dry runs do not count, as in the report, unless ``resource`` names them.
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

    def validate(self) -> None:
        not_negative(self, max=self.max, per_object=self.per_object)
        if self.verb and self.verb not in VERBS:
            raise CheckArgumentError(f"api_requests(verb={self.verb!r}): {unknown('verb', self.verb, VERBS)}")

    def judge(self, run: Run) -> Outcome:
        test, phase = run.test, named_phase(run.test, self.phase)
        request = " ".join(part for part in (self.verb, self.resource) if part)
        subject = f"{request + ' ' if request else ''}requests by {self.identity}{for_each(test, self.per_object)}"
        doubts = unfinished(phase)
        try:
            traffic = figures.api(phase, self.identity)
        except NotMeasuredError as error:
            verbs = {self.verb} if self.verb else figures.METHODS
            objects = objects_of(test, self.per_object)
            return by_own_count(
                phase, subject, self.identity, verbs, self.max, lacking=error, per=objects, doubts=doubts
            )
        resources = sorted({row.resource for phase in test.phases for row in phase.api})
        if self.resource and self.resource not in resources:
            # A misspelt resource has no requests, which is no pass.
            raise NotMeasuredError(f"in the whole recording there is {unknown('resource', self.resource, resources)}")
        rows = [row for row in traffic.rows if self._counts(row)]
        by_code: Counter[str] = Counter()
        for row in rows:
            by_code[f"{row.verb} {row.resource}, {row.code}"] += row.count
        return at_most(
            phase.name,
            subject,
            sum(row.count for row in rows) / objects_of(test, self.per_object),
            self.max,
            doubts=doubts,
            evidence=[f"{phase.name}: {n:,} × {what}" for what, n in by_code.most_common(ROWS_SHOWN)],
        )

    def _counts(self, row: ApiRow) -> bool:
        if self.verb and row.verb != self.verb:
            return False
        if self.resource:
            return row.resource == self.resource
        return row.category == "object" and not row.dry_run


def by_own_count(
    phase: PhaseResult,
    subject: str,
    identity: str,
    verbs: Collection[str],
    bound: float,
    *,
    lacking: NotMeasuredError,
    per: int = 1,
    doubts: Sequence[str] = (),
) -> Outcome:
    """Return the outcome of requests with these verbs by the operator's own count, divided by ``per``.

    ``lacking``: why the audit log does not have them; raised for another identity, where there is no such count, and
    where the log covers the phase: then the identity is wrong.
    """
    if identity != OPERATOR or phase.audit_complete:
        raise lacking
    try:
        counted = figures.client_requests(phase)
    except NotMeasuredError as error:
        raise NotMeasuredError(f"{lacking.message}; {error.message}", next_step=lacking.next_step) from None
    most = counted.at_most(verbs) / per
    open_questions = list(doubts)
    if most > bound:
        open_questions.append("only an audit log shows which of them were intended")
    if not counted.ever_counted(verbs):
        open_questions.append("it has never counted such a request: its client may not count them")
    methods = {figures.METHODS[verb] for verb in verbs}
    rows = [row for row in counted.rows if row.count and row.method in methods]
    return Outcome(
        phase=phase.name,
        verdict="inconclusive" if open_questions else "pass",
        subject=subject,
        figure=most,
        bound=bound,
        text="; ".join([f"{subject} at most {against(most, bound, '')}; by its own {FAMILY}", *open_questions]),
        evidence=(lacking.message, *(f"{row.count:,} × {row.method}, {row.code}" for row in rows)),
    )


def objects_of(test: TestResult, per_object: bool | int) -> int:
    """Return the number that a figure is divided by: 1 where it is not. Raises NotMeasuredError."""
    if per_object is not True:
        return int(per_object) or 1
    if not test.objects:
        raise NotMeasuredError(
            "no milestone of the test counts objects", next_step="Say how many there are: per_object=1000."
        )
    return test.objects


def for_each(test: TestResult, per_object: bool | int) -> str:
    """Return in words what a figure is divided by."""
    if per_object is True:
        return f" for each of {test.objects:,} {test.objects_resource}"
    return f" for each of {per_object:,} objects" if per_object else ""
