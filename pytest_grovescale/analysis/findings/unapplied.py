"""Changes that do not reach what depends on them: of a spec, of a configuration, of the operator's own objects.

An operator that takes a change in, and writes no more than its status, looks healthy. A kind that it does not watch is
looked at when something else happens, as a restart or a resync hours later. A pod reads a ConfigMap or a Secret when it
starts: without a digest of its contents in the template, no rollout follows a change of them.
(https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically: variables of
the environment never are)
What others change or delete of its own objects, an operator puts back.

No false alarm: only changes by the harness of what is wanted, and up to its next one; three seconds later, or once each
object says that it was observed, when the operator has sent nothing for one. Any write of the operator to anything but
a status is an effect, and fields that speak of times, pauses and policies need none. A change without effect is a
defect where the kind is not watched, where the status says that it was observed, or where it had one for most of its
like; else a note; so it is for some of several where what names them was the operator's business before. Of Kubernetes'
own kinds it counts where the operator watches them or has read those objects, and any write is its effect. Of a new
image pods have to follow, of most objects none of which did. Pods that keep running with old contents are a note, since
a program may read them again; and so are kinds that it makes, or reads three times after the workload came, without a
watch, since a resync may be meant; what it reads while nothing changes, it polls. A watch is lost that was open before
the first phase, if none of its kind was opened in ten seconds and to the end, while three of its objects changed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...recording.conditions import is_builtin
from ..result import Finding, Severity
from .evidence import Life, Sent, Span, changed_paths, form, number_of, shown
from .grouping import About, Aspect, Found, of_outcome
from .observed import QUIET_NS, Observed

ID = "unapplied-changes"

_CONTENTS = ("spec", "data")
_LEAST = 3
_OBSERVED = 2
_SCALED = "spec.replicas"
"""What an autoscaler may own."""
_LEAST_NS = 3_000_000_000
_SHOWN_NS = 2_000_000_000
"""Time after a write within which a watch shows it, ns."""
_REOPENED_NS = 10_000_000_000
"""Time after which a watch that ended would have been opened again, ns: client libraries wait for some seconds."""
_MOST = 0.8
_MANY = 5
_NEEDS_NONE = re.compile(r"paus|suspend|interval|timeout|retention|ttl|polic|schedule|period|deadline", re.IGNORECASE)
_IMAGE = re.compile(r"image\w*(?:\[\])?$", re.IGNORECASE)
"""The end of the path of what every pod is made of."""
_READ_AT_START = ("configmaps/", "secrets/")
_SELDOM = frozenset({"namespaces", "nodes", "serviceaccounts", "customresourcedefinitions.apiextensions.k8s.io"})
"""Kinds that exist before the workload and hardly change, or of which no more than the name matters."""


class _Change(NamedTuple):
    """What the harness changed of one kind in one go, ns."""

    phase: str
    resource: str
    path: str
    lives: Sequence[Life]
    start: int
    done: int
    end: int


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield changes without effect, contents that running pods do not have, and kinds that are made and not watched."""
    if not seen.operator or not seen.log_whole:
        return
    for span in seen.spans:
        for change in _changes(seen, span):
            yield from _without_effect(seen, change)
        yield from _not_made_again(seen, span)
    yield from _not_restarted(seen)
    yield from _not_watched(seen)
    yield from _watched_no_more(seen)
    yield from _read_and_not_watched(seen)


def _changes(seen: Observed, span: Span) -> Iterator[_Change]:
    """Yield what the harness changed in a phase, kind by kind, where nothing followed for seconds."""
    written: dict[str, list[Sent]] = defaultdict(list)
    for one in seen.by_harness(span.start, span.end):
        if one.updates and not one.subresource and one.category == "object":
            written[one.resource].append(one)
    for resource, sent in sorted(written.items()):
        start, done = min(one.received for one in sent), max(one.completed for one in sent)
        end = _next_act(seen, done)
        objects = {one.object for one in sent}
        lives: list[Life] = []
        paths: list[str] = []
        for life in seen.lives.get(resource, ()):
            if life.object in objects and life.begun < start and life.stays(end):
                # What the operator writes there itself soon after is not what the test had changed.
                own = (one for one in life.writes if one.user == seen.operator and not one.subresource)
                before = min((one.received for one in own if one.received > start), default=done + _SHOWN_NS)
                events = life.between(start, min(done + _SHOWN_NS, before))
                if wanted := [path for event in events for path in changed_paths(event, _CONTENTS)]:
                    lives.append(life)
                    paths.append(wanted[0])
        rested = not seen.requests_in(end - QUIET_NS, end)
        if not lives or not rested or _NEEDS_NONE.search(paths[0]):
            continue
        change = _Change(span.phase.name, resource, paths[0], lives, start, done, end)
        # Where each object says that it was seen, the operator has no more to do with it.
        if end - done >= _LEAST_NS or all(_says_observed(life, change) for life in lives):
            yield change


