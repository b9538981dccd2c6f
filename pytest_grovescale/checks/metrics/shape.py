"""The checks of metrics, each with its arguments.

``target`` is the name of a scraped endpoint: the operator's own where none is named.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from ...analysis.metrics.equations import equation
from ...analysis.metrics.selection import ExpressionError
from ..arguments import CheckArgumentError, duration, not_negative, share, some_judged
from ..check import Check, tag_of

Duration = str | int | float


class _OfTarget(Check, frozen=True, kw_only=True):
    target: str = "operator"


class _AtMost(Check, frozen=True):
    max: int


class Series(_AtMost, tag="series", frozen=True, kw_only=True):
    """Series that the endpoint serves at once, at most: buckets, sums and counts are series too."""

    target: str = "operator"
    family: str = ""
    """Name of a family, or a pattern with ``*`` (``grove_operator_*``; ``*``: all); empty: those that no library
    brought."""
    phase: str = ""
    """At this phase's end; empty: the most of all scrapes."""

    def refuse(self) -> None:
        not_negative(tag_of(self), max=self.max)


class SeriesGrowth(_OfTarget, tag="series_growth", frozen=True, kw_only=True):
    """How many series each further object brings: the slope of a line through series against objects.

    Families that a library brought are let off, except where ``family`` names one.
    """

    vs: Literal["objects"] = "objects"
    slope_max: float = 0.0
    """Series for each object, at most."""
    family: str = ""

    def refuse(self) -> None:
        not_negative(tag_of(self), slope_max=self.slope_max)


class Labels(_OfTarget, tag="labels", frozen=True, kw_only=True):
    """Names of labels that must not be there, and the values that others may have.

    Labels that a library gave its own families are let off, except where ``family`` names such a family.
    """

    failure_stands: ClassVar[bool] = True

    forbidden: list[str] = msgspec.field(default_factory=list)
    allowed_values: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Label → all values that it may have."""
    family: str = ""

    def refuse(self) -> None:
        if not any(self.forbidden) and not self.allowed_values:
            raise CheckArgumentError("labels() forbids nothing", next_step='Give forbidden=["namespace", "name"].')


class NoBuiltinDuplicates(_OfTarget, tag="no_builtin_duplicates", frozen=True, kw_only=True):
    """Whether a family of the operator's own says what a built-in one says already, or takes its name.

    Told by values over the run, whatever the names; see `analysis.metrics.duplicates`. A family that adds up to a
    built-in one over labels of its own is allowed, and named.
    """

    ignore: list[str] = msgspec.field(default_factory=list)
    """Families that are let off, or patterns with ``*``."""

    def refuse(self) -> None:
        some_judged(tag_of(self), self.ignore)


class MetricNames(_OfTarget, tag="metric_names", frozen=True, kw_only=True):
    """The rules for names and help texts, as Prometheus' own linter has them, for families that no library brought."""

    failure_stands: ClassVar[bool] = True

    ignore: list[str] = msgspec.field(default_factory=list)
    """Families that are let off, or patterns with ``*``."""

    def refuse(self) -> None:
        some_judged(tag_of(self), self.ignore)


class FunctionNameLabels(_OfTarget, tag="function_name_labels", frozen=True, kw_only=True):
    """Whether label values are names of functions: they change with the code, and nobody else knows them.

    Functions are looked up in the operator's source where that is at hand, in the stacks that were dumped while it
    waited, and in the profiles of the pass with profilers, which is held to this check as well.
    """

    of_profiled_pass: ClassVar[bool] = True
    failure_stands: ClassVar[bool] = True

    ignore: list[str] = msgspec.field(default_factory=list)
    """Families that are let off, or patterns with ``*``."""
    source: str = ""
    """Folder with the operator's source (Python, Go), relative to where the test is run from."""

    def refuse(self) -> None:
        some_judged(tag_of(self), self.ignore)


class _OfFamilies(Check, frozen=True):
    families: list[str]


