"""Conditions and phases of a status that go back and forth, whose time of transition moves without one, or never come.

Who waits for ``Ready`` goes on at the first ``True``, and who alerts on ``False`` pages at the first one: a condition
that is set before all is known, or by two parts of a reconcile in turn, is wrong in between. ``lastTransitionTime`` is
the time since when a condition has its status (Kubernetes' API conventions, "Typical status properties":
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md); set at each
write, it says nothing, and makes each write a change.

No false alarm: only kinds whose status the operator itself writes, while they are not being deleted. A value that
returns counts where neither the object's generation nor anything else of its metadata changed since it had it before
(but what kopf keeps there of its progress), nor the spec of anything below it, no pod there ceased to be Ready or went,
only the operator wrote it, and the test no object of another kind, but those that came with it; where a phase says that
the object's work has ended, since it said so. Three objects and a tenth of the kind count, or three times on one. A
time of transition counts where its condition has the status that it had, in five changes on three objects; not alone
within three seconds after a transition, which a cache may not show yet, nor within one after any change where most
changes of a status keep it. A message counts where it changed three times, alone, after triggers and touches that
change nothing, or in idle windows. A condition that never comes is a note, of all of the test's own objects of a kind,
in a test whose phases pass without it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ...recording.conditions import READY_PATH
from ...recording.records import ObjectSeen
from ..result import Finding
from .evidence import ENDED, Life, Sent, changed_paths, condition, kept_by_kopf, number_of, shown
from .grouping import About, Aspect, Found
from .observed import QUIET_NS, Observed

ID = "conditions"

_OBJECTS = 3
_SHARE = 0.1
_ON_ONE = 3
_LEAST = 5
_STATES = ("status.phase", "status.state")
_LIST = "status.conditions"
_WANTED = frozenset(
    map(condition, ("Ready", "Available", "Accepted", "Bound", "Established", "Healthy", "Programmed", "Synced"))
)
"""Conditions that are True of an object that is as it should be."""
_MESSAGE = f"{_LIST}[].message"
_MOVED = f"{_LIST}[].lastTransitionTime"
_TRANSITIONS = frozenset(("status", _LIST, f"{_LIST}[].status"))
"""Paths of changes that bring a condition, or another status of one."""
_LAG_NS = 1_000_000_000
_BY_LAG = 0.3
"""Share of a status's changes up to which a cache that does not show the last one yet may be why a time moves, and for
how long it may not, ns."""
_REPEATED_NS = 3_000_000_000
"""How long a blocked operator's cache may not show a transition of its own, ns."""
_FOLLOWS_NS = 500_000_000
"""Time within which an operator takes in what it itself wrote of another object, ns."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind with a condition that returns, and one for its times of transition."""
    if not seen.operator or not seen.log_whole:
        return
    for resource in sorted(seen.status_written & set(seen.lives)):
        lives = [life for life in seen.lives[resource] if len(life.events) > _OBJECTS - 1 and life.own_updates]
        yield from _flapping(seen, resource, lives)
        yield from _moved(seen, resource, lives)
        yield from _reworded(seen, resource)
        yield from _falling(seen, resource, lives)
        yield from _never_true(seen, resource)


def _flapping(seen: Observed, resource: str, lives: Sequence[Life]) -> Iterator[Finding]:
    returns: dict[str, dict[Life, list[tuple[int, str]]]] = defaultdict(dict)
    for life in lives:
        for path, values in _returned(seen, life).items():
            returns[path][life] = values
    enough = {
        path: found
        for path, found in returns.items()
        if len(found) >= max(_OBJECTS, _SHARE * len(lives)) or max(map(len, found.values())) >= _ON_ONE
    }
    if not enough:
        return
    path, found = max(enough.items(), key=lambda one: (sum(map(len, one[1].values())), one[0]))
    life, values = max(found.items(), key=lambda one: len(one[1]))
    others = sorted(set(enough) - {path})
    moments = [at for returned in found.values() for at, _ in returned]
    started = all(seen.restart_of(at) for at in moments)
    yield Found(
        id=ID,
        severity="defect",
        about=_of(seen, list(found), path),
        text=f"{path} of {number_of(len(found), resource)} goes back to a value that it had before"
        + (f", up to {len(values):,} times," if len(values) > 1 else "")
        + f" although nothing else changed{', when the operator starts again' * started}: back to"
        f" {' → '.join(value for _, value in values[:_OBJECTS])}",
        evidence=(shown(life.object), *([f"so do {', '.join(others[:3])}"] if others else [])),
        check=f"phase.milestone(…, workload.status({path.rpartition('.')[2]}=…))",
    )


def _of(seen: Observed, lives: Sequence[Life], field: str) -> About:
    writes = _status_writes(seen, lives)
    return About(aspect=Aspect.STATE, requests=writes, objects={life.key for life in lives}, field=field)


