"""Writes that changed nothing, and objects deleted more than once.

Each costs the API server, etcd or both, and the client-side rate limit delays the writes that matter behind it.
An update without a change is answered without a new resourceVersion and seen by no watch: the log has more successful
writes to an object than the watch has changes of it.
(https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions)
One that changes a time, a counter of attempts or the order of a list is a new version for everyone who watches, and no
news for anyone; a time that is rounded hides that for as long as its step.

No false alarm: only objects of which a watch without a gap has shown the beginning, and only until their deletion;
where others wrote to them too, only writes that exceed all changes are counted; up to three tenths of the writes not
those within a tenth of a second after the one before, which a cache may not show yet. A time that changes together with
anything else is news, and so is a generation that was observed. Writes to an object, or to its status, are in pieces
where three follow each other within a fifth of a second, while no one else wrote it and nothing below it changed, nor
shortly before; half of the objects that are written so often, and five. What is made in two requests counts where the
next write to most of a kind's objects is the operator's own, of their content, within a second and before anyone else
wrote; not where it takes a gate away, which is there to be taken away. What is written and at once deleted counts
likewise, a fifth of a second before. A dry run is a note, twenty times, and waste where the same is written right after
most of them.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ... import durations
from ...recording.conditions import is_builtin
from ...recording.records import Difference, DifferenceKind
from ..result import Finding
from .evidence import Life, Sent, shown
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "wasted-writes"

_LEAST = 5
_SHOWN = 3
_SHARE = 0.1
"""Of the operator's writes to a kind."""

_MOST = 0.8
_DRY_RUNS = 20
_SOON_NS = 1_000_000_000
_GATES = "spec.schedulingGates"
_IN_A_ROW = 3
_AT_ONCE_NS = 200_000_000
_LAG_NS = 100_000_000
"""Times between two writes up to which they are of one reconcile, and before them in which a change is news, ns."""
_BY_LAG = 0.3
"""Share of writes up to which a cache that does not show the last one yet may be why the next one changes nothing."""

_TRIVIAL: Mapping[DifferenceKind, str] = {
    "time": "times",
    "counter": "counters of attempts",
    "order": "the order of a list",
    "bookkeeping": "times, counters and orders",
}
"""Kinds of changes that are no news of the object → in words."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind with writes without effect, and one for repeated deletions."""
    if not seen.operator:
        return
    wasted = list(_without_effect(seen))
    yield from wasted
    for resource, lives in sorted(seen.lives.items()):
        stamped = list(_bookkeeping(seen, resource, lives))
        wasted += stamped
        yield from stamped
        yield from _coarse(seen, resource, lives)
    made_twice = list(_made_in_two(seen))
    yield from made_twice
    if not wasted and not made_twice:
        yield from _in_pieces(seen)
    yield from _deletions(seen)
    yield from _before_deletion(seen)
    yield from _dry_runs(seen)


def _in_pieces(seen: Observed) -> Iterator[Finding]:
    """Yield the kind whose objects are written several times in a row, with nothing new in between."""
    most: tuple[int, Finding] | None = None
    for resource, lives in sorted(seen.lives.items()):
        often_written = [life for life in lives if life.own_updates >= _IN_A_ROW]
        chains = [(chain, life) for life in often_written for chain in _chains(seen, life)]
        objects = {life.uid for _, life in chains}
        written = len(often_written)
        if len(objects) < max(_LEAST, written / 2):
            continue
        total = sum(len(chain) for chain, _ in chains)
        if most is not None and total <= most[0]:
            continue
        what = Counter(one.what for chain, _ in chains for one in chain).most_common(1)[0][0]
        often = median(len(chain) for chain, _ in chains)
        chain, life = max(chains, key=lambda one: len(one[0]))
        took = (chain[-1].completed - chain[0].received) / 1e6
        most = (
            total,
            Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.ACTION, requests=[one for chain, _ in chains for one in chain]),
                text=f"the operator writes {len(objects):,} {resource} {often:.0f} times in a row (mostly {what}), with"
                " nothing new in between: one write would do",
                evidence=(f"{shown(life.object)}: {len(chain):,} writes within {took:,.0f} ms",),
                check="api_requests(phase=…, max=…)",
            ),
        )
    if most is not None:
        yield most[1]


