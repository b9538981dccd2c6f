"""Objects that grow with each write, without end.

A history in the status, or an annotation that each reconcile appends to, works in every test and ends at etcd's limit
for one object, 1.5 MiB: from then on each write of it is refused. Until then each watcher receives and decodes all of
it at each change. (https://etcd.io/docs/v3.5/dev-guide/limit/)

One that grows with each object of the workload ends there with their number. Objects that each change adds, and that
stay, as old revisions and finished Jobs, are a history without end, too.

No false alarm: a list of an object's children grows as they are made, and stops. It counts where a field grew at four
of five of its changes, three or more, and went on while there was nothing to do: after triggers and touches that change
nothing, or in an idle window; or at each of ten changes in four phases or more; not where the object became smaller
again in between, as one that goes back and forth does. What grows with the workload counts where ten changes of the
operator made it larger, by 200 bytes and more for each of ten objects or more, none of which it owns. A history is a
note, since some of it may be kept on purpose: of changes of more than a number, each of which added as many, of three
owners, or of one that changed twice, and none of what was there before went.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ...recording.records import ObjectSeen
from ..result import Finding
from .evidence import Life, changed_paths, number_of, shown
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "growing-objects"

_CHANGES = 3
_MOSTLY = 0.8
_SHRINKS = 0.5
"""Share of what changes of a field added; an object that became smaller by it in between does not grow."""
_FOR_NOTHING = 2
"""Changes of one object while there was nothing to do that show it; of several objects one each."""
_OFTEN, _PHASES = 10, 4
"""Changes, each of which added some, and phases with some of these, from which on it grows with each reconcile: what
the workload has more of comes in one phase or two."""
_OBJECTS = 3
_SHOWN = 2
_TWICE = 2
_SHARED = 10
"""Changes that made an object larger, and objects of the workload, from which on it grows with them."""
_EACH = 200
"""Bytes for each object of the workload; counts in a status are below ten."""
_LIMIT = 1 << 20
_FEW_OBJECTS = 5000


class _Growth(NamedTuple):
    """One field of one object."""

    life: Life
    bytes: list[int]
    for_nothing: int
    """Changes while there was nothing to do."""
    phases: int
    """Phases with changes, all of which added some; 0 where one did not."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind with a field that grows with each write."""
    yield from _of_all_objects(seen)
    yield from _histories(seen)
    times = seen.nothing_to_do
    changed = {life for time in times for life in seen.changed_in(*time)}
    for resource, lives in sorted(seen.lives.items()):
        by_path: dict[str, list[_Growth]] = defaultdict(list)
        for life in lives:
            if life.own_updates and (life in changed or life.own_updates >= _OFTEN):
                for path, growth in _growing(seen, life, times):
                    by_path[path].append(growth)
        enough = {path: found for path, found in by_path.items() if _is_enough(found)}
        if not enough:
            continue
        # Fields that changed with it are not distinguished.
        widest = max(map(len, enough.values()))
        paths = sorted(path for path, found in enough.items() if len(found) == widest)
        found = enough[paths[0]]
        most = max(len(one.bytes) for one in found)
        when = "also while there was nothing to do"
        if not any(one.for_nothing for one in found):
            when = f"in {max(one.phases for one in found):,} phases, and never became smaller"
        size = median(number for one in found for number in one.bytes)
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.STATE, requests=seen.own_writes(one.life for one in found)),
            text=f"{' or '.join(paths[:_SHOWN])} of {number_of(widest, resource)} grew with each of its changes,"
            f" {when}: up to {most:,} times, by {size:.0f} bytes",
        )


def _of_all_objects(seen: Observed) -> Iterator[Finding]:
    """Yield the object that the operator makes larger with each object of the workload."""
    most: tuple[float, Life] | None = None
    for lives in seen.lives.values():
        for life in lives:
            if life.own_updates < _SHARED or seen.children.get(life.uid) or seen.objects < _SHARED:
                continue
            end = min(filter(None, (life.marked_at, seen.workload_deleted, seen.end)))
            grown = [event.difference.grown for event in life.until(end) if event.difference is not None]
            each = sum(grown) / seen.objects
            if sum(number > 0 for number in grown) >= _SHARED and each >= _EACH and (most is None or each > most[0]):
                most = each, life
    if most is not None:
        each, life = most
        number = _LIMIT / each
        yield Found(
            id=ID,
            severity="waste" if number < _FEW_OBJECTS else "note",
            about=About(aspect=Aspect.STATE, requests=seen.own_writes([life])),
            text=f"{life.resource} {shown(life.object)} grew by {each:,.0f} bytes with each of"
            f" {seen.objects:,} objects: with {number:,.0f} of them it reaches 1 MiB, and its writes are refused",
        )


