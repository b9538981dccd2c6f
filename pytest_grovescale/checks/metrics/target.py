"""Checks of one scraped endpoint. Where the target is several pods, each pod is judged, and the worst one counts."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from ...analysis.metrics.history import TargetHistory
from ...analysis.metrics.selectors import selector
from ...analysis.result import OPERATOR
from ...errors import NotMeasuredError
from ..check import Check, Outcome, some_judged
from ..run import Run

_WORST_FIRST = ("fail", "inconclusive", "pass")


class TargetCheck(Check, frozen=True, kw_only=True):
    """Base of checks of one target: the name of a scraped endpoint, the operator's own by default."""

    target: str = OPERATOR

    def judge(self, run: Run) -> Outcome:
        targets = run.metrics().targets
        if self.target not in targets:
            pods = sorted(name for name in targets if self.target and name.startswith(f"{self.target}/"))
            if pods:
                return self._worst(pods, run)
        return self.judge_target(run)

    def judge_target(self, run: Run) -> Outcome:
        """Return the outcome for `target`, which is one endpoint. Raises NotMeasuredError."""
        raise NotImplementedError

    def _worst(self, pods: list[str], run: Run) -> Outcome:
        """Return the worst outcome of all pods.

        Raises NotMeasuredError where one of them was not measured, unless another one fails.
        """
        outcomes: list[tuple[str, Outcome]] = []
        unmeasured: NotMeasuredError | None = None
        for pod in pods:
            try:
                outcomes.append((pod, msgspec.structs.replace(self, target=pod).judge_target(run)))
            except NotMeasuredError as error:
                unmeasured = unmeasured or NotMeasuredError(f"{pod}: {error.message}", next_step=error.next_step)
        if unmeasured is not None and not any(outcome.verdict == "fail" for _, outcome in outcomes):
            raise unmeasured
        pod, worst = min(outcomes, key=lambda one: (_WORST_FIRST.index(one[1].verdict), -(one[1].figure or 0.0)))
        others = f" (the worst of {len(pods)} pods)" if len(pods) > 1 else ""
        return msgspec.structs.replace(worst, text=f"{pod}: {worst.text}{others}")


class OwnFamiliesCheck(TargetCheck, frozen=True, kw_only=True):
    """Base of checks of the families that no library brought."""

    ignore: list[str] = msgspec.field(default_factory=list)
    """Families that do not count, or patterns with ``*``."""

    def validate(self) -> None:
        some_judged(self, self.ignore)

    def ignored(self, family: str) -> bool:
        """Return whether a family's name matches a pattern of `ignore`."""
        return any(fnmatchcase(family, pattern) for pattern in self.ignore)


ValuesOf = list[str] | str
"""Values of a label: these, or those that it has in the series of a selector, as PromQL writes it."""


def values_of(declared: Mapping[str, ValuesOf], target: TargetHistory) -> dict[str, list[str]]:
    """Return label → its declared values, read from the target where a selector declares them.

    Raises NotMeasuredError where it selects no series, and ExpressionError for one that is none.
    """
    found: dict[str, list[str]] = {}
    for label, values in declared.items():
        if isinstance(values, str):
            selected = {one.labels.get(label, "") for one in selector(values).of(target.series).values()} - {""}
            if not selected:
                raise NotMeasuredError(f"{target.target} serves no series {values} with a label {label}")
            found[label] = sorted(selected)
        else:
            found[label] = values
    return found


def check_selectors(declared: Mapping[str, ValuesOf]) -> None:
    """Raise ExpressionError for a selector that is none."""
    for values in declared.values():
        if isinstance(values, str):
            selector(values)


def unread(target: TargetHistory) -> list[str]:
    """Return why a target may have served more than was read: its last scrapes failed."""
    if target.failures and target.failures[-1][0] > target.moments[-1].at:
        return [f"its last scrape failed ({target.failures[-1][1]})"]
    return []