def _status_writes(seen: Observed, lives: Sequence[Life]) -> list[Sent]:
    """Return the operator's writes to the status of some objects; to all of them where a kind has no part for it."""
    writes = [one for one in seen.own_writes(lives) if one.updates]
    return [one for one in writes if one.subresource == "status"] or writes


def _returned(seen: Observed, life: Life) -> dict[str, list[tuple[int, str]]]:
    """Return path → (ns, value) of each value that it had again, without a reason that the recording shows."""
    had: dict[str, dict[str | int, int]] = defaultdict(dict)
    """Path → each value that it had → when it last took it."""
    left: dict[str, dict[str | int, int]] = defaultdict(dict)
    """The same → when it last lost it."""
    now: dict[str, str | int] = {}
    back: dict[str, list[tuple[int, str]]] = defaultdict(list)
    reasons: list[int] | None = None
    end = min(at for at in (seen.end, seen.workload_deleted, life.marked_at) if at is not None)
    for event in life.events:
        if event.at >= end:
            break
        for path, value in event.numbers.items():
            if not (path in _STATES or path.startswith(_LIST)) or now.get(path) == value:
                continue
            taken = had[path].get(value)
            if taken is not None:
                if reasons is None:
                    reasons = _reasons(seen, life)
                # What made it leave the value came before that; or it is that of an object elsewhere that it follows.
                # What has ended is not taken up again for what had come before.
                ended = ENDED.match(str(now[path]))
                since = had[path][now[path]] if ended else max(taken, seen.restart_of(left[path][value])) - QUIET_NS
                if not any(since <= at <= event.at for at in reasons) and not _follows(seen, life, event.at):
                    back[path].append((event.at, str(value)))
            if path in now:
                left[path][now[path]] = event.at
            had[path][value] = event.at
            now[path] = value
    return back


def _reasons(seen: Observed, life: Life) -> list[int]:
    """Return when something changed that may rightly take a condition back, and with what it may have gone on."""
    found = [event.at for event in life.events[1:] if "metadata.generation" in event.numbers]
    kept = kept_by_kopf([life])
    found += [
        event.at
        for event in life.events
        if any(path.rpartition("/")[0] not in kept for path in changed_paths(event, "metadata"))
    ]
    found += [one.completed for one in life.writes if one.user != seen.operator and not one.created]
    # What the test did to objects of other kinds since, as to a Route that refers to a Gateway, may concern it.
    found += [
        one.completed for one in seen.by_harness(life.begun + QUIET_NS, seen.end) if one.resource != life.resource
    ]
    for pod in seen.below(life):
        found += [event.at for event in pod.events[1:] if "metadata.generation" in event.numbers]
        before = ""
        for event in pod.events:
            ready = str(event.fields.get(READY_PATH))
            if event.change == "deleted" or (before == "True" and ready != "True"):
                found.append(event.at)
            before = ready
        if pod.marked_at is not None:
            found.append(pod.marked_at)
    return found


def _follows(seen: Observed, life: Life, at: int) -> bool:
    """Return whether an object that is no part of another one's family had changed its phase or condition just before.

    A user of a database is as ready as that: what takes the database's state back is named for it.
    """
    # Siblings are parts of one whole, whose states one reconcile writes.
    root = seen.line(life)[-1]
    family = {root.resource, *(one.resource for one in seen.below(root))}
    return any(
        other.resource not in family and other.resource in seen.status_written and _turned(other, at)
        for other in seen.changed_in(at - _FOLLOWS_NS, at)
    )


def _turned(life: Life, at: int) -> bool:
    return any(
        path in _STATES or path.startswith(_LIST)
        for event in life.between(at - _FOLLOWS_NS, at)
        if event is not life.events[0]
        for path in event.numbers
    )


def _falling(seen: Observed, resource: str, lives: Sequence[Life]) -> Iterator[Finding]:
    """Yield the first count with the name of a kind that fell although no object of the kind went, or was changed."""
    if (applied := seen.workload_applied) is None:
        return
    kinds = {f"status.{of.partition('.')[0]}": of for of in seen.lives}
    if not any(path.lower() in kinds for path in seen.kinds[resource].numbers):
        return
    for life in lives:
        for path, before, value in _falls(seen, life, kinds, applied):
            yield Found(
                id=ID,
                severity="defect",
                about=_of(seen, [life], path),
                text=f"{path} of {resource} {life.name} fell from {before:,} to {value:,} although no object of"
                f" {kinds[path.lower()]} went: writers that read it and write it back overwrite each other's number",
                evidence=("a count of what is there does not depend on the number before",),
            )
            return


def _falls(seen: Observed, life: Life, kinds: Mapping[str, str], applied: int) -> Iterator[tuple[str, int, int]]:
    """Yield (path, number before, number) of each fall without a reason since the workload was applied.

    ``kinds``: the field with the name of a kind, in lower case → the kind.
    """
    counts: dict[str, tuple[int, int]] = {}
    wanted = 0
    for event in life.events:
        if event.at >= (seen.workload_deleted or seen.end):
            return
        if "metadata.generation" in event.numbers:
            wanted = event.at  # what is counted may be what is wanted
        for path, value in event.numbers.items():
            kind = kinds.get(path.lower())
            if kind is None or not isinstance(value, int):
                continue
            before, since = counts.get(path, (value, event.at))
            counts[path] = value, event.at
            if value < before and since >= max(applied, wanted) and not _went(seen, kind, since - QUIET_NS, event.at):
                yield path, before, value


