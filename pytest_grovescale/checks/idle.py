"""What the operator costs while nothing changes: CPU and requests, in the idle windows of a run.

An idle window is a time of at least two seconds in which only the operator itself changed anything; see
`analysis.findings.idle_windows`. Idle twins and phases that begin when the operator has been left alone are judged
together, those with objects; what follows a change within a phase only where there are no others. A window shows
nothing of work with a longer period: `window` demands a length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from .. import durations
from ..analysis.controller_result import IdleKind, IdleRow, IdleWindow
from ..analysis.idle_baseline import refuse_profiled
from ..analysis.result import TestResult
from ..errors import NotMeasuredError
from .api_requests import ROWS_SHOWN, for_each, objects_of
from .check import Check, Duration, Outcome, at_most, duration, not_negative, periods, shown
from .run import Run

_KINDS: dict[str, tuple[IdleKind, ...]] = {
    "objects": ("object",),
    "leases": ("lease",),
    "events": ("event",),
    "reviews": ("review",),
    "watches": ("watch",),
    "all": ("object", "lease", "event", "review", "watch", "nonresource"),
}


class IdleCpu(Check, tag="idle_cpu", frozen=True, kw_only=True):
    """CPU of the operator while nothing changes, in cores: 0.01 is 10 ms a second, or 864 s a day."""

    timed = True
    needs_idle_twin = True

    max: float
    per_object: bool | int = False
    """As for `ApiRequests`."""
    phase: str = ""
    """Only idle windows in this phase."""
    window: Duration | None = None
    """Least length of the longest window."""

    def validate(self) -> None:
        not_negative(self, max=self.max, per_object=self.per_object)
        duration(self, window=self.window)

    def judge(self, run: Run) -> Outcome:
        test = run.test
        refuse_profiled(test)
        windows = [one for one in _windows(test, self.phase, self.window) if one.cpu_s is not None]
        seconds = sum(one.cpu_window_s for one in windows)
        if not seconds:
            raise NotMeasuredError(
                "the operator's CPU clock was not read in an idle window",
                next_step="It is read of processes on this machine, once a second: hold a phase for some seconds more.",
            )
        return at_most(
            windows[0].phase,
            f"operator CPU while nothing changes{for_each(test, self.per_object)}",
            sum(one.cpu_s or 0.0 for one in windows) / seconds / objects_of(test, self.per_object),
            self.max,
            "cores",
            evidence=(
                *(f"{one.phase}: {shown(one.cpu_s or 0.0, 's')} in {shown(one.cpu_window_s, 's')}" for one in windows),
                uncovered(windows),
            ),
        )


class IdleRequests(Check, tag="idle_requests", frozen=True, kw_only=True):
    """Requests a second by the operator while nothing changes: for objects, or of another kind.

    Leases, Events, reviews (TokenReview, SubjectAccessReview) and watches that are opened again count only where ``of``
    says so.
    """

    needs_idle_twin = True

    max: float
    of: Literal["objects", "leases", "events", "reviews", "watches", "all"] = "objects"
    per_object: bool | int = False
    """As for `ApiRequests`."""
    periodic: dict[str, Duration] = msgspec.field(default_factory=dict)
    """Request → period with which it is made anyway, not counted: ``{"list pods": "30s"}``."""
    phase: str = ""
    """Only idle windows in this phase."""
    window: Duration | None = None
    """Least length of the longest window."""

    def validate(self) -> None:
        not_negative(self, max=self.max, per_object=self.per_object)
        duration(self, window=self.window)
        periods(self, self.periodic)

    def judge(self, run: Run) -> Outcome:
        test = run.test
        windows = _windows(test, self.phase, self.window)
        counted: Counter[str] = Counter()
        excused: Counter[str] = Counter()
        for one in windows:
            for row in one.rows:
                if row.kind in _KINDS[self.of]:
                    anyway = self._periodic(row, one.requests_window_s)
                    counted[row.what] += row.count - anyway
                    excused[row.what] += anyway
        seconds = sum(one.requests_window_s for one in windows)
        what = "requests" if self.of == "all" else f"requests for {self.of}" if self.of != "watches" else "watches"
        return at_most(
            windows[0].phase,
            f"{what} while nothing changes{for_each(test, self.per_object)}",
            counted.total() / seconds / objects_of(test, self.per_object),
            self.max,
            "1/s",
            evidence=(
                *(
                    f"{number:,} × {name} in {shown(seconds, 's')}"
                    for name, number in counted.most_common(ROWS_SHOWN)
                    if number
                ),
                *(f"{number:,} × {name}: as declared" for name, number in excused.items() if number),
                uncovered(windows),
            ),
        )

    def _periodic(self, row: IdleRow, seconds: float) -> int:
        """Return how many requests of a row its declared period explains."""
        if row.what not in self.periodic:
            return 0
        bursts = int(seconds / durations.seconds(self.periodic[row.what])) + 1
        return row.count if row.bursts <= bursts else round(row.count * bursts / row.bursts)


def _windows(test: TestResult, phase: str, least: Duration | None) -> Sequence[IdleWindow]:
    """Return the idle windows to judge, the longest first. Raises NotMeasuredError without one that is long enough."""
    windows: Sequence[IdleWindow] = [one for one in test.idle if not phase or one.phase == phase]
    if not windows:
        where = f" in phase {phase!r}" if phase else ""
        why = next((one.missing["audit"] for one in test.phases if "audit" in one.missing), "")
        raise NotMeasuredError(
            f"there is no idle window{where}: no time of two seconds in which only the operator changed anything"
            + (f" ({why})" if why else ""),
            next_step='Let it rest in a phase of its own: with scale.phase("idle") as idle: idle.hold("30s").',
        )
    windows = [one for one in windows if one.rested] or windows
    windows = [one for one in windows if one.objects] or windows
    if least is not None and windows[0].seconds < durations.seconds(least):
        raise NotMeasuredError(
            f"the longest idle window lasted {shown(windows[0].seconds, 's')}, less than {least}",
            next_step=f"Hold a phase for longer: hold({least!r}).",
        )
    return windows


def uncovered(windows: Sequence[IdleWindow]) -> str:
    """Return the longest period that the windows cover."""
    longest = windows[0]
    return (
        f"{len(windows)} idle window{'s' * (len(windows) != 1)}, the longest {shown(longest.seconds, 's')}: work with a"
        f" period above {shown(longest.covers_s, 's')} was not covered"
    )
