"""Checks of a target that is several pods: each pod is held to them, and the worst one is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ...analysis.metrics.history import MetricsHistory
from ...errors import NotMeasuredError
from ..finding import Finding
from .shape import AnyMetricCheck

_WORST_FIRST = ("fail", "inconclusive", "pass")


def pods_of(check: AnyMetricCheck, metrics: MetricsHistory) -> list[str]:
    """Return the targets ``<target>/<pod>`` that a check means; none where it names a target, or none that is there."""
    target = getattr(check, "target", "")
    if target in metrics.targets:
        return []
    return sorted(name for name in metrics.targets if target and name.startswith(f"{target}/"))


def judge(check: AnyMetricCheck, pods: Sequence[str], judge_one: Callable[[AnyMetricCheck], Finding]) -> Finding:
    """Return the worst finding of all pods.

    Raises NotMeasuredError where one of them was not measured, unless another one fails.
    """
    found: list[tuple[str, Finding]] = []
    unknown: NotMeasuredError | None = None
    for pod in pods:
        try:
            found.append((pod, judge_one(msgspec.structs.replace(check, target=pod))))
        except NotMeasuredError as error:
            unknown = unknown or NotMeasuredError(f"{pod}: {error.message}", next_step=error.next_step)
    failed = any(finding.verdict == "fail" for _, finding in found)
    if unknown is not None and not failed:
        raise unknown
    pod, worst = min(found, key=lambda one: (_WORST_FIRST.index(one[1].verdict), -(one[1].figure or 0.0)))
    others = f" (the worst of {len(pods)} pods)" if len(pods) > 1 else ""
    return msgspec.structs.replace(worst, text=f"{pod}: {worst.text}{others}")
