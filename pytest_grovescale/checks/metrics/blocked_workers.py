"""Workers that wait inside reconciles.

The operator's metrics and its CPU clock show when they did; the stacks that the recorder had dumped meanwhile show
where. Without stacks the verdict is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ... import durations
from ...analysis.blocked_workers import NO_CPU, WaitingGroup, read_dump, waiting_workers, workers_of_phase
from ...analysis.controller_result import WorkerRow
from ...analysis.result import TestResult
from ...errors import NotMeasuredError
from ...recording.worker_history import MIN_SCRAPES, Dump, WorkerHistory
from ..check import Duration, Outcome, duration
from ..run import Run, named_phase
from .target import TargetCheck

_GROUPS = 3
_FRAMES = 12
_SCRAPE_MORE = "Scrape more often: --grovescale-scrape-interval=1s."
_REMEDY = (
    "Look once and return: the next event of what is awaited, or RequeueAfter, brings the key back, and the worker is"
    " free until then."
)

_NOT_DUMPED = "none were dumped, which takes a Python process, or `pprof:` in its definition"
_ASYNCIO = (
    "It is an asyncio program, whose tasks are not seen from outside: let it serve their stacks, and name where under"
    " `stacks:` in its definition."
)


class _Row(NamedTuple):
    phase: str
    row: WorkerRow


class NoBlockedWorkers(TargetCheck, tag="no_blocked_workers", frozen=True, kw_only=True):
    """Whether workers wait inside reconciles while keys wait for a worker, in one phase or in all."""

    timed = True

    longest: Duration = "10s"
    """How long a reconcile may run before it counts as one that waits."""
    phase: str = ""

    def validate(self) -> None:
        duration(self, longest=self.longest)

    def judge_target(self, run: Run) -> Outcome:
        history = run.metrics().workers
        longest = durations.seconds(self.longest)
        rows: list[_Row] = []
        doubts: list[str] = []
        for phase in self._phases(run.test, history):
            workers, why = workers_of_phase(history, phase, longest=longest)
            rows += (_Row(phase, row) for row in workers)
            doubts += [f"{phase}: {why}"] if why else []
        blocked = [one for one in rows if one.row.blocked]
        if blocked:
            return _failed(max(blocked, key=lambda one: one.row.blocked_s), blocked, history)
        doubts += [f"{phase}: {row.controller}: {row.problem}" for phase, row in rows if row.problem]
        if not rows:
            raise NotMeasuredError("; ".join(doubts) or "no controller had anything to do", next_step=_SCRAPE_MORE)
        seen = max(row.longest_s for _, row in rows if row.longest_s is not None)
        text = f"workers that waited inside reconciles: none; the longest reconcile seen had run {durations.text(seen)}"
        scrape_more = (_SCRAPE_MORE,) if any(NO_CPU not in doubt for doubt in doubts) else ()
        return Outcome(
            phase=self.phase,
            verdict="inconclusive" if doubts else "pass",
            figure=None if doubts else 0.0,
            bound=0.0,
            unit="s",
            text="; ".join([text, *doubts]),
            evidence=scrape_more if doubts else tuple(figures(one) for one in rows),
        )

    def _phases(self, test: TestResult, history: WorkerHistory) -> list[str]:
        """Return the phase that is named, or all but those that are scraped at their edges only, as no-op windows are.

        Nothing is to be done in these that workers could keep waiting. Without any other phase, return them.
        """
        if self.phase:
            return [named_phase(test, self.phase).name]
        scrapes = Counter(phase for _, phase in history.scrapes)
        scraped = [phase.name for phase in test.phases if phase.milestones or scrapes[phase.name] >= MIN_SCRAPES]
        return scraped or [phase.name for phase in test.phases]


def _failed(worst: _Row, blocked: Sequence[_Row], history: WorkerHistory) -> Outcome:
    dump, groups = _waiting(worst, history)
    return Outcome(
        phase=worst.phase,
        verdict="fail",
        figure=worst.row.blocked_s,
        bound=0.0,
        unit="s",
        text=_spells(worst.row) + (f"; {_place(groups[0])}" if groups else ""),
        evidence=(*_stacks(worst, dump, groups, history), *(figures(one) for one in blocked), _REMEDY),
    )


def _spells(row: WorkerRow) -> str:
    """Return who was blocked, when and for how long."""
    first, last = row.blocked[0].start_s, row.blocked[-1].end_s
    who = f"all {row.workers} workers" if row.workers is not None else f"some {row.busy_workers or 0:.0f} workers"
    times = f", in {len(row.blocked)} spells" if len(row.blocked) > 1 else ""
    starved = "; nothing was done in that time" if all(spell.starved for spell in row.blocked) else ""
    alone = "" if row.workers is not None else " (by its work queue alone: how many workers there are is not served)"
    return (
        f"{who} of {row.controller} waited inside reconciles for {durations.text(row.blocked_s)}{times}, between"
        f" {durations.text(first)} and {durations.text(last)} of the phase, while up to {row.depth_max:,} keys"
        f" waited for one{starved}{alone}"
    )


def figures(one: tuple[str, WorkerRow]) -> str:
    """Return a row's figures under the names that the rule has for them."""
    phase, row = one
    parts = {
        "S": row.active_share,
        "B": row.unfinished_growth,
        "W": row.busy_workers,
        "μ": row.finished_per_s,
        "κ": row.cores_per_worker,
    }
    values = ", ".join(f"{name} {value:.3g}" for name, value in parts.items() if value is not None)
    return f"{phase}: {row.controller}: {values} ({row.scrapes} scrapes)"


def _waiting(worst: _Row, history: WorkerHistory) -> tuple[Dump | None, tuple[WaitingGroup, ...]]:
    """Return the dump of the phase that shows most workers waiting, and these."""
    dumps = [dump for dump in history.dumps if dump.phase == worst.phase and dump.lines]
    waiting = [(dump, waiting_workers(read_dump(dump.lines))) for dump in dumps]
    return max(waiting, key=lambda one: sum(group.count for group in one[1]), default=(None, ()))


def _stacks(worst: _Row, dump: Dump | None, groups: Sequence[WaitingGroup], history: WorkerHistory) -> Iterator[str]:
    if dump is None:
        failed = [dump.failure for dump in history.dumps if dump.phase == worst.phase and dump.failure]
        yield f"No stacks, so where they wait is not known: {failed[-1] if failed else _NOT_DUMPED}"
        return
    moment = (dump.at - history.started.get(worst.phase, dump.at)) / 1e9
    if not groups:
        yield f"The stacks of {durations.text(moment)} (stacks:operator) show no worker inside a reconcile."
        if any("asyncio/" in frame.file for stack in read_dump(dump.lines) for frame in stack.frames):
            yield _ASYNCIO
        return
    yield f"Stacks of {durations.text(moment)} from the phase's start:"
    for group in groups[:_GROUPS]:
        yield _place(group)
        for frame in group.frames[:_FRAMES]:
            mark = ">" if frame is group.line or frame == group.line else " "
            yield f" {mark} {frame.function} ({frame.place})"
    if len(groups) > _GROUPS:
        rest = sum(group.count for group in groups[_GROUPS:])
        yield f"{rest} more workers in {len(groups) - _GROUPS} other places"


def _place(group: WaitingGroup) -> str:
    who = "1 worker waits" if group.count == 1 else f"{group.count} workers wait"
    line = group.line
    source = f": {line.source}" if line.source else ""
    return f"{who} at {line.place} in {line.function}{source}"
