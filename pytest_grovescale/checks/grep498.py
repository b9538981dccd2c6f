"""What GREP-498 promises of Grove's metrics, as one bundle of checks.

@pytest.mark.grovescale_budget(checks.Grep498())

for check in checks.Grep498(controllers=["one", "two"]):
    scale.check(check)
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .check import Bundle, Check
from .metrics.invariant import Invariant
from .metrics.labels import Labels
from .metrics.preinitialized_series import PreinitializedSeries
from .metrics.series import Series
from .metrics.target import ValuesOf

CONTROLLERS = ("podcliqueset", "podclique", "podcliquescalinggroup")
ERROR_TYPES = (
    "not_found",
    "conflict",
    "already_exists",
    "timeout",
    "forbidden",
    "invalid",
    "rate_limited",
    "internal",
)
TARGET_KINDS = ("PodCliqueSet", "PodClique", "PodCliqueScalingGroup")
_CONFLICTS = "grove_operator_status_update_conflict_total"
_ERRORS = "grove_operator_reconcile_errors_total"
_GROVES = f'{{controller=~"({"|".join(CONTROLLERS)})(-.*)?"}}'
"""Selects Grove's own controllers; a program may run others, as one that rotates certificates."""
_OBJECTS = ("namespace", "name", "pod", "podclique", "podcliqueset", "uid", "path", "message", "operation")


class Grep498(Bundle, tag="grep498", frozen=True, kw_only=True):
    """What the proposal GREP-498 (v2) promises of Grove's own metrics: families ``grove_operator_*``.

    At most 33 series (3 controllers × 3 kinds of target, 3 controllers × 8 types of error), all at 0 from the start,
    with declared label values; errors add up to controller-runtime's by controller, and there are no more conflicts
    than requests answered with 409. https://github.com/ai-dynamo/grove/pull/499
    """

    controllers: list[str] = msgspec.field(default_factory=list)
    """Values of the label ``controller``; empty: the names by which controller-runtime counts Grove's controllers, the
    proposal's ones or these with more behind a hyphen (``podcliqueset-controller``), so that the two join."""

    def __iter__(self) -> Iterator[Check]:
        own = "grove_operator_*"
        names = self.controllers or CONTROLLERS
        controllers: ValuesOf = self.controllers or f"controller_runtime_reconcile_total{_GROVES}"
        yield Series(max=len(names) * (len(TARGET_KINDS) + len(ERROR_TYPES)), family=own)
        yield Labels(
            forbidden=list(_OBJECTS),
            allowed_values={
                "controller": controllers,
                "target_kind": list(TARGET_KINDS),
                "error_type": list(ERROR_TYPES),
            },
            family=own,
        )
        yield PreinitializedSeries([_CONFLICTS], labels={"controller": controllers, "target_kind": list(TARGET_KINDS)})
        yield PreinitializedSeries([_ERRORS], labels={"controller": controllers, "error_type": list(ERROR_TYPES)})
        all_errors = f"controller_runtime_reconcile_errors_total{'' if self.controllers else _GROVES}"
        yield Invariant(f"sum({_ERRORS}) by (controller) == sum({all_errors}) by (controller)")
        yield Invariant(
            f"sum(increase({_CONFLICTS})) <="
            ' sum(increase(rest_client_requests_total{code="409",method=~"PUT|PATCH"}))'
        )