def _next_act(seen: Observed, at: int) -> int:
    """Return when the harness next wrote anything, acted on the workload or restarted the operator, or the end.

    A new process looks at all objects, and finds what the one before had missed.
    """
    later = (one.received for one in seen.by_harness(at + 1, seen.end))
    acts = (act for act in seen.workload_acts if act > at)
    restarts = (begin for begin, _ in seen.restarts if begin > at)
    return min(next(later, seen.end), next(acts, seen.end), next(restarts, seen.end))


def _without_effect(seen: Observed, change: _Change) -> Iterator[Finding]:
    sent = seen.requests_in(change.start, change.end)
    number, resource = len(change.lives), change.resource
    foreign = is_builtin(resource) and resource not in seen.status_written
    wrote = {(one.resource, one.object) for one in sent if one.changes and (foreign or one.subresource != "status")}
    if all(life.made_by_operator for life in change.lives):
        stayed = [life for life in change.lives if (resource, life.object) not in wrote]
        if stayed and change.path != _SCALED:
            yield Found(
                id=ID,
                severity="defect",
                about=_of(stayed, change.path),
                text=f"{change.path} of {number_of(len(stayed), resource)}, which the operator had made and the test"
                f" changed in {change.phase}, stayed so: the operator did not put it back",
                evidence=(_lasted(change),),
            )
        return
    reads = _reads(seen, change) if foreign else 0
    if foreign and not reads and resource not in seen.watched_by_operator:
        return  # it has nothing to do with them
    if not wrote and seen.works_off(change.start, change.end):
        return  # it has not come to them
    if not wrote:
        # Without any watch in the log, they were opened before it began.
        watched = not seen.watched_by_operator or resource in seen.watched_by_operator
        observed = [life for life in change.lives if _says_observed(life, change)]
        severity: Severity = "defect" if not watched or len(observed) >= _OBSERVED else "note"
        nothing = "nothing but statuses" if any(one.changes for one in sent) else "nothing"
        said = (
            f", and {len(observed):,} of them {form(len(observed), 'says', 'say')} by observedGeneration that it"
            " was seen"
            if observed
            else ""
        )
        yield Found(
            id=ID,
            severity=severity,
            about=_of(change.lives, change.path),
            text=f"a change of {change.path} of {number_of(number, resource)} in {change.phase} had no effect: the"
            f" operator" + (f" wrote {nothing}{said}" if watched else f" does not watch them, and wrote {nothing}"),
            evidence=(_lasted(change), *([f"it had read them {reads:,} times"] if reads else [])),
        )
        return
    without = [
        life
        for life in change.lives
        if not any((one.resource, one.object) in wrote for one in (*seen.family(life), *seen.naming(life)))
    ]
    # What names it, as a Deployment names a ConfigMap, and was the operator's business before.
    named = [life for life in without if any(one.own_updates or one.made_by_operator for one in seen.naming(life))]
    few = len(without) <= (1 - _MOST) * number
    if without and (few or (_LEAST <= len(named) == len(without) < number)):
        yield Found(
            id=ID,
            severity="defect" if few else "note",
            about=_of(without, change.path),
            text=f"a change of {change.path} of {number:,} {resource} in {change.phase} had no effect for"
            f" {len(without):,} of them: {without[0].name} for instance",
            evidence=("the operator wrote nothing of theirs, and something of each of the others",),
        )
    else:
        yield from _stopped_above_pods(seen, change)


