"""The operator, or one of its containers, ended while it was under test.

Its caches, its queue and the reconciles under way are lost; what it had half done, the next process has to mend. Where
it is killed for its memory, it will be again.

No false alarm: a restart that the test asked for (`scale.restart_operator`) does not count, nor what happens before the
first phase. What the operator changes after a restart that was asked for counts where nothing had changed in the second
before it, nor anything of the operator's by anyone else before its first write, up to the test's next action, of three
objects that were there before, and only what says what is wanted of them: other controllers write the rest. That
nothing but who manages their fields changed has no reason in any change before. A Lease counts that was asked for three
times before it could be taken. An end counts that takes five seconds and more, and as a note: an operator may wait for
the callers of its webhooks. Reconciles after a restart count where nothing changed, without those that ask for
themselves, from half as many again on as there are objects of the kinds that it lists: each of these may wake its owner
once. Events after it count where it wrote nothing else, five and as many as half of the test's objects.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ...recording.records import RESTART, WRITES, ObjectSeen
from ..result import OPERATOR, Finding
from .amplification import OWN_TIMERS
from .evidence import WANTED, Sent, changed_paths
from .grouping import About, Aspect, Found
from .noop_work import by_controller
from .observed import QUIET_NS, RESTARTED, Observed

ID = "restarts"

_LEAST = 3
_END_S = 5.0
"""Time from the signal to the end of the operator from which on it is long, s."""
_FEW_CHANGES = 0.1
"""Changes after a restart for each object that the operator lists, up to which it has nothing to do."""
_LISTED, _MANY = 1.5, 20
"""Reconciles for each object that it lists, and at all, from which on more than the lists wake it."""
_EVENTS = 5
"""Events after a restart that are more than those of who leads."""
_ALL_BUT_ALL = 0.8
"""Share of what was made, or deleted, of a kind from which on it was replaced."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield one finding for all restarts of the operator, and one for what it changed after those that were asked."""
    yield from _caught_up(seen)
    yield from _waits_for_its_lease(seen)
    yield from _ends_late(seen)
    yield from _again_and_again(seen)
    marks = [mark for mark in seen.contents.marks if mark.label == RESTART]
    asked = [
        (begin.at, next((mark.at for mark in marks if mark.state == "end" and mark.at > begin.at), seen.end))
        for begin in marks
        if begin.state == "begin"
    ]
    found = [
        one
        for one in seen.contents.incidents
        if one.kind in RESTARTED
        and one.subject.partition("/")[0] == OPERATOR
        and seen.begin <= one.at < seen.end
        and not any(begin <= one.at <= end for begin, end in asked)
    ]
    if found:
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.PROCESS),
            text=f"the operator was restarted {len(found):,} time{'s' * (len(found) != 1)} while it was under test",
            evidence=tuple(f"{one.subject}: {one.detail}".rstrip(": ") for one in found[:3]),
        )


def _caught_up(seen: Observed) -> Iterator[Finding]:
    """Yield what the operator changed after a restart that the test asked for, before the test changed anything."""
    if not seen.operator or not seen.log_whole:
        return
    for begin, done in seen.restarts:
        # Other controllers go on from what the operator writes.
        asked = [one.received for one in seen.by_harness(begin, seen.end)]
        # A phase that only begins changes nothing.
        asked += [at for at in seen.workload_acts if at > done]
        end = min(asked, default=seen.end)
        sent = [one for one in seen.requests_in(begin, end) if one.changes]
        yield from _managers(seen, sent, begin, end)
        yield from _announced_again(seen, sent, begin, end)
        if not sent or not seen.still(begin, QUIET_NS / 1e9):
            continue
        if _others_changed(seen, begin, min(one.received for one in sent)):
            continue
        yield from _made_or_deleted(sent)
        changed = _changed(seen, sent, begin, end)
        resource = max(changed, key=lambda of: len(changed[of]), default="")
        if len(changed.get(resource, ())) < _LEAST:
            continue
        pods = sum(begin < pod.begun < end for pod in seen.lives.get("pods", ()))
        paths = Counter(path for of_one in changed[resource] for path in of_one)
        path = max((count, path) for path, count in paths.items())[1]
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION, requests=[one for one in sent if one.resource == resource]),
            text=f"after a restart, while the test changed nothing, the operator changed {len(changed[resource]):,}"
            f" {resource} ({path}): it had missed a change before, or makes them otherwise after each restart",
            evidence=(
                *(f"{len(objects):,} {of}" for of, objects in changed.items() if of != resource),
                *([f"{pods:,} pods were made in that time"] if pods else []),
            ),
            check="noop_writes(max=0)",
        )
        return


