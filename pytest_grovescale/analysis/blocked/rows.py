"""The rows of each controller's workers in a phase, with the times in which they were blocked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...recording.workers.history import WorkerHistory
from ...recording.workers.readings import Reading
from ...recording.workers.windows import MIN_SCRAPES, spells, window
from ..reconciles import LIBRARY_QUEUES
from ..result import BlockedSpell, WorkerRow

LONGEST_S = 10.0
"""Default duration from which a reconcile counts as one that waits, s."""

_FAR_APART = 1.5
"""Scrapes no more than this factor × `longest` apart show a wait. A phase's first scrape after its start is up to two
intervals away, so that an interval of five seconds suffices for the default of ten."""

NO_CPU = "nothing tells the operator's CPU time, so that a wait looks like work: let it serve process_cpu_seconds_total"


def workers_of_phase(
    history: WorkerHistory, phase: str, *, longest: float = LONGEST_S
) -> tuple[tuple[WorkerRow, ...], str]:
    """Return the controllers' rows in a phase, or nothing and why not.

    ``longest``: seconds that a reconcile may take. Controllers that had nothing to do have no row.
    """
    if not any(of == phase for _, of in history.scrapes):
        return (), "the operator's metrics were not scraped"
    found = {
        controller: readings
        for controller in sorted(history.readings)
        if not controller.startswith(LIBRARY_QUEUES)
        if (readings := history.of_phase(controller, phase))
    }
    if not found:
        return (), "the operator's metrics have no workqueue_* families: nothing tells what its workers do"
    rows = (row(history, name, readings, longest) for name, readings in found.items() if _had_work(readings))
    return tuple(rows), ""


def row(history: WorkerHistory, controller: str, readings: Sequence[Reading], longest: float) -> WorkerRow:
    """Return one controller's row, from its readings in a phase."""
    start = history.started.get(readings[0].phase, readings[0].at)
    whole = window(readings, history.cpu)
    found = spells(readings, history.cpu, longest)
    workers = readings[-1].workers
    return WorkerRow(
        controller=controller,
        workers=None if workers is None else round(workers),
        active_share=whole.active_share if whole else None,
        unfinished_growth=whole.unfinished_growth if whole else None,
        busy_workers=whole.busy_workers if whole else None,
        finished_per_s=whole.finished_per_s if whole else None,
        cores_per_worker=whole.cores_per_worker if whole else None,
        depth_max=round(max(reading.depth for reading in readings)),
        longest_s=max(reading.longest_s for reading in readings),
        scrapes=len(readings),
        blocked=tuple(
            BlockedSpell(start_s=(one.start - start) / 1e9, end_s=(one.end - start) / 1e9, starved=one.starved)
            for one in found
        ),
        problem="" if found else doubt(history, readings, longest),
    )


def doubt(history: WorkerHistory, readings: Sequence[Reading], longest: float) -> str:
    """Return why workers may have been blocked undetected; empty where they were not blocked.

    In a phase no longer than ``longest`` in which no scrape shows a reconcile that took longer, none did.
    """
    seconds = (readings[-1].at - readings[0].at) / 1e9
    if seconds <= longest and all(reading.longest_s <= longest for reading in readings):
        return ""
    if not history.cpu.known():
        return NO_CPU
    widest = max(((after.at - before.at) / 1e9 for before, after in pairwise(readings)), default=seconds)
    if len(readings) >= MIN_SCRAPES and widest <= _FAR_APART * longest:
        return ""
    return (
        f"{len(readings)} scrapes in {seconds:.3g} s, up to {widest:.3g} s apart: too few to see waits of {longest:g} s"
    )


def _had_work(readings: Sequence[Reading]) -> bool:
    first, last = readings[0], readings[-1]
    return last.worked != first.worked or any(reading.depth or reading.unfinished_s for reading in readings)