def _stopped_above_pods(seen: Observed, change: _Change) -> Iterator[Finding]:
    """Yield a new image that reached what the operator makes, and no pod: all that are there are older."""
    if not _IMAGE.search(change.path) or change.end - change.done < _LEAST_NS:
        return
    stopped: list[tuple[Life, list[Life]]] = []
    for life in change.lives:
        pods = [pod for pod in seen.pods_below.get(life.uid, ()) if pod.exists(change.end)]
        fresh = any(pod.begun >= change.start or pod.deleting(change.end) for pod in pods)
        if pods and not fresh and not any(pod.changed_in(change.start, change.end) for pod in pods):
            stopped.append((life, pods))
    lives, number = [life for life, _ in stopped], sum(len(pods) for _, pods in stopped)
    if len(stopped) < _MOST * len(change.lives) or number < _LEAST:
        return
    wrote = Counter(
        one.resource
        for one in seen.requests_in(change.start, change.end)
        if one.changes and one.subresource != "status" and one.updates
    )
    reached = f": it reached {wrote.most_common(1)[0][0]}, and no pod" if wrote else ""
    yield Found(
        id=ID,
        severity="defect",
        about=_of(lives, change.path),
        text=f"a change of {change.path} of {number_of(len(lives), change.resource)} in {change.phase} reached none of"
        f" {form(len(lives), 'its', 'their')} {number:,} pods, which are older and did not change{reached}",
        evidence=(_lasted(change), "where users delete the pods themselves (OnDelete), that is meant"),
    )


def _of(lives: Iterable[Life], field: str) -> About:
    return About(aspect=Aspect.STATE, objects={life.key for life in lives}, field=field)


def _reads(seen: Observed, change: _Change) -> int:
    """Return how often the operator has read objects that were changed."""
    objects = {life.object for life in change.lives}
    return sum(one.verb == "get" and one.resource == change.resource and one.object in objects for one in seen.requests)


def _lasted(change: _Change) -> str:
    return f"for {(change.end - change.done) / 1e9:.0f} s, up to the test's next action or its end"


def _not_made_again(seen: Observed, span: Span) -> Iterator[Finding]:
    """Yield the kinds of which the test deleted objects that the operator did not make again for owners that stayed."""
    deletions = [one for one in seen.by_harness(span.start, span.end) if one.verb == "delete"]
    if not deletions:
        return
    end = _next_act(seen, max(one.completed for one in deletions))
    if seen.requests_in(end - QUIET_NS, end):
        return
    fewer: dict[str, list[Life]] = defaultdict(list)
    owners: dict[str, list[Life]] = defaultdict(list)
    for one in deletions:
        for life in seen.of_name.get((one.resource, one.object), ()):
            owner = seen.known.get(life.owner or "")
            if owner is None or owner.deleting(end) or not owner.exists(end) or not life.made_by_operator:
                continue
            like = [other for other in seen.children[owner.uid] if other.resource == life.resource]
            before = sum(other.stays(one.received) for other in like)
            after = sum(other.stays(end) for other in like)
            if life.exists(one.received) and after < before and end - one.completed >= _LEAST_NS + _SHOWN_NS:
                fewer[one.resource].append(life)
                owners[one.resource].append(owner)
    for resource, lives in fewer.items():
        yield Found(
            id=ID,
            severity="defect",
            about=_of(owners[resource], "children"),
            text=f"{number_of(len(lives), resource)} that the test deleted in {span.phase.name}"
            f" {form(len(lives), 'was', 'were')} not made again, while {form(len(lives), 'its owner', 'their owners')}"
            f" stayed: {lives[0].name} for instance",
        )


def _says_observed(life: Life, change: _Change) -> bool:
    before, now = life.numbers(change.start), life.numbers(change.end)
    generation = now.get("metadata.generation")
    return generation == now.get("status.observedGeneration") and generation != before.get("metadata.generation")