def _announced_again(seen: Observed, sent: list[Sent], start: int, end: int) -> Iterator[Finding]:
    """Yield Events that the operator wrote after a restart although neither it nor anyone else changed anything."""
    events = [one for one in seen.own if one.category == "event" and start <= one.received < end and one.verb in WRITES]
    objects = sum(one.category == "object" for one in sent)
    if len(events) < max(_EVENTS, len(seen.workload) / 2) or objects > _FEW_CHANGES * len(events):
        return
    # What had changed just before, and was not announced, would be as many as it works on at a time.
    if not _others_changed(seen, start, min(one.received for one in events)):
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=events),
            text=f"after a restart, while nothing changed, the operator wrote {len(events):,} Events: what it had"
            " announced before is news to each new process",
            evidence=(f"{events[0].name} for instance",) if events[0].name else (),
        )


def _managers(seen: Observed, sent: list[Sent], start: int, end: int) -> Iterator[Finding]:
    """Yield the objects of which the operator changed nothing but who manages their fields, in all kinds together."""
    wrote = {(one.resource, one.object) for one in sent if one.updates}
    found = [
        life
        for lives in seen.lives.values()
        for life in lives
        if life.begun < start and life.key in wrote
        if any(_is_of_managers(event) and not life.deleting(event.at) for event in life.between(start, end))
    ]
    if len(found) >= _LEAST:
        kinds = Counter(life.resource for life in found).most_common()
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.ACTION, requests=[one for one in sent if (one.resource, one.object) in wrote]),
            text=f"after a restart, while the test changed nothing, the operator wrote {len(found):,} objects of which"
            f" nothing changed but managedFields: {', '.join(f'{number:,} {kind}' for kind, number in kinds)}",
            evidence=(
                "a field manager whose name has the host, the pid or the time is another one in each process: each"
                " restart leaves an entry more in each object, and fields that no one removes any more",
            ),
            check="noop_writes(max=0)",
        )


def _is_of_managers(event: ObjectSeen) -> bool:
    """Return whether a change has a new version and nothing else that is compared, nor owners and finalizers."""
    compared = event.difference
    return compared is not None and compared.kind == "none" and event.owner is None and event.finalizers is None


def _others_changed(seen: Observed, start: int, end: int) -> bool:
    """Return whether someone else changed an object of the operator's in a time, which it may react to."""
    return any(
        one.user not in (seen.operator, seen.harness)
        and any(life.made_by_operator for life in seen.of_name.get((one.resource, one.object), ()))
        for one in seen.changes.between(start, end)
    )


def _changed(seen: Observed, sent: list[Sent], start: int, end: int) -> dict[str, list[list[str]]]:
    """Return resource → what is wanted of each object that the operator changed in a time and that was there before.

    ``sent``: its writes in that time.
    """
    wrote = {(one.resource, one.object) for one in sent}
    found: dict[str, list[list[str]]] = defaultdict(list)
    for resource, lives in seen.lives.items():
        for life in lives:
            if life.begun >= start or (resource, life.object) not in wrote:
                continue
            if paths := [path for event in life.between(start, end) for path in changed_paths(event, WANTED)]:
                found[resource].append(paths)
    return found


