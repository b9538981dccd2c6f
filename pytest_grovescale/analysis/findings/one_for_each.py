"""What the operator holds of for each object or each reconcile: a goroutine, a thread; by a line through all counts.

What starts with the first object (informers, their connections) comes once and would hide what comes with each: so the
line begins at the first object, wherever it begins. It has to fit at three numbers of objects, or more; where a
deployment was over too soon for that, goroutines count that are there at each rest with all objects, and stay or go,
while the operator opened no watch of another kind. What each reconcile leaves goes on where no object comes: it is
looked for in each process of the operator, also where the test restarts it, by a line over its reconciles that fits
better, in four times with reconciles or more, in none of which the count fell; of the operator's own metrics, too,
whose series may be as many as the objects, and no more with each reconcile. `initial_state` yields what is found.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import correlation, median
from typing import NamedTuple

from ...exposition.families import FRAMEWORKS, LIBRARIES, family_of, parse
from ...recording.conditions import is_builtin
from ...recording.records import STACKS_FIRST, STACKS_LEFT
from ..blocked_workers import read_dump, stack_groups
from ..metrics.history import TargetHistory
from ..metrics.summary import series_by_family
from ..result import OPERATOR, Finding
from .grouping import About, Aspect, Found
from .observed import QUIET_NS, Observed

_LEAST_OBJECTS = 20
_MOST_EACH = 4
_OFF = 0.2
"""How far the slope may be from a whole number for each object."""
_FITS = 0.95
"""r² of the line."""
_ROOM, _FAR = 3.0, 0.1
"""How far a count may be from the line, and the same as a share of what all objects make."""
_LEVELS, _APART, _SPREAD = 3, 0.05, 0.4
"""Numbers of objects at which it was counted, how far these are apart, and first and last, as a share of all."""
_STAYED = 0.9

_STEP, _TIMES = 5, 4
"""Reconciles between two scrapes, and times with so many, that a line over reconciles takes."""
_LEAST_LEFT = 0.1
"""What each reconcile leaves, at least."""
_FITS_RECONCILES = 0.98

_SHOWN = 3

_GOROUTINES, _THREADS, _TASKS = "goroutines", "threads", "tasks"
_SERIES = "go_goroutines"
_OF_NODE = "nodejs_active_resources{type="
"""Timers, sockets and the like that keep Node.js running, by prom-client (process.getActiveResourcesInfo())."""
_NODE_TYPES = {"Timeout": "timers", "TCPSocketWrap": "connections"}
_GROWN = 20
_POOL, _MORE_THAN_CORES, _BESIDE = 32, 4, 8
_ANY_POOL = 40
"""Growth that counts; of threads more than Python's default pool has, 32 at most and 4 more than there are cores
(https://docs.python.org/3/library/concurrent.futures.html#concurrent.futures.ThreadPoolExecutor), with some beside it.
Up to 40 a pool that someone made as large as the test is may be meant: a note."""

_FEW_SOCKETS = 0.1
"""Sockets that were opened for each goroutine that stayed, up to which these wait for no connection."""

_MOSTLY = 0.5
"""Share of what grew that has to have one stack, for that to be named."""


class _Counted(NamedTuple):
    """How many of something the operator had."""

    what: str
    source: str
    least: int
    """Growth from which on it counts."""
    points: Sequence[tuple[int, float]]
    """(ns of the recorder's clock, number), in order."""


class _Line(NamedTuple):
    """How a count goes with the number of objects of a kind."""

    resource: str
    objects: int
    each: int
    slope: float
    fits: float
    """r²; 0 where it was counted at two numbers of objects only."""
    first: float
    most: float
    last: float
    ends: bool
    """Whether the number of objects fell, and the count with it."""


def findings(seen: Observed) -> Iterator[tuple[str, Finding]]:
    """Yield what grew with each object of a kind (``threads``): for good, or, as a note, as long as each exists."""
    if seen.absences:
        return  # of several processes
    for counted in _counted(seen):
        lines = [line for resource in seen.lives for line in _lines(seen, counted, resource)]
        # What is under way is not counted at rest: a line has to agree with that.
        if rest := {(one.resource, one.each): one for of in seen.lives for one in _at_rest(seen, counted, of)}:
            lines = [line for line in lines if (line.resource, line.each) in rest] or list(rest.values())
        made = {one.resource for one in seen.by_harness(seen.begin, seen.end) if one.created}
        best = max(
            lines,
            # Of kinds that come together, that which the test knows.
            key=lambda line: (line.resource in made, not is_builtin(line.resource), line.fits, line.resource),
            default=None,
        )
        if best is None:
            continue
        stayed = seen.settled and not best.ends and best.last - best.first >= _STAYED * best.each * best.objects
        if best.ends:
            then = ", and went with them: each object has one of its own as long as it exists"
        elif stayed:
            then = ", and stayed after they were gone"
        else:
            then = ": each object has one of its own"
        where = _where(seen, counted, best)
        many = best.each * best.objects >= _ANY_POOL
        alone = counted.what != _THREADS and (best.fits > 0 or _no_more_sockets(seen, best))
        sure = stayed and (where is not None or many or alone)
        one = Found(
            id="initial-state",
            severity="defect" if sure else "note",
            about=About(aspect=Aspect.STATE, times=[(seen.begin, seen.end)]),
            text=f"{counted.what} grew with the {best.resource}, {best.each} for each of {best.objects:,}, from"
            f" {best.first:,.0f} to {best.most:,.0f}{then}" + (f": {where[0]:,} in {where[1]}" if where else ""),
            evidence=(
                f"{counted.source}, {len(counted.points):,} times: {best.slope:.2f} more for each"
                + (f", r² {best.fits:.3f}" if best.fits else ", at rest"),
                *([f"by a dump of its stacks after that: {where[2]}"] if where else []),
            ),
        )
        yield counted.what, one


def left_by_reconciles(seen: Observed) -> Iterator[Finding]:
    """Yield what each reconcile of one process leaves behind: goroutines, threads, open files, timers of Node.js.

    By its scrapes; threads and files that it does not serve by the looks at the process at the edges of phases.
    """
    if (target := seen.target) is None:
        return
    looks = {read.edge: read for read in seen.contents.reads.get(OPERATOR, []) if read.edge}
    at_edges = [looks.get(moment.edge) for moment in target.moments]
    of_node = {name: parse(name) for name in target.series if name.startswith(_OF_NODE)}
    for what, series, by_proc in (
        (_GOROUTINES, _SERIES, []),
        (_THREADS, "process_threads", [look.threads if look is not None else None for look in at_edges]),
        ("open files", "process_open_fds", [look.files if look is not None else None for look in at_edges]),
        *((_NODE_TYPES.get(one.labels["type"], one.labels["type"]), name, []) for name, one in of_node.items()),
    ):
        values: list[float | None] = list(target.values(series))
        if by_proc and not any(value is not None for value in values):
            values, series = [*by_proc], "/proc"
        if (left := _left(seen, target, values)) is not None:
            yield left.found(seen, f"reconciles leave {what} behind", series)


def series_left_by_reconciles(seen: Observed) -> Iterator[Finding]:
    """Yield the families of the operator's own that have new series with each reconcile, whatever the objects do."""
    if (target := seen.target) is None:
        return
    for family, counts in sorted(series_by_family(target).items()):
        if max(counts) < _ANY_POOL or family.startswith((*LIBRARIES, *FRAMEWORKS)):
            continue
        if (left := _left(seen, target, counts)) is None:
            continue
        labels: dict[str, set[str]] = defaultdict(set)
        for parts in map(parse, target.series):
            if family_of(parts.name, target.families) == family:
                for label, value in parts.labels.items():
                    labels[label].add(value)
        # A histogram's own has as many as it has buckets, and no more later.
        label, fresh = max(labels.items(), key=lambda one: (one[0] != "le", len(one[1])))
        says = f"reconciles bring {family} ever new series by its label {label}"
        source = f"{label} had {len(fresh):,} values ({', '.join(sorted(fresh)[:_SHOWN])}); by its scrapes"
        yield left.found(seen, says, source, check=f'labels(forbidden=["{label}"])')


class _Left(NamedTuple):
    """A count that grew with the reconciles of one process."""

    each: float
    reconciles: int
    first: float
    last: float
    scrapes: int

    def found(self, seen: Observed, says: str, source: str, *, check: str = "") -> Found:
        return Found(
            id="initial-state",
            severity="defect",
            about=About(aspect=Aspect.STATE, times=[(seen.begin, seen.end)]),
            text=f"{says}: {self.first:,.0f} grew to {self.last:,.0f} with {self.reconciles:,}"
            f" reconciles of one process, {self.each:.2g} with each, and never fell",
            evidence=(f"{source}, {self.scrapes:,} times",),
            check=check,
        )


def _left(seen: Observed, target: TargetHistory, values: Sequence[float | None]) -> _Left | None:
    """Return how a count grew with the reconciles of the process that had most; None where it did in none.

    ``values``: at each scrape.
    """
    ends = [*(begin for begin, _ in seen.absences), seen.end]
    lines = []
    for begin, end in pairwise([seen.begin - 1, *ends]):
        scrapes = [
            scrape
            for scrape, (one, value) in enumerate(zip(target.moments, values, strict=True))
            if begin < one.at <= end and value is not None
        ]
        line = _over_reconciles(seen, target, scrapes, [values[scrape] or 0.0 for scrape in scrapes])
        if line is not None:
            lines.append(_Left(*line, len(scrapes)))
    return max(lines, key=lambda one: one.reconciles, default=None)


def _over_reconciles(
    seen: Observed, target: TargetHistory, scrapes: Sequence[int], counts: Sequence[float]
) -> tuple[float, int, float, float] | None:
    """Return (slope, reconciles, first count, last) of a line through counts over reconciles; None where none fits."""
    grown = counts[-1] - counts[0] if counts else 0.0
    if len(scrapes) < _LEVELS or grown < _ANY_POOL:
        return None
    if max(before - after for before, after in pairwise(counts)) > _ROOM:
        return None
    reconciled = [seen.reconciles_between(one, other) for one, other in pairwise(scrapes)]
    times = [(target.moments[one].at, target.moments[other].at) for one, other in pairwise(scrapes)]
    # What comes with each object does not grow where none comes.
    alone = [not seen.begins_any(start, end) for start, end in times]
    of_all = tuple(sorted({name for counted in reconciled for name in counted}))
    # Of several controllers, one may leave something behind.
    for controllers in dict.fromkeys([of_all, *((one,) for one in of_all)]):
        steps = [sum(counted[one] for one in controllers) for counted in reconciled]
        done = list(accumulate(steps, initial=0))
        busy = [after - before for step, before, after in zip(steps, counts, counts[1:], strict=False) if step >= _STEP]
        without = [step for step, nothing_came in zip(steps, alone, strict=True) if nothing_came]
        if max(without, default=0) < _STEP or len(busy) < _TIMES or min(busy) <= 0:
            continue
        if grown >= _LEAST_LEFT * done[-1] and correlation(done, counts) ** 2 >= _FITS_RECONCILES:
            return grown / done[-1], done[-1], counts[0], counts[-1]
    return None


def _counted(seen: Observed) -> Iterator[_Counted]:
    """Yield goroutines at each scrape, and threads at each look at the process."""
    if (target := seen.target) is not None:
        values = zip(target.moments, target.values(_SERIES), strict=True)
        points = [(one.at, value) for one, value in values if value is not None and one.at < seen.end]
        yield _Counted(_GOROUTINES, _SERIES, _GROWN, points)
    reads = [read for read in seen.contents.reads.get(OPERATOR, []) if read.threads and read.at < seen.end]
    if len({read.pid for read in reads}) == 1:
        points = [(read.at, float(read.threads or 0)) for read in reads]
        pool = min(_POOL, seen.contents.opened.machine.cores + _MORE_THAN_CORES)
        yield _Counted(_THREADS, "by /proc", max(_GROWN, pool + _BESIDE), points)


def _lines(seen: Observed, counted: _Counted, resource: str) -> Iterator[_Line]:
    """Yield a line through the counts over the objects that ever came, and one over those that exist."""
    lives = [life for life in seen.lives[resource] if life.begun >= seen.begin]
    if len(lives) < _LEAST_OBJECTS:
        return
    came = sorted(life.begun for life in lives)
    went = sorted(life.gone_at for life in lives if life.gone_at is not None)
    points = [point for point in counted.points if point[0] >= came[0]]
    before = [count for at, count in counted.points if at < came[0]]
    if not before or len(points) < _LEVELS:
        return
    ever = [bisect_right(came, at) for at, _ in points]
    there = [number - bisect_right(went, at) for number, (at, _) in zip(ever, points, strict=True)]
    counts = [count for _, count in points]
    for numbers in (ever, there) if ever != there else (ever,):
        # From before the first object on, where nothing but what comes with each came.
        line = _fitted([0, *numbers], [before[-1], *counts], len(lives)) or _fitted(numbers, counts, len(lives))
        if line is None or line[0] * len(lives) < counted.least:
            continue
        each = round(line[0])
        ends = numbers is there and ever != there and min(numbers[-1:]) <= (1 - _STAYED) * len(lives)
        yield _Line(resource, len(lives), each, *line, before[-1], max(counts), counts[-1], ends)


def _at_rest(seen: Observed, counted: _Counted, resource: str) -> Iterator[_Line]:
    """Yield how a count differs between rests with all objects of a kind and without, where nothing else began.

    A deployment may be over before a second scrape. Then only counts at rest are held against the number of objects.
    """
    lives = [life for life in seen.lives[resource] if life.begun >= seen.begin]
    if len(lives) < _LEAST_OBJECTS or not seen.settled:
        return
    came, leave = [life.begun for life in lives], min(life.stays_until(seen.end) for life in lives)
    first, last = min(came), max(came)
    before = next((count for at, count in reversed(counted.points) if at < first), None)
    after = next((count for at, count in counted.points[-1:] if not any(life.exists(at) for life in lives)), None)
    if seen.late_watches:
        return  # what a watch needs, its informer and its connection, grew too
    full = [count for at, count in counted.points if last + QUIET_NS <= at <= leave]
    if len(full) < _LEVELS or before is None or after is None:
        return
    # Work under way adds some now and then, and takes none away.
    most, least = median(full), min(full)
    for without, ends in ((before, False), (after, True)):
        each = round((most - without) / len(lives))
        room = max(_ROOM, _FAR * each * len(lives))
        near = 1 <= each <= _MOST_EACH and all(abs(one - without - each * len(lives)) <= room for one in (most, least))
        stays = abs(after - most) <= room
        if near and each * len(lives) >= counted.least and (stays if not ends else abs(after - before) <= room):
            slope = (most - without) / len(lives)
            yield _Line(resource, len(lives), each, slope, 0.0, before, max(c for _, c in counted.points), after, ends)
            return


def tasks_left(seen: Observed) -> Iterator[Finding]:
    """Yield the functions in which asyncio tasks stayed after the workload was gone, as many as there were objects.

    What a pool starts with its first key is as many as it has workers. Tasks are in no metric, and in no figure of the
    kernel: only the operator's own stacks show them, before the first phase and at the end.
    """
    first, left = (_functions(seen, source, _TASKS) for source in (STACKS_FIRST, STACKS_LEFT))
    if not first or not left or not seen.settled:
        return
    restarted = max((until for _, until in seen.restarts), default=seen.begin)
    for (function, place), count in left.items():
        grown = count - first[function, place]
        if grown < _GROWN:
            continue
        for resource, lives in sorted(seen.lives.items(), key=lambda one: (is_builtin(one[0]), one[0])):
            objects = sum((life.gone_at or seen.end) > restarted and life.begun >= seen.begin for life in lives)
            each = round(grown / objects) if objects >= _LEAST_OBJECTS else 0
            if 1 <= each <= _MOST_EACH and abs(grown - each * objects) <= max(_ROOM, _FAR * each * objects):
                yield Found(
                    id="initial-state",
                    severity="defect" if grown >= _ANY_POOL else "note",
                    about=About(aspect=Aspect.STATE, times=[(seen.begin, seen.end)]),
                    text=f"{grown:,} asyncio tasks stayed after the {resource} were gone, {each} for each of"
                    f" {objects:,}: in {function}",
                    evidence=(
                        f"by the operator's own stacks: {place}, {first[function, place]:,} before the first phase",
                    ),
                )
                break


def _fitted(numbers: Sequence[int], counts: Sequence[float], objects: int) -> tuple[float, float] | None:
    """Return slope and r² of a line that goes through all counts with a whole number for each object; None without."""
    levels = sorted(set(numbers))
    apart = sum(after - before >= _APART * objects for before, after in pairwise(levels))
    if apart + 1 < _LEVELS or levels[-1] - levels[0] < _SPREAD * objects:
        return None
    number, middle_x, middle_y = len(counts), sum(numbers) / len(numbers), sum(counts) / len(counts)
    of_x = sum((x - middle_x) ** 2 for x in numbers)
    of_y = sum((y - middle_y) ** 2 for y in counts)
    both = sum((x - middle_x) * (y - middle_y) for x, y in zip(numbers, counts, strict=True))
    if number < _LEVELS or not of_x or not of_y:
        return None
    slope, fits = both / of_x, both * both / (of_x * of_y)
    each = round(slope)
    if not 1 <= each <= _MOST_EACH or abs(slope - each) > _OFF or fits < _FITS:
        return None
    room = max(_ROOM, _FAR * each * objects)
    far = max(abs(y - middle_y - slope * (x - middle_x)) for x, y in zip(numbers, counts, strict=True))
    return (slope, fits) if far <= room else None


def _no_more_sockets(seen: Observed, line: _Line) -> bool:
    """Return whether the operator opened next to no socket since its objects came.

    Then what stays is no pool of connections, of which each has goroutines of its own.
    """
    came = min(life.begun for life in seen.lives[line.resource] if life.begun >= seen.begin)
    reads = [(read.at, read.sockets) for read in seen.contents.reads.get(OPERATOR, []) if read.sockets is not None]
    before = [sockets for at, sockets in reads if at < came]
    after = [sockets for at, sockets in reads if at >= came]
    return bool(before and after) and max(after) - before[-1] <= _FEW_SOCKETS * line.each * line.objects


def _where(seen: Observed, counted: _Counted, line: _Line) -> tuple[int, str, str] | None:
    """Return how many of them are in one function, its name and its place; None without stacks of the operator."""
    for (function, place), count in _functions(seen, STACKS_LEFT, counted.what).most_common(1):
        if count >= _MOSTLY * line.each * line.objects:
            return count, function, place
    return None


def _functions(seen: Observed, source: str, what: str) -> Counter[tuple[str, str]]:
    """Return how many goroutines, threads or tasks are in which function and place, by the operator's stacks."""
    number: Counter[tuple[str, str]] = Counter()
    for dump in (one for one in seen.contents.lines if one.source == source + OPERATOR):
        for group in stack_groups(read_dump(dump.lines)):
            if what.startswith(group.kind):
                number[group.function, group.place] += group.count
    return number