def _went(seen: Observed, kind: str, start: int, end: int) -> bool:
    """Return whether an object of a kind went, began to, or was changed by someone else in a time."""
    if any(start <= at <= end for life in seen.lives[kind] for at in (life.marked_at, life.gone_at) if at is not None):
        return True
    return any(
        one.resource == kind and not one.created and one.user != seen.operator
        for one in seen.changes.between(start, end)
    )


def _never_true(seen: Observed, resource: str) -> Iterator[Finding]:
    """Yield what none of the test's own objects of a kind ever became, although the test passes."""
    paths = _WANTED.intersection(seen.kinds[resource].numbers)
    if not paths or any(span.phase.outcome != "passed" for span in seen.spans):
        return
    own = [
        life
        for life in seen.lives[resource]
        if life.own_updates and any(one.created and one.user == seen.harness for one in life.writes)
    ]
    for path in sorted(paths):
        said = [{str(event.numbers[path]) for event in life.events if path in event.numbers} for life in own]
        if len(own) >= _OBJECTS and all(values and "True" not in values for values in said):
            kind = path.partition("=")[2].partition("]")[0]
            yield Found(
                id=ID,
                severity="note",
                about=_of(seen, own, path),
                text=f"{path} was never True of all {len(own):,} {resource} that the test made: what they need may not"
                " be there, and no milestone waits for it",
                evidence=(shown(own[0].object),),
                check=f'phase.milestone(…, workload.status(conditions={{"{kind}": "True"}}))',
            )
            return


def _moved(seen: Observed, resource: str, lives: Sequence[Life]) -> Iterator[Finding]:
    """Yield that times of transition move in changes that are no transition, and that something else is with them."""
    moves = [
        (life, event.at)
        for life, events in seen.kinds[resource].changed(_MOVED)
        for event in (events if len(life.events) >= _OBJECTS and life.own_updates else ())
        if event.difference is not None
        and seen.begin <= event.at < seen.end
        and event.difference.kind in ("content", "time")
        and event.difference.moved
        and not _repeats_a_transition(life, event)
    ]
    if len(moves) >= _LEAST and len(moves) <= _BY_LAG * (len(moves) + _kept(seen, lives)):
        moves = [(life, at) for life, at in moves if life.between(at - _LAG_NS, at + 1)[0].at == at]
    moved = Counter(life.name for life, _ in moves)
    if len(moved) >= _OBJECTS and moved.total() >= _LEAST:
        those = [life for life in lives if life.name in moved]
        name, times = moved.most_common(1)[0]
        restarted = all(seen.restart_of(at) for _, at in moves)
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=_status_writes(seen, those)),
            text=f"{_MOVED} of {len(moved):,} {resource} moved {moved.total():,} times{' after a restart' * restarted}"
            " although the condition's status did not change: it is the time of the"
            f" {'start' if restarted else 'write'}, not of a transition",
            evidence=(f"{name}: {times:,} time{'s' * (times != 1)}",),
            check="noop_writes(max=0)",
        )


def _repeats_a_transition(life: Life, event: ObjectSeen) -> bool:
    """Return whether an event has nothing but the time of a transition that a cache does not show yet."""
    before = life.between(event.at - _REPEATED_NS, event.at)
    came = changed_paths(before[-1], "status") if before else []
    return changed_paths(event, "") == [_MOVED] and not _TRANSITIONS.isdisjoint(came)


def _kept(seen: Observed, lives: Sequence[Life]) -> int:
    """Return the number of changes of a status in which no time of transition changed."""
    return sum(
        event.difference is not None
        and _MOVED not in event.difference.paths
        and any(path.startswith("status.") for path in event.difference.paths)
        for life in lives
        for event in life.between(seen.begin, seen.end)
    )


def _reworded(seen: Observed, resource: str) -> Iterator[Finding]:
    """Yield that messages change by themselves: while there is nothing to do, and nothing else with them."""
    times = seen.nothing_to_do
    found = [
        life
        for life, events in seen.kinds[resource].changed(_MESSAGE)
        for event in events
        if event.difference is not None
        and event.difference.paths == [_MESSAGE]
        and any(start <= event.at < end for start, end in times)
        and life.own_updates
    ]
    if len(found) >= _OBJECTS:
        number = len({life.key for life in found})
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=_status_writes(seen, found)),
            text=f"{_MESSAGE} of {number_of(number, resource)} changed {len(found):,} times, and nothing with it, while"
            " there was nothing to do: it says what changes by itself, as a time, or another error each time",
            evidence=(shown(found[0].object),),
            check="noop_writes(max=0)",
        )