class Initialised(_OfFamilies, tag="initialised", frozen=True, kw_only=True):
    """Whether these families' series are all there, with 0, from the first scrape on.

    ``labels`` says which there have to be: one for each combination of the values. Without it they are those that the
    run showed at any time.
    """

    labels: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Label → all of its values, of each of the families."""
    target: str = "operator"

    def refuse(self) -> None:
        if not self.families:
            raise CheckArgumentError("initialised() names no family", next_step='Give families=["my_errors_total"].')
        if empty := [label for label, values in self.labels.items() if not values]:
            raise CheckArgumentError(f"initialised(labels={self.labels}): {empty[0]} has no value, so none is demanded")


class _Stated(Check, frozen=True):
    positional: ClassVar[tuple[str, ...]] = ("expression",)

    expression: str


class Invariant(_Stated, tag="invariant", frozen=True, kw_only=True):
    """An equation or inequality between sums of series: ``sum(a) == sum(b)``, ``sum(a) <= sum(b{code="409"})``.

    Its language is told in `equations`. At rest is a scrape at which no worker works and no key waits, by the
    endpoint's own gauges; where it serves none, a scrape at a phase's edge.
    """

    target: str = "operator"
    tolerance: float = 0.0
    """How far the two sides may be apart at rest."""
    running: float | Literal["workers", "off"] = "workers"
    """How far while work is under way. ``workers``: by as many as reconciles can run at once, of which each may have
    been counted on one side only; where a gauge is compared, or the endpoint does not tell how many can run, only
    scrapes at rest are looked at, as with ``off``."""

    def refuse(self) -> None:
        not_negative(tag_of(self), tolerance=self.tolerance)
        if not isinstance(self.running, str):
            not_negative(tag_of(self), running=self.running)
        try:
            equation(self.expression)
        except ExpressionError as error:
            raise CheckArgumentError(f"invariant: {error.message}", next_step=error.next_step) from None


class CounterResets(_OfTarget, tag="counter_resets", frozen=True, kw_only=True):
    """How often a counter started anew in a process that went on; a restart of the process explains it, and is told."""

    max: int = 0

    def refuse(self) -> None:
        not_negative(tag_of(self), max=self.max)


class HistogramBuckets(_OfTarget, tag="histogram_buckets", frozen=True, kw_only=True):
    """Whether the buckets of histograms tell observations apart: no bucket holds more than a share of them.

    Native histograms are let off, and so are families that a library brought, except where ``family`` names one.
    """

    timed: ClassVar[bool] = True

    share_max: float = 0.95
    family: str = ""

    def refuse(self) -> None:
        share(tag_of(self), share_max=self.share_max)


class Coexistence(_OfTarget, tag="coexistence", frozen=True, kw_only=True):
    """Whether the operator serves the same families and labels with the harness' tracking and without it.

    And whether a run id, a namespace, a phase or a milestone of the harness stands among them. Declared by marker or
    in ``budgets.yaml``, it has the run make a second, untracked pass after the test; see `scenario.untracked`.
    """

    ignore: list[str] = msgspec.field(default_factory=list)
    """Families that are let off, or patterns with ``*``: what differs between any two processes, as a start time."""

    def refuse(self) -> None:
        some_judged(tag_of(self), self.ignore)


class _ShareAtMost(Check, frozen=True):
    max: float


class ConflictRate(_ShareAtMost, tag="conflict_rate", frozen=True, kw_only=True):
    """Share of an identity's updates and patches that the API server refused with 409, at most."""

    timed: ClassVar[bool] = True

    phase: str = ""
    """Empty: all phases together."""
    identity: str = "operator"

    def refuse(self) -> None:
        share(tag_of(self), max=self.max)


class _OfKind(Check, frozen=True):
    positional: ClassVar[tuple[str, ...]] = ("kind",)

    kind: Literal["persistent", "transient", "all"] = "persistent"


class ErrorRatio(_OfKind, tag="error_ratio", frozen=True, kw_only=True):
    """Errors of one kind for each reconcile, at most.

    ``persistent``: what a retry does not mend (invalid, forbidden); ``transient``: what it does (conflict, timeout,
    rate_limited).
    """

    timed: ClassVar[bool] = True

    max: float = 0.0
    phase: str = ""
    """Empty: all phases together."""
    target: str = "operator"
    family: str = ""
    """Counter that tells kinds of errors; empty: all that have the label."""
    label: str = "error_type"

    def refuse(self) -> None:
        not_negative(tag_of(self), max=self.max)


class NoBlockedWorkers(_OfTarget, tag="no_blocked_workers", frozen=True, kw_only=True):
    """Whether workers wait inside reconciles while keys wait for a worker."""

    timed: ClassVar[bool] = True

    longest: Duration = "10s"
    """How long a reconcile may run before it counts as one that waits."""
    phase: str = ""

    def refuse(self) -> None:
        duration(tag_of(self), longest=self.longest)


AnyMetricCheck = (
    Series
    | SeriesGrowth
    | Labels
    | NoBuiltinDuplicates
    | MetricNames
    | FunctionNameLabels
    | Initialised
    | Invariant
    | CounterResets
    | HistogramBuckets
    | Coexistence
    | ConflictRate
    | ErrorRatio
    | NoBlockedWorkers
)