def _made_in_two(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose objects the operator makes, and at once writes again."""
    for resource, lives in sorted(seen.lives.items()):
        # How the first of a kind changed is not known where it is followed from then on.
        made = [life for life in lives if life.complete and life.made_by_operator and _is_compared(life)]
        again = {life: found for life in made if (found := _completed(seen, life)) is not None}
        if len(again) < _LEAST or len(again) < _MOST * len(made):
            continue
        fields = Counter(path for _, path in again.values()).most_common(_SHOWN)
        second = [one for one, _ in again.values()]
        later = median((one.received - life.begun) / 1e6 for life, (one, _) in again.items())
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=second),
            text=f"the operator writes {len(again):,} of {len(made):,} {resource} again within"
            f" {max(later, 1):,.0f} ms of making them ({fields[0][0]}): what it adds could be in the creation",
            evidence=tuple(f"{path} in {number:,} of them" for path, number in fields[1:]),
            check="api_requests(phase=…, max=…)",
        )


def _is_compared(life: Life) -> bool:
    return len(life.events) == 1 or life.events[1].difference is not None


def _completed(seen: Observed, life: Life) -> tuple[Sent, str] | None:
    """Return the write by which the operator at once changed what it had just made, and the field; None without one."""
    second = next((one for one in life.writes if not one.created), None)
    if second is None or second.user != seen.operator or not second.updates or second.subresource:
        return None
    difference = life.events[1].difference if len(life.events) > 1 else None
    if second.received - life.begun > _SOON_NS or difference is None or difference.kind != "content":
        return None
    path = next(iter(difference.paths), "")
    # What changes again and again is contested, or follows something.
    once = sum(path in event.difference.paths for event in life.events if event.difference is not None) == 1
    return (second, path) if path and path != _GATES and once else None


def _chains(seen: Observed, life: Life) -> Iterator[list[Sent]]:
    """Yield the operator's writes to one part of an object that follow each other at once, three and more."""
    own = [one for one in life.writes if one.user == seen.operator and one.updates]
    news: list[int] | None = None
    for part in {one.subresource for one in own}:
        chain: list[Sent] = []
        for one in own:
            if one.subresource != part:
                continue
            follows = bool(chain) and one.received - chain[-1].completed < _AT_ONCE_NS
            if follows:
                news = _news_of(seen, life) if news is None else news
                follows = bisect_left(news, chain[-1].received - _LAG_NS) == bisect_right(news, one.completed)
            if not follows:
                if len(chain) >= _IN_A_ROW:
                    yield chain
                chain = []
            chain.append(one)
        if len(chain) >= _IN_A_ROW:
            yield chain


def _news_of(seen: Observed, life: Life) -> list[int]:
    """Return when others wrote an object, and what is below it changed or was written, in order."""
    below = list(seen.below(life))
    return sorted(
        [one.completed for one in life.writes if one.user != seen.operator]
        + [event.at for one in below for event in one.events]
        + [one.completed for child in below for one in child.writes]
    )


_NODE = "spec.nodeName"
"""Set by a binding alone, which is the scheduler's."""


class _Void(NamedTuple):
    """Writes to one kind."""

    resource: str
    what: Counter[str]
    """Those without effect."""
    total: int
    example: str
    sent: Sequence[Sent]
    """The most frequent kind of writes to each of these objects: some of them had no effect."""
    unknown: int
    """Other writes to the kind, to objects that were not followed from their beginning."""

    @property
    def text(self) -> str:
        return f"{self.what.total():,} of {self.total:,} to {self.resource}"


def _without_effect(seen: Observed) -> Iterator[Finding]:
    """Yield one finding for all kinds: it is mostly one habit."""
    kinds = [kind for one in sorted(seen.lives.items()) if (kind := _void(seen, *one)) is not None]
    if not kinds:
        return
    kinds.sort(key=lambda kind: -kind.what.total())
    what = sum((kind.what for kind in kinds), Counter[str]())
    first = kinds[0]
    writes = (
        f"{first.what.total():,} of {first.total:,} writes of the operator to {first.resource}"
        if len(kinds) == 1
        else f"writes of the operator, {', '.join(kind.text for kind in kinds)},"
    )
    # An update of an object leaves its status as it is where that has a part of its own.
    all_updates = first.what.total() == first.total and all(one.startswith("update ") for one in first.what)
    drops = all_updates and not is_builtin(first.resource) and first.resource not in seen.with_status
    why = ", and none was to its status: an update of the object itself does not take a status" if drops else ""
    evidence = tuple(kind.example for kind in kinds[:_SHOWN])
    if first.unknown > first.total / 10:
        evidence += (
            f"whether {first.unknown:,} more writes to {first.resource} changed anything is not known: their objects"
            " were not followed from their beginning",
        )
    yield Found(
        id=ID,
        severity="defect" if drops else "waste",
        about=About(aspect=Aspect.ACTION, requests=[one for kind in kinds for one in kind.sent]),
        text=f"{writes} changed nothing (mostly {what.most_common(1)[0][0]}){why}",
        evidence=evidence,
        check="api_requests(phase=…, max=…)",
    )


def _void(seen: Observed, resource: str, lives: list[Life]) -> _Void | None:
    names = Counter(life.object for life in lives)
    nothing: Counter[str] = Counter()
    by_parts = resource in seen.with_status
    total = lagging = 0
    example = ""
    sent: list[Sent] = []
    shown_until = seen.shown_until(resource)
    for life in lives:
        key = life.object
        if not life.own_updates or not life.complete or names[key] > 1 or life.begun < seen.begin:
            continue
        leaving = life.leaves_at
        if leaving is not None and leaving >= seen.end:
            leaving = None
        own = [
            one
            for one in life.writes
            if one.user == seen.operator
            and one.verb not in ("delete", "create")
            and not one.created  # an apply that made the object
            and one.completed < (shown_until if leaving is None else min(leaving, shown_until))
        ]
        if not own:
            continue
        events = life.between(seen.begin, seen.end if leaving is None else leaving)
        # The first event is the create. Writes of others may be those without effect: only what they cannot be counts.
        changes = len(events) - 1
        if by_parts and not any(one.subresource for one in own):
            # Nothing that it wrote can have changed a status alone, nor bound a pod to a node.
            changes -= sum(
                event.difference is not None and _is_of_others(tuple(event.difference.paths)) for event in events[1:]
            )
        wasted = max(0, len(own) - changes)
        total += len(own)
        if wasted:
            lagging += min(wasted, sum(after.received < before.completed + _LAG_NS for before, after in pairwise(own)))
            for what, number in Counter(one.what for one in own).most_common(1):
                nothing[what] += min(wasted, number)
                sent += [one for one in own if one.what == what]
            news = f"{changes:,} change{'s' * (changes != 1)}"
            example = example or f"{resource} {shown(key)}: {len(own):,} successful writes, {news}"
    wasted = nothing.total()
    sent = _all_alike(seen, sent, wasted, total)
    sure = wasted if wasted > _BY_LAG * total else wasted - lagging
    if sure < max(_LEAST, _SHARE * total):
        return None
    writes = sum(one.changes and one.updates and not one.created for one in seen.own if one.resource == resource)
    return _Void(resource, nothing, total, example, sent, writes - total)


def _all_alike(seen: Observed, sent: list[Sent], wasted: int, total: int) -> list[Sent]:
    """Return some writes; where most of those that are known had no effect, also their like, to any object."""
    return seen.own_of({one.what for one in sent}) if 2 * wasted > total else sent


@functools.lru_cache(maxsize=1024)
def _of_status(paths: tuple[str, ...]) -> bool:
    return bool(paths) and all(path == "status" or path.startswith("status.") for path in paths)


def _is_of_others(paths: tuple[str, ...]) -> bool:
    return _of_status(paths) or _NODE in paths


def _bookkeeping(seen: Observed, resource: str, lives: list[Life]) -> Iterator[Finding]:
    """Yield a finding for writes that changed nothing but times, counters of attempts, or the order of a list."""
    if not any(one.kind in _TRIVIAL for one in seen.kinds[resource].differences):
        return
    changed: list[Difference] = []
    moments: list[int] = []
    periods: list[float] = []
    total = wasted = 0
    sent: list[Sent] = []
    for life in lives:
        own = life.own_updates
        if not own:
            continue
        trivial = [(event.at, event.difference) for event in life.between(seen.begin, seen.end)]
        only = [(at, one) for at, one in trivial if one is not None and one.kind in _TRIVIAL]
        # Writes of others may be those: only what they cannot be counts.
        count = min(own, max(0, len(only) - (life.updates - own)))
        total += own
        wasted += count
        if count:
            part = "status" if all(_of_status(tuple(one.paths)) for _, one in only) else ""
            writes = [one for one in seen.own_writes([life]) if one.updates]
            sent += [one for one in writes if one.subresource == part] or writes
            changed += [one for _, one in only]
            moments += [at for at, _ in only]
            periods += [(after - before) / 1e9 for (before, _), (after, _) in pairwise(only)]
    if wasted < _LEAST or wasted < _SHARE * total:
        return
    sent = _all_alike(seen, sent, wasted, total)
    what = " and ".join(_TRIVIAL[kind] for kind in sorted({one.kind for one in changed}))
    paths = Counter(path for one in changed for path in one.paths)
    idle = max((window.seconds for window in seen.idle_windows), default=0.0)
    at_triggers = any(span.triggers and span.start <= at < span.end for span in seen.spans for at in moments)
    yield Found(
        id=ID,
        severity="waste",
        about=About(aspect=Aspect.ACTION, requests=sent),
        text=f"{wasted:,} of {total:,} writes of the operator to {resource} changed nothing but {what}"
        f" ({', '.join(path for path, _ in paths.most_common(2))})",
        evidence=(
            *([f"one object was written so every {median(periods):.3g} s"] if periods else []),
            f"a write less often than every {idle:.0f} s, the longest time without any change, would not show"
            if idle
            else "no time without any change was long enough to show writes that come seldom",
        ),
        check="noop_writes(max=0)" if at_triggers else "api_requests(phase=…, max=…)",
    )


def _coarse(seen: Observed, resource: str, lives: list[Life]) -> Iterator[Finding]:
    """Yield a note for each time of a status that is rounded: its next step is beyond the run.

    One that mostly is not was a whole minute, or hour, by chance, and seen late.
    """
    steps: dict[str, list[int]] = defaultdict(list)
    events = [event for life in lives if life.own_updates for event in life.events]
    for event in events:
        for path, step in event.coarse.items():
            steps[path].append(step)
    finer = Counter(
        path
        for event in (events if steps else ())
        if event.difference is not None
        for path in event.difference.paths
        if path not in event.coarse
    )
    longest = max((window.seconds for window in seen.idle_windows), default=0.0)
    for path, found in sorted(steps.items()):
        step = min(found)
        if len(found) >= max(_LEAST, finer[path]) and longest < 2 * step:
            yield Found(
                id=ID,
                severity="note",
                about=About(aspect=Aspect.ACTION),
                text=f"{path} of {resource} is a time in steps of {durations.text(step)}: a write at each step would"
                " not show in this run, "
                + (f"whose longest time without any change was {longest:.0f} s" if longest else "which never rested"),
                check="noop_writes(max=0)",
            )


def _deletions(seen: Observed) -> Iterator[Finding]:
    deletes = [one for one in seen.requests if one.verb == "delete" and one.name and not one.subresource]
    if not deletes:
        return
    made = Counter(
        (one.resource, one.object) for one in seen.all_requests if one.created and one.name and not one.subresource
    )
    asked = Counter((one.resource, one.object) for one in deletes if not one.refused)
    twice = [key for key, number in asked.items() if number > max(1, made[key])]
    if len(twice) >= _LEAST and len(twice) >= _SHARE * len(asked):
        resource, name = twice[0]
        again = [one for one in deletes if asked[one.resource, one.object] > max(1, made[one.resource, one.object])]
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=again),
            text=f"the operator deleted {len(twice):,} objects more than once",
            evidence=(f"{resource} {name[0]}/{name[1]}: {asked[twice[0]]} delete requests",),
            check='api_requests(phase=…, verb="delete", max=…)',
        )
    for code in (404, 409):
        missed = Counter(one.resource for one in deletes if one.code == code)
        kinds = {
            resource for resource, number in missed.items() if number >= _LEAST and number >= _SHARE * len(deletes)
        }
        if kinds:
            refused = [one for one in deletes if one.code == code and one.resource in kinds]
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.ACTION, requests=refused),
                text=f"{len(refused):,} of {len(deletes):,} deletions of the operator were answered {code}"
                f" ({', '.join(sorted(kinds))})",
                check='api_requests(phase=…, verb="delete", max=…)',
            )


