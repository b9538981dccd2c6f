"""What a reconcile costs besides its requests: CPU time, processes and threads of its own, and looks again.

Part of the rule `amplification`. What it finds is a note, since computing, or other programs, may be what the operator
is for; but for objects that are looked at again after a fraction of a second, three times a second and more each for as
long as a phase takes: a watch shows at once what they wait for.

No false alarm: CPU time counts from 45 ms on for each write of an object, statuses and Events left out, of ten and more
in a phase in which it used half a core and more; not where it started, and of a JVM, which compiles what runs for
the first time, in two phases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ...recording.records import CpuRead
from ..result import OPERATOR, Finding
from .grouping import About, Aspect, Found
from .noop_work import by_controller
from .observed import Observed

ID = "reconcile-amplification"

_EACH_S, _OBJECTS, _OF_TIME = 0.045, 10, 0.5
"""CPU time for each write of an object, s, so many of them, and the cores that it uses."""
_JVM = "jvm_"
_OF_CHILDREN, _OF_CHILDREN_NS = 0.2, 200_000_000
"""Share of the operator's CPU time, and time, ns, of processes that it starts, from which on they are worth a note."""
_EACH_NS, _RECONCILES, _PHASES = 1_000_000, 50, 3
"""The same where they are a small share, as of a JVM's: CPU time for each reconcile, ns, of so many, in so many
phases."""

_THREADS, _STARTED = 0.4, 50
"""Threads that were started for each reconcile, and in all, from which on a reconcile starts its own."""


_AGAIN_S, _LOOKS, _LONG_S = 3.0, 100, 2.0
"""Looks again at each object a second, in all, and length of a phase, s, from which on they are polls."""


def costs(seen: Observed) -> Iterator[Finding]:
    """Yield what changes cost in CPU time, what reconciles start for themselves, and what they look at again."""
    yield from _looked_again(seen)
    yield from _of_changes(seen)
    yield from _in_children(seen)
    yield from _in_threads(seen)


def _looked_again(seen: Observed) -> Iterator[Finding]:
    """Yield the controller that looks most often at its objects again while a phase goes on, by ``RequeueAfter``."""
    found: list[tuple[float, int, int, str, str]] = []
    for span in seen.spans:
        if span.phase.outcome != "passed" or span.phase.seconds < _LONG_S:
            continue
        looks: Counter[str] = Counter()
        for row in span.phase.reconciles:
            looks[row.controller] += row.count if row.result == "requeue_after" else 0
        for controller, number in looks.items():
            if number < _LOOKS:
                continue
            a_second = number / seen.objects_reconciled(controller) / span.phase.seconds
            if a_second >= _AGAIN_S:
                total = by_controller(span.phase)[controller]
                found.append((a_second, number, total, controller, span.phase.name))
    if not found:
        return
    a_second, number, total, controller, phase = max(found)
    yield Found(
        id=ID,
        severity="waste",
        about=About(aspect=Aspect.AMOUNT, times=[(span.start, span.end) for span in seen.spans]),
        text=f"{number:,} of {total:,} reconciles of {controller} in {phase} ended with RequeueAfter: it looks at each"
        f" object {a_second:.2g} times a second while it waits, instead of watching what it waits for",
        check=f'reconciles("{phase}", "{controller}", max=…, per_object=True)',
    )


def _of_changes(seen: Observed) -> Iterator[Finding]:
    """Yield the CPU time for each object that the operator made or changed, in the phase where it is most."""
    found: list[tuple[float, int, float, str]] = []
    for span in seen.spans:
        used = span.cpu(OPERATOR)
        restarted = any(span.start <= begin < span.end for begin, _ in seen.restarts)
        if used is None or restarted or used.cores < _OF_TIME:
            continue
        sent = seen.requests_in(span.start, span.end)
        number = sum(one.changes and not one.subresource and one.category == "object" for one in sent)
        if number >= _OBJECTS:
            seconds = used.cores * span.phase.seconds
            found.append((seconds / number, number, seconds, span.phase.name))
    costly = [one for one in found if one[0] >= _EACH_S]
    jvm = seen.target is not None and any(series.startswith(_JVM) for series in seen.target.series)
    if not costly or (jvm and len(costly) < 2):
        return
    each, number, seconds, phase = max(costly)
    yield Found(
        id=ID,
        severity="note",
        about=About(aspect=Aspect.AMOUNT),
        text=f"the operator computes for {each * 1e3:,.0f} ms for each of {number:,} objects that it wrote in {phase}:"
        f" {seconds:.2g} s of CPU in all",
        evidence=("a profile of the phase shows in which functions: --grovescale-profile=auto",),
        check=f'cpu("{phase}", max=…)',
    )


def _in_children(seen: Observed) -> Iterator[Finding]:
    """Yield that much of the operator's CPU time is of processes that it starts and that end."""
    reads = [read for read in seen.contents.reads.get(OPERATOR, ()) if seen.begin <= read.at <= seen.end]
    by_pid: dict[int, list[CpuRead]] = defaultdict(list)
    for read in reads:
        by_pid[read.pid].append(read)
    used = sum(of_one[-1].cpu_ns - of_one[0].cpu_ns for of_one in by_pid.values())
    reaped = sum(of_one[-1].reaped_ns - of_one[0].reaped_ns for of_one in by_pid.values())
    each_starts_one = seen.reconciled >= _RECONCILES and reaped >= _EACH_NS * seen.reconciled and _ended_in_phases(seen)
    if reaped >= (_OF_CHILDREN_NS if each_starts_one else max(_OF_CHILDREN_NS, _OF_CHILDREN * used)):
        each = f"; that is {reaped / seen.reconciled / 1e6:.2g} ms for each reconcile" if seen.reconciled else ""
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.AMOUNT),
            text=f"{reaped / used:.0%} of the operator's CPU time ({reaped / 1e9:.2g} of {used / 1e9:.2g} s) went to"
            " processes that it starts and that end",
            evidence=(f"a shell, a command-line tool or an interpreter starts each time{each}",),
        )


def _ended_in_phases(seen: Observed) -> bool:
    """Return whether processes that it started ended in several phases, and not only while it started."""
    edges = {read.edge: read for read in seen.contents.reads.get(OPERATOR, ()) if read.edge}
    pairs = [(edges.get(f"start:{span.phase.name}"), edges.get(f"end:{span.phase.name}")) for span in seen.spans]
    grown = sum(
        start is not None and end is not None and start.pid == end.pid and end.reaped_ns > start.reaped_ns
        for start, end in pairs
    )
    return grown >= _PHASES


def _in_threads(seen: Observed) -> Iterator[Finding]:
    """Yield that reconciles start threads of their own, by Micrometer's count of those that the JVM started."""
    target, first = seen.target, seen.first_scrape
    if target is None or first is None:
        return
    last, name = len(target.moments) - 1, "jvm_threads_started_threads_total"
    started = sum(target.grown(one, first, last) for one in target.series if one.partition("{")[0] == name)
    if started >= max(_STARTED, _THREADS * seen.reconciled) and seen.reconciled:
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.AMOUNT),
            text=f"the operator started {started:,.0f} threads in {seen.reconciled:,} reconciles: a pool that is made"
            " in each reconcile, and not shared, costs a thread each time, and leaks it where it is not shut down",
            evidence=(name,),
        )