def _made_or_deleted(sent: list[Sent]) -> Iterator[Finding]:
    """Yield what the operator made or deleted of what it sent after a restart."""
    made = [one for one in sent if one.created and not one.subresource]
    deleted = [one for one in sent if one.verb == "delete"]
    kinds_made, kinds_deleted = (Counter(one.resource for one in those) for those in (made, deleted))
    replaced = kinds_made & kinds_deleted
    resource, number = max(replaced.items(), key=lambda one: one[1], default=("", 0))
    if number >= _LEAST and number >= _ALL_BUT_ALL * max(kinds_made[resource], kinds_deleted[resource]):
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION, requests=[one for one in (*made, *deleted) if one.resource == resource]),
            text=f"after a restart, while the test changed nothing, the operator deleted {number:,} {resource} and made"
            " them again: it makes them otherwise in each process, as by a hash that is not stable, or had missed a"
            " change before",
            evidence=tuple(f"{other:,} {of}" for of, other in (kinds_made | kinds_deleted).items() if of != resource),
            check=f'api_requests(phase=…, verb="create", resource="{resource}", max=0)',
        )
        return
    for verb, done, those, kinds in (
        ("create", "made", made, kinds_made),
        ("delete", "deleted", deleted, kinds_deleted),
    ):
        resource, number = max(kinds.items(), key=lambda one: one[1], default=("", 0))
        if number >= _LEAST:
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.ACTION, requests=[one for one in those if one.resource == resource]),
                text=f"after a restart, while the test changed nothing, the operator {done} {number:,} {resource}: it"
                " had missed a change before, or does so after each restart",
                evidence=tuple(f"{other:,} {of}" for of, other in kinds.items() if of != resource),
                check=f'api_requests(phase=…, verb="{verb}", resource="{resource}", max=0)',
            )


def _waits_for_its_lease(seen: Observed) -> Iterator[Finding]:
    """Yield how long the operator waited, after a restart that the test asked for, for the Lease of its own."""
    for asked, taken in seen.lease_waits[:1]:
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.PROCESS),
            text=f"after a restart the operator waited {(taken.completed - asked.received) / 1e9:.0f} s for its own"
            f" Lease {taken.name}: the process before did not release it when it ended",
            evidence=("each update of the operator stops its work for so long",),
        )


def _again_and_again(seen: Observed) -> Iterator[Finding]:
    """Yield the controller that reconciled far more often after a restart than all that it lists can wake it."""
    for span in seen.spans:
        begin = next((at for at, _ in seen.restarts if span.start <= at < span.end), None)
        listed = sum(life.exists(span.end) for of in seen.watched_by_operator for life in seen.lives.get(of, ()))
        if begin is None or span.phase.outcome != "passed" or not listed:
            continue
        if seen.changes.count(begin, span.end) > _FEW_CHANGES * listed:
            continue
        for controller, count in by_controller(span.phase).items():
            rows = [row for row in span.phase.reconciles if row.controller == controller]
            asked = count - sum(row.count for row in rows if row.result in OWN_TIMERS)
            if asked <= _LISTED * listed or asked < _MANY or rows[0].source == "work-queue":
                continue
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.AMOUNT, times=[(begin, span.end)]),
                text=f"after a restart, while nothing changed, {controller} reconciled {asked:,} times, and"
                f" there are {listed:,} objects of all kinds that it watches: it asks for each again and again",
                check=f'reconciles("{span.phase.name}", "{controller}", max=…, per_object=True)',
            )
            return


def _ends_late(seen: Observed) -> Iterator[Finding]:
    """Yield how long the operator took to end, in a restart that the test asked for."""
    ends = (one.at for one in seen.contents.gone.get(OPERATOR, ()))
    took = [(at - begin) / 1e9 for at in ends for begin, done in seen.restarts if begin < at <= done]
    if took and max(took) >= _END_S:
        yield Found(
            id=ID,
            severity="note",
            about=About(aspect=Aspect.PROCESS),
            text=f"asked to end (SIGTERM), the operator took {max(took):.0f} s, or was killed then",
            evidence=("each update of the operator waits for it, and one that is killed releases no Lease",),
        )