def _before_deletion(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose objects the operator writes right before it deletes them."""
    for resource, lives in sorted(seen.lives.items()):
        deleted = [(life, last) for life in lives if (last := _deletion_of(seen, life)) is not None]
        written = [one for life, last in deleted if (one := _last_words(seen, life, last)) is not None]
        if len(written) >= _LEAST and len(written) >= _MOST * len(deleted):
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.ACTION, requests=written),
                text=f"the operator writes {len(written):,} of the {len(deleted):,} {resource} that it deletes right"
                f" before it does ({written[0].what}): no one can act on that in between",
                check="api_requests(phase=…, max=…)",
            )


def _deletion_of(seen: Observed, life: Life) -> Sent | None:
    """Return the operator's request that deleted an object alone; None without one."""
    return next((one for one in life.writes if one.user == seen.operator and one.verb == "delete"), None)


def _last_words(seen: Observed, life: Life, deletion: Sent) -> Sent | None:
    """Return the operator's write of an object's content just before it deleted it; None without one."""
    last = next((one for one in reversed(life.writes) if one.number < deletion.number), None)
    if last is None or last.user != seen.operator or not last.updates:
        return None
    news = [event.difference for event in life.events if event.at >= last.received and event.difference is not None]
    at_once = deletion.received - last.completed < _AT_ONCE_NS
    return last if at_once and not last.subresource and news and news[0].kind == "content" else None


def _dry_runs(seen: Observed) -> Iterator[Finding]:
    """Yield that writes are tried first, by a dry run."""
    tried = [one for one in seen.requests if one.dry_run and one.verb in ("create", "update", "patch")]
    if len(tried) < _DRY_RUNS:
        return
    done: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in seen.requests:
        if one.changes:
            done[one.what, one.namespace].append(one.received)
    followed = sum(
        bisect_left(times, one.completed) < bisect_right(times, one.completed + _SOON_NS)
        for one in tried
        if (times := done.get((one.what, one.namespace), []))
    )
    is_waste = followed >= _MOST * len(tried)
    what = Counter(one.what for one in tried).most_common(1)[0][0]
    yield Found(
        id=ID,
        severity="waste" if is_waste else "note",
        about=About(aspect=Aspect.ACTION, requests=tried),
        text=f"the operator sent {len(tried):,} writes as a dry run (mostly {what}), each of which costs the API server"
        f" as much as the write itself{', which mostly followed at once' if is_waste else ''}",
        check="api_requests(phase=…, max=…)",
    )
