"""Bounds on an operator's requests where no audit log tells of them: by its own client's count.

That count holds Leases, Events and reviews beside objects and knows no resource. So it is an upper bound of whatever a
check is about: what it allows passes for certain, and what it does not allow cannot be told.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..analysis import figures
from ..analysis.client_requests import FAMILY
from ..analysis.result import PhaseResult
from ..analysis.run_metrics import OPERATOR
from ..errors import NotMeasuredError
from .finding import Finding, against


def by_own_count(
    phase: PhaseResult,
    what: str,
    identity: str,
    verbs: Collection[str],
    bound: float,
    *,
    lacking: NotMeasuredError,
    per: int = 1,
    doubts: Sequence[str] = (),
) -> Finding:
    """Return what requests that may be no more than a bound come to, by the operator's own count.

    ``lacking``: why the audit log does not tell; raised for another identity, where there is no count, and where the
    log covers the phase: then the identity is wrong. ``per``: what the count is divided by.
    """
    counted = _counted(phase, identity, lacking)
    most = counted.at_most(verbs) / per
    open_questions = list(doubts)
    if most > bound:
        open_questions.append("which of them were meant only an audit log tells")
    if not counted.ever_counted(verbs):
        open_questions.append("it has never counted such a request: its client may not count them")
    methods = sorted({figures.METHODS[verb] for verb in verbs})
    text = f"{what} at most {against(most, bound, '')}; by its own {FAMILY}"
    return Finding(
        phase=phase.name,
        verdict="inconclusive" if open_questions else "pass",
        subject=what,
        figure=most,
        bound=bound,
        unit="",
        text="; ".join([text, *open_questions]),
        evidence=(
            lacking.message,
            *(
                f"{row.count:,} × {row.method}, {row.code}"
                for row in counted.rows
                if row.count and row.method in methods
            ),
        ),
    )


def _counted(phase: PhaseResult, identity: str, lacking: NotMeasuredError) -> figures.ClientFigures:
    if identity != OPERATOR or phase.audit_complete:
        raise lacking
    try:
        return figures.client_requests(phase)
    except NotMeasuredError as error:
        raise NotMeasuredError(f"{lacking.message}; {error.message}", next_step=lacking.next_step) from None