def _histories(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of children of which each change of their owner's spec adds some, and none goes."""
    grown: dict[tuple[str, str], list[tuple[Life, list[int]]]] = defaultdict(list)
    changed = {
        (one.resource, one.object)
        for one in seen.by_harness(seen.begin, seen.workload_deleted or seen.end)
        if one.updates and not one.subresource
    }
    pods = seen.lives.get("pods", ()) if changed else ()
    needed = {need.partition("/")[0] for pod in pods for need in pod.events[0].needs}
    for resource, of in sorted(changed):
        for owner in seen.of_name.get((resource, of), ()):
            end = owner.stays_until(seen.workload_deleted or seen.end)
            changes = [event.at for event in owner.events[1:] if event.at < end and _is_more_than_a_number(event)]
            if not changes or owner.begun < seen.begin:
                continue
            kinds: dict[str, list[Life]] = defaultdict(list)
            for child in seen.children.get(owner.uid, ()):
                if child.made_by_operator:
                    kinds[child.resource].append(child)
            for kind, those in kinds.items():
                moments = [*(at - 1 for at in changes), end]
                counts = [sum(child.stays(at) for child in those) for at in moments]
                steps = {after - before for before, after in pairwise(counts)}
                stayed = all(child.stays(end) for child in those if child.stays(moments[0]))
                # What pods name, `references` judges.
                if counts[0] and len(steps) == 1 and min(steps) > 0 and stayed and kind not in needed:
                    grown[resource, kind].append((owner, counts))
    for (resource, kind), found in grown.items():
        owner, counts = max(found, key=lambda one: len(one[1]))
        if len(found) < _OBJECTS and len(counts) - 1 < _TWICE:
            continue
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.STATE),
            text=f"each change of the spec of {len(found):,} {resource} added {counts[1] - counts[0]:,} {kind}, and"
            f" those before stayed: {shown(owner.object)} has {counts[-1]:,} after {len(counts) - 1:,}"
            f" change{'s' * (len(counts) > _TWICE)}",
            evidence=("a limit of how many are kept, as revisionHistoryLimit of a Deployment, ends that",),
            check=f'phase.milestone(…, conditions.count("{kind}", …))',
        )


def _is_more_than_a_number(event: ObjectSeen) -> bool:
    """Return whether an event changed a spec, in more than one number or the length of a list."""
    paths = changed_paths(event, "spec")
    lengths = any(path.startswith("spec.") and path.endswith("[]") for path in event.numbers)
    return bool(paths) and not lengths and not all(path in event.numbers for path in paths)


def _is_enough(found: Sequence[_Growth]) -> bool:
    return len(found) >= _OBJECTS or max(one.for_nothing for one in found) >= _FOR_NOTHING


def _growing(seen: Observed, life: Life, times: list[tuple[int, int]]) -> Iterator[tuple[str, _Growth]]:
    """Yield the fields that made an object larger with their changes, to its deletion."""
    end = seen.end
    grown: dict[str, list[tuple[int, int]]] = defaultdict(list)
    sizes: list[tuple[int, int]] = []
    if life.marked_at is not None:
        end = min(end, life.marked_at)
    for event in life.events:
        if event.at >= end:
            break
        if event.difference is not None:
            sizes.append((event.at, event.difference.grown))
            for path in event.difference.paths:
                grown[path].append((event.at, event.difference.grown))
    for path, changes in grown.items():
        of_others = path.startswith("status") and life.resource not in seen.status_written
        if len(changes) < _CHANGES or of_others:
            continue
        # What else changed with it may have become shorter.
        larger = [number for _, number in changes if number > 0]
        smaller = -sum(number for at, number in sizes if number < 0 and changes[0][0] <= at <= changes[-1][0])
        if len(larger) < _MOSTLY * len(changes) or smaller >= _SHRINKS * sum(larger):
            continue
        for_nothing = sum(any(start <= at < stop for start, stop in times) for at, _ in changes)
        always = len(larger) == len(changes) >= _OFTEN
        phases = sum(any(span.start <= at < span.end for at, _ in changes) for span in seen.spans) if always else 0
        if for_nothing or phases >= _PHASES:
            yield path, _Growth(life, larger, for_nothing, phases)
