"""Writes that changed nothing, and objects deleted more than once.

Each costs the API server, etcd or both, and the client-side rate limit delays the writes that matter behind it.
An update without a change is answered without a new resourceVersion and seen by no watch: the log has more successful
writes to an object than the watch has changes of it.
(https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions)

No false alarm: only objects of which a watch without a gap has shown the beginning, and only until their deletion;
where others wrote to them too, only writes that exceed all changes are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from http import HTTPStatus

from ..result import Finding
from .observed import Life, ObjectId, Observed, Sent

ID = "wasted-writes"

_LEAST = 5
_SHARE = 0.1
"""Of the operator's writes to a kind."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind with writes without effect, and one for repeated deletions."""
    if not seen.operator:
        return
    by_object: dict[tuple[str, ObjectId], list[Sent]] = defaultdict(list)
    for one in seen.all_requests:
        if one.changes and one.name:
            by_object[one.resource, one.object].append(one)
    for resource, lives in sorted(seen.lives.items()):
        yield from _without_effect(seen, resource, lives, by_object)
    yield from _deletions(seen)


def _without_effect(
    seen: Observed, resource: str, lives: list[Life], by_object: dict[tuple[str, ObjectId], list[Sent]]
) -> Iterator[Finding]:
    names = Counter((life.namespace, life.name) for life in lives)
    nothing: Counter[str] = Counter()
    total = 0
    example = ""
    for life in lives:
        key = life.namespace, life.name
        if not life.complete or names[key] > 1 or life.events[0].at < seen.begin:
            continue
        events = [event for event in life.events if event.at < seen.end]
        leaving = next((e.at for e in events if e.change == "deleted" or "metadata.deletionTimestamp" in e.fields), 0)
        own = [
            one
            for one in by_object.get((resource, key), [])
            if one.user == seen.operator
            and one.verb not in ("delete", "create")
            and one.code != HTTPStatus.CREATED  # an apply that made the object
            and (not leaving or one.completed < leaving)
        ]
        if leaving:
            events = [event for event in events if event.at < leaving]
        # The first event is the create. Writes of others may be those without effect: only what they cannot be counts.
        wasted = max(0, len(own) - (len(events) - 1))
        total += len(own)
        if wasted:
            for what, number in Counter(one.what for one in own).most_common(1):
                nothing[what] += min(wasted, number)
            example = example or f"{key[0]}/{key[1]}: {len(own)} successful writes, {len(events) - 1} changes"
    wasted = nothing.total()
    if wasted < _LEAST or wasted < _SHARE * total:
        return
    yield Finding(
        id=ID,
        severity="waste",
        text=f"{wasted:,} of {total:,} writes of the operator to {resource} changed nothing"
        f" (mostly {nothing.most_common(1)[0][0]})",
        evidence=(example,),
        check="api_requests(phase=…, max=…)",
    )


def _deletions(seen: Observed) -> Iterator[Finding]:
    deletes = [one for one in seen.requests if one.verb == "delete" and one.name and not one.subresource]
    made = Counter(
        (one.resource, one.object)
        for one in seen.all_requests
        if one.code == HTTPStatus.CREATED and one.name and not one.subresource
    )
    asked = Counter((one.resource, one.object) for one in deletes if not one.refused)
    twice = [key for key, number in asked.items() if number > max(1, made[key])]
    if len(twice) >= _LEAST and len(twice) >= _SHARE * len(asked):
        resource, name = twice[0]
        yield Finding(
            id=ID,
            severity="waste",
            text=f"{len(twice):,} objects were deleted more than once, {asked[twice[0]]} times for instance",
            evidence=(f"{resource} {name[0]}/{name[1]}",),
            check='api_requests(phase=…, verb="delete", max=…)',
        )
    missed = Counter((one.resource, one.code) for one in deletes if one.code in (404, 409))
    for (resource, code), number in missed.items():
        if number >= _LEAST and number >= _SHARE * len(deletes):
            yield Finding(
                id=ID,
                severity="waste",
                text=f"{number:,} of {len(deletes):,} deletions of the operator were answered {code} ({resource})",
                check='api_requests(phase=…, verb="delete", max=…)',
            )