def _not_restarted(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose new contents no pod has read that needs them, since all are older."""
    end = (seen.workload_deleted or seen.end) - 1
    readers: dict[tuple[str, str, str], list[Life]] = defaultdict(list)
    for pod in seen.lives.get("pods", ()):
        if pod.events[0].needs and pod.stays(end):
            for need in pod.events[0].needs:
                if need.startswith(_READ_AT_START):
                    kind, _, name = need.partition("/")
                    readers[kind, pod.namespace, name].append(pod)
    for kind in ("configmaps", "secrets"):
        stale: list[Life] = []
        pods: set[str] = set()
        for life in seen.lives.get(kind, ()):
            times = [
                event.at
                for event in life.events
                if event.difference is not None and "data" in event.difference.paths and event.at < end - _LEAST_NS
            ]
            those = readers.get((kind, *life.object), [])
            if times and those and life.made_by_operator and all(pod.begun < times[-1] for pod in those):
                # What changed before the pods were Ready, they may have read.
                ready = [pod for pod in those if pod.ready is not None and pod.ready.at < times[-1]]
                if len(ready) == len(those):
                    stale.append(life)
                    pods.update(pod.uid for pod in those)
        if len(stale) >= _LEAST:
            yield Found(
                id=ID,
                severity="note",
                about=_of(stale, "data"),
                text=f"{len(pods):,} pods run on with what {len(stale):,} {kind} had before the operator changed their"
                f" data: {stale[0].name} for instance; a program that reads them only at its start does not see it",
            )


def _read_and_not_watched(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that others make, and that the operator reads to do its work and does not watch."""
    if not seen.watched_by_operator or seen.workload_applied is None:
        return
    reads: dict[str, list[Sent]] = defaultdict(list)
    for one in seen.requests_in(seen.workload_applied, seen.workload_deleted or seen.end):
        read = one.verb == "get" and bool(one.name) and not one.subresource and not one.refused
        if read and one.resource not in _SELDOM and one.resource not in seen.watched_by_operator:
            writes = seen.writes_by_object.get((one.resource, one.object), ())
            if not any(other.user == seen.operator for other in writes):
                reads[one.resource].append(one)
    for resource, found in sorted(reads.items()):
        polled = any((one.what, one.object) in seen.repeated_at_quiet for one in found)
        if len(found) < _LEAST or polled:
            continue
        objects = {one.object: None for one in found}
        more = f" and {len(objects) - 1:,} more" if len(objects) > 1 else ""
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.TIME, requests=found),
            text=f"the operator read {resource} {shown(next(iter(objects)))}{more} {len(found):,} times, which others"
            " make, and does not watch them: a change of them is not followed until something else happens",
            check="noop_reads(max=0)",
        )


def _not_watched(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that the operator makes for its objects, and does not watch."""
    blind = {
        resource: number
        for resource, lives in sorted(seen.lives.items())
        if seen.watched_by_operator
        and resource not in seen.watched_by_operator
        and (number := sum(bool(life.owner) and life.made_by_operator for life in lives)) >= _MANY
    }
    if blind:
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.STATE),
            text=f"the operator made {', '.join(f'{number:,} {resource}' for resource, number in blind.items())} and"
            " does not watch them: what others change or delete of these stays so until something else happens",
        )


def _watched_no_more(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that the operator watched from its start, whose watch ended, and that changed since."""
    for resource, ended in sorted(seen.lost_watches.items()):
        # A process that ended took its watches with it, and injected faults are judged by how it recovers.
        if seen.faults.windows or seen.was_absent(ended - QUIET_NS, ended + QUIET_NS):
            continue
        since, until = ended + QUIET_NS, seen.workload_deleted or seen.end
        unseen = [life for life in seen.lives.get(resource, ()) if life.changed_in(since, until)]
        if len(unseen) >= _LEAST and until - ended >= _REOPENED_NS:
            others = ", ".join(sorted(of for of, number in seen.open_watches(seen.end).items() if number > 0))
            yield Found(
                id=ID,
                severity="defect",
                about=of_outcome(Aspect.STATE, [window.phase for window in seen.stalls if window.end > ended]),
                text=f"the operator's watch on {resource} ended {(ended - seen.begin) / 1e9:.3g} s into the test, and"
                f" it opened no other: it has not seen what became of {number_of(len(unseen), resource)} since",
                evidence=(f"it still watches {others}",) if others else (),
            )
