"""Names and help texts."""

from __future__ import annotations

from ...analysis.metrics.history import MetricsHistory
from ...errors import NotMeasuredError
from ..finding import Finding, at_most
from ..lint import names
from ..lint.problem import line
from ..lint.served import own
from .cardinality import unread
from .evidence import first
from .shape import MetricNames


def judge(check: MetricNames, metrics: MetricsHistory) -> Finding:
    """Judge the names of all families that were ever served and that no library brought."""
    target = metrics.target(check.target)
    surface = target.whole()
    families = list(own(surface, ignore=check.ignore))
    if not families:
        raise NotMeasuredError(f"{target.target} serves no family of its own")
    found = list(names.problems(families, {*surface.families, *surface.by_family()}))
    return at_most(
        "",
        f"faults in the names of {len(families)} families",
        len(found),
        0,
        doubts=unread(target),
        evidence=first([line(problem) for problem in found]),
    )
