"""A recording's objects as rules read them: their owners and makers, when they came, changed and went."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from ...recording.conditions import READY_PATH
from ...recording.object_references import any_kind
from ...recording.records import SETTLED, TOUCH, ObjectSeen
from ..audit_times import namespace_of
from ..recording_index import WatchStory
from .evidence import PHASE, SHOWN_NS, Kind, Life, ObjectId, Sent, Touch, Window, is_news
from .observed_requests import WORKLOAD, ObservedRequests

_DELETION = "metadata.deletionTimestamp"
_LEAST_LAG_NS = 1_000_000_000
"""What a watch may be behind the API server where the recording does not show it to be more, ns."""


class AtRest(NamedTuple):
    """The objects at the end of a time."""

    lives: Mapping[str, Sequence[Life]]
    """Resource → those that stay, and have not changed in the time."""
    changed: frozenset[Life]
    """Those that have."""
    pods: frozenset[Life]
    """The pods that exist."""
    ready: frozenset[Life]
    """Those of them that are Ready."""


class ObservedObjects(ObservedRequests):
    """The objects of one test, beside the requests for them."""

    @functools.cached_property
    def lives(self) -> dict[str, list[Life]]:
        """Resource → the objects that were in a watched collection, by each watch's first event of them."""
        found: dict[str, list[Life]] = defaultdict(list)
        alone = {(spec.resource, namespace_of(spec)) for spec in (story.opened.spec for story in self.stories)}
        for story in self.stories:
            resource = story.opened.spec.resource
            wide = not namespace_of(story.opened.spec)
            made, unnamed = self.made.get(resource, frozenset()), resource in self.made_unnamed
            for of, events in story.objects.items():
                if wide and of[0] and (resource, of[0]) in alone:
                    continue  # that namespace has a watch of its own, which was there before
                in_turn = _by_uid(events)
                of_each = _to_each(self.writes_by_object.get((resource, of), ()), in_turn)
                for own, writes in zip(in_turn, of_each, strict=True):
                    writers = [one.user for one in writes if one.updates and not one.created]
                    first, last = own[0], own[-1]
                    owners = [event.owner for event in own if event.owner is not None]
                    complete = not first.initial and not story.gaps
                    gone_at = last.at if last.change == "deleted" else None
                    marked_at = next((event.at for event in own if _DELETION in event.fields), None)
                    # A kind is followed once its first object is made: those of one namespace are there by then.
                    came = complete or (bool(first.owner) and f"/namespaces/{of[0]}/" in story.opened.spec.path)
                    life = Life(
                        resource=resource,
                        object=of,
                        uid=first.uid,
                        events=own,
                        complete=complete,
                        begun=first.at,
                        gone_at=gone_at,
                        marked_at=marked_at,
                        owner=owners[-1] if owners else None,
                        owners=owners,
                        writes=writes,
                        updates=len(writers),
                        own_updates=writers.count(self.operator),
                        made_by_operator=of in made or (unnamed and came and first.at >= self.begin),
                        deleted_at=self._deleted_by_name(writes)
                        or self._deleted_together(resource, of[0], marked_at or gone_at, writes),
                    )
                    found[resource].append(life)
        return found

    @functools.cached_property
    def compared(self) -> frozenset[str]:
        """The resources whose watch compares each event with the one before."""
        return frozenset(
            resource
            for resource, lives in self.lives.items()
            if any(event.difference is not None for life in lives for event in life.events)
        )

    @functools.cached_property
    def came(self) -> list[int]:
        """When objects of any watched kind were first seen, in order."""
        return sorted(life.begun for lives in self.lives.values() for life in lives)

    @functools.cached_property
    def went(self) -> list[int]:
        """When objects of any watched kind were seen to be gone, in order."""
        return sorted(gone for lives in self.lives.values() for life in lives if (gone := life.gone_at) is not None)

    def shown_until(self, resource: str) -> int:
        """Return up to when a kind's writes have their events: the end, or before it where the watch was still behind.

        A test that is interrupted, or fails in the middle of its work, ends with writes whose events had not come.
        """
        last = max(
            (event.at for life in self.lives.get(resource, ()) if (event := life.event_at(self.end)) is not None),
            default=self.begin,
        )
        return self.end - self._lag if self.end - last < self._lag else self.end

    @functools.cached_property
    def _lag(self) -> int:
        """How far watches may be behind: twice the longest time from the answer to a create until its event, ns."""
        made = (
            life.begun - life.writes[0].completed
            for lives in self.lives.values()
            for life in lives
            if life.complete and life.writes and life.writes[0].created
        )
        return max(2 * max(made, default=0), _LEAST_LAG_NS)

    def existing(self, start: int, end: int) -> int:
        """Return how many objects of all watched kinds existed in a time."""
        return bisect.bisect_right(self.came, end) - bisect.bisect_left(self.went, start)

    @functools.cached_property
    def known(self) -> Mapping[str, Life]:
        """UID → object, of all that watches showed."""
        return {life.uid: life for lives in self.lives.values() for life in lives}

    @functools.cached_property
    def of_name(self) -> Mapping[tuple[str, ObjectId], Sequence[Life]]:
        """(resource, object) → the lives of that name, the earliest first, as watches showed them."""
        found: dict[tuple[str, ObjectId], list[Life]] = defaultdict(list)
        for resource, lives in self.lives.items():
            for life in lives:
                found[resource, life.object].append(life)
        for those in found.values():
            those.sort(key=attrgetter("begun"))
        return found

    @functools.cached_property
    def children(self) -> Mapping[str, Sequence[Life]]:
        """UID → the objects that it owns."""
        found: dict[str, list[Life]] = defaultdict(list)
        for life in self.known.values():
            if owner := self._owner(life):
                found[owner].append(life)
        return found

    def _owner(self, life: Life) -> str:
        """Return the UID of an object's owner; also of one that has let go of it by its own deletion. Empty: none."""
        if life.owner != "":
            return life.owner or ""
        uid = next(filter(None, reversed(life.owners)), "")
        last = self.known.get(uid) if uid else None
        return uid if last is not None and last.leaves_at is not None else ""

    def family(self, life: Life) -> list[Life]:
        """Return an object with its owners, their owners, and all that it owns, directly or not."""
        return [*self.line(life), *self.below(life)]

    def line(self, life: Life) -> list[Life]:
        """Return an object with its owners, nearest first."""
        found = [life]
        while (uid := self._owner(found[-1])) and (owner := self.known.get(uid)) is not None:
            found.append(owner)
        return found

    def part_of(self, life: Life) -> str:
        """Return the UID of the object that another one is made for: its owner, or else one that its name begins with.

        By its name only where it has no owner, and of the test's own objects: ``web`` for ``web`` and ``web-config``.
        Empty where there is none.
        """
        if life.owner:
            return life.owner
        words = life.name.split("-")
        names = ("-".join(words[:count]) for count in range(len(words), 0, -1))
        namesakes = (one for name in names for one in self._applied.get((life.namespace, name), ()))
        return next((one.uid for one in namesakes if one.resource != life.resource), "")

    @functools.cached_property
    def parts(self) -> Mapping[str, Sequence[Life]]:
        """UID → what it owns, and what the operator made for it without an owner, by its name; see `part_of`."""
        found: dict[str, list[Life]] = defaultdict(list)
        for life in self.known.values():
            if uid := self._owner(life) or (self.part_of(life) if life.made_by_operator else ""):
                found[uid].append(life)
        return found

    @functools.cached_property
    def _applied(self) -> Mapping[ObjectId, Sequence[Life]]:
        """Namespace and name → the objects that the harness made."""
        found: dict[ObjectId, list[Life]] = defaultdict(list)
        for key in dict.fromkeys(
            (one.resource, one.object) for one in self.by_harness(self.begin, self.end) if one.created
        ):
            found[key[1]] += self.of_name.get(key, ())
        return found

    def naming(self, life: Life) -> Iterator[Life]:
        """Yield what names an object in its first version, as templates do Secrets; its owners; what else it names."""
        for one in (
            *self._naming.get((f"{life.resource}/{life.name}", life.namespace), ()),
            *self._naming.get((any_kind(life.name), life.namespace), ()),
        ):
            yield from self.line(one)
            for kind, _, name in (need.partition("/") for need in one.events[0].needs or ()):
                yield from self.of_name.get((kind, (one.namespace, name)), ())

    def named_by(self, life: Life) -> Iterator[Life]:
        """Yield what an object names in its first version, of its own namespace or without one."""
        for need in life.events[0].needs or ():
            for namespace in dict.fromkeys((life.namespace, "")):
                yield from self._nameable.get((need, namespace), ())

    @functools.cached_property
    def _nameable(self) -> Mapping[tuple[str, str], Sequence[Life]]:
        """What names an object, as ``secrets/NAME`` or `any_kind` of its name, and its namespace → those objects."""
        found: dict[tuple[str, str], list[Life]] = defaultdict(list)
        # Of most objects, as pods, nothing says the name.
        named = {need for need, _ in self._naming}
        for life in self.known.values():
            for need in named.intersection((f"{life.resource}/{life.name}", any_kind(life.name))):
                found[need, life.namespace].append(life)
        return found

    @functools.cached_property
    def _naming(self) -> Mapping[tuple[str, str], Sequence[Life]]:
        """What is named, as ``secrets/NAME``, and its namespace → who names it."""
        found: dict[tuple[str, str], list[Life]] = defaultdict(list)
        for life in self.known.values():
            for need in life.events[0].needs or ():
                # What an object without a namespace is called, those of any may name.
                for namespace in {life.namespace, ""}:
                    found[need, namespace].append(life)
        return found

    @functools.cached_property
    def pods_below(self) -> Mapping[str, Sequence[Life]]:
        """UID → the pods among all that an object owns, directly or not."""
        found: dict[str, list[Life]] = defaultdict(list)
        for pod in (life for life in self.known.values() if life.resource == "pods"):
            for owner in self.line(pod)[1:]:
                found[owner.uid].append(pod)
        return found

    def below(self, life: Life) -> Iterator[Life]:
        """Yield all that an object owns, directly or not, nearest first."""
        generation: Sequence[Life] = [life]
        while generation:
            generation = [child for one in generation for child in self.children.get(one.uid, ())]
            yield from generation

    @functools.cached_property
    def touches(self) -> list[Touch]:
        """The objects that the harness touched, in order; see ``Scale.touch_each_kind``."""
        found = []
        marks = [mark for mark in self.contents.marks if mark.label == TOUCH]
        for begin, end in itertools.pairwise(marks):
            if begin.state != "begin" or end.state != "end":
                continue
            resource, _, where = begin.detail.partition(" ")
            namespace, _, name = where.partition("/")
            touched = self.of_name.get((resource, (namespace, name)), ())
            life = next((life for life in touched if life.exists(begin.at)), None)
            if resource not in self.lives:
                life = _unwatched(resource, (namespace, name), begin.at)
            if life is not None and any(one.object == (namespace, name) for one in self.by_harness(begin.at, end.at)):
                found.append(Touch(life, begin.at, end.at))
        return found

    @functools.cached_property
    def stories(self) -> list[WatchStory]:
        """One watch for each collection that is watched as a whole: of several, the one with the most events."""
        whole: dict[str, WatchStory] = {}
        for story in self.contents.watches.values():
            spec = story.opened.spec
            if not spec.label_selector and not spec.field_selector:
                other = whole.get(spec.path)
                whole[spec.path] = story if other is None or story.events > other.events else other
        return list(whole.values())

    def shows_all(self, resource: str, namespace: str, at: int) -> bool:
        """Return whether a watch without a gap shows each object of a kind in a namespace, from ``at`` on or before."""
        return any(
            story.opened.spec.resource == resource
            and namespace_of(story.opened.spec) in ("", namespace)
            and story.complete_since(at)
            for story in self.stories
        )

    def _deleted_by_name(self, writes: Iterable[Sent]) -> int | None:
        """Return when the operator last deleted the object that some writes name; None: never."""
        deletions = (one.completed for one in writes if one.verb == "delete" and one.user == self.operator)
        return max(deletions, default=None)

    @functools.cached_property
    def _collections(self) -> Mapping[tuple[str, str], Sequence[Sent]]:
        """Resource and namespace → the operator's accepted deletions of whole collections."""
        found: dict[tuple[str, str], list[Sent]] = defaultdict(list)
        for one in self.requests:
            if one.verb == "deletecollection" and not one.refused:
                found[one.resource, one.namespace].append(one)
        return found

    def _deleted_together(self, resource: str, namespace: str, at: int | None, writes: Sequence[Sent]) -> int | None:
        """Return when the operator deleted an object with others of its collection; None: never.

        ``at``: when its deletion was seen; ``writes``: those that name it. A selector may have left it out: it counts
        where it goes just then, and no one had deleted it by its name: a kubelet does so at its end.
        """
        those = self._collections.get((resource, namespace))
        if at is None or not those:
            return None
        named = min((one.received for one in writes if one.verb == "delete"), default=None)
        for one in those:
            if one.received <= at <= one.completed + SHOWN_NS and (named is None or one.received < named):
                return one.completed
        return None

    def only_maker_for(self, life: Life) -> Life | None:
        """Return for which object the operator made one that it alone writes; None: for none, or others write it too.

        A status is anyone's, and so are the harness's annotations.
        """
        owner = self.known.get(life.owner or "")
        if owner is None or not life.made_by_operator:
            return None
        changed = [one for one in life.writes if one.updates and one.subresource in ("", "scale")]
        return owner if {one.user for one in changed} <= {self.operator, self.harness} else None

    def own_writes(self, lives: Iterable[Life]) -> list[Sent]:
        """Return the operator's successful writes to some objects, of those that name them."""
        keys = {life.key for life in lives}
        return [one for key in keys for one in self.writes_by_object.get(key, ()) if one.user == self.operator]

    @functools.cached_property
    def objects(self) -> int:
        """Number of objects that figures are related to: the largest count of a milestone, or of one resource."""
        return max(self.test.objects or 0, *(len(lives) for lives in self.lives.values()), 1)

    def still(self, at: int, seconds: float) -> bool:
        """Return whether no watched object changed in the seconds before a moment."""
        before = bisect.bisect_right(self._moments, at)
        last = next((at for at, _, event in reversed(self._events[:before]) if not event.initial), None)
        return last is None or at - last >= seconds * 1e9

    def changed_in(self, start: int, end: int) -> frozenset[Life]:
        """Return the objects that changed in a time, both ends included; see `is_news`."""
        first, last = bisect.bisect_left(self._moments, start), bisect.bisect_right(self._moments, end)
        return frozenset(life for _, life, event in self._events[first:last] if is_news(event))

    @functools.cached_property
    def _events(self) -> list[tuple[int, Life, ObjectSeen]]:
        """All events of all watched objects, in order, with their times."""
        found = ((event.at, life, event) for lives in self.lives.values() for life in lives for event in life.events)
        return sorted(found, key=itemgetter(0))

    @functools.cached_property
    def _moments(self) -> list[int]:
        return [at for at, _, _ in self._events]

    @functools.cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """Resource → what the objects in `lives` ever showed."""
        return {resource: Kind(lives) for resource, lives in self.lives.items()}

    def at_rest(self, window: Window) -> AtRest:
        """Return the objects that an idle window, or a time without progress, is judged by."""
        if window not in self._at_rest:
            changed = self.changed_in(window.start, window.end)
            pods = frozenset(pod for pod in self.lives.get("pods", ()) if _serves(pod, window.end))
            ready = frozenset(pod for pod in pods if pod.field(READY_PATH, window.end) == "True")
            stay = {of: [life for life in lives if life.stays(window.end)] for of, lives in self.lives.items()}
            unchanged = {of: [life for life in lives if life not in changed] for of, lives in stay.items()}
            self._at_rest[window] = AtRest(unchanged if changed else stay, changed, pods, ready)
        return self._at_rest[window]

    @functools.cached_property
    def _at_rest(self) -> dict[Window, AtRest]:
        return {}

    @functools.cached_property
    def workload_gone(self) -> bool:
        """Whether the harness deleted its workload at last, in a phase that passed, and none of it is left."""
        acts = [mark for mark in self.contents.marks if mark.label in WORKLOAD and mark.state == "end"]
        last = self.test.phases[-1] if self.test.phases else None
        asked = bool(acts) and acts[-1].label == "delete" and last is not None and last.outcome == "passed"
        return asked and not self.workload_stays

    @functools.cached_property
    def workload(self) -> frozenset[tuple[str, ObjectId]]:
        """The objects that the harness made, with their resources."""
        made = (one for one in self.all_requests if one.user == self.harness and one.created)
        return frozenset((one.resource, one.object) for one in made)

    @functools.cached_property
    def workload_stays(self) -> bool:
        """Whether an object that the harness made is there at the end."""
        return any(
            (resource, life.object) in self.workload and life.exists(self.end)
            for resource, lives in self.lives.items()
            for life in lives
        )

    @functools.cached_property
    def settled(self) -> bool:
        """Whether the operator had time to react after the workload was gone."""
        return self.workload_gone and any(mark.label == SETTLED for mark in self.contents.marks)


def _serves(pod: Life, at: int) -> bool:
    """Return whether a pod is there and has not done all of its work: one that has is not Ready, and need not be."""
    return pod.exists(at) and pod.field(PHASE, at) != "Succeeded"


def _by_uid(events: Sequence[ObjectSeen]) -> Sequence[Sequence[ObjectSeen]]:
    """Return the events of each object that had a name, in order."""
    if len({event.uid for event in events}) == 1:
        return [events]
    found: dict[str, list[ObjectSeen]] = defaultdict(list)
    for event in events:
        found[event.uid].append(event)
    return list(found.values())


def _to_each(writes: Sequence[Sent], in_turn: Sequence[Sequence[ObjectSeen]]) -> Iterator[Sequence[Sent]]:
    """Yield the writes to each object that had a name, of all that name it; each object's begin with its creation.

    In a test of many cycles a name has many lives, and each would be asked for the writes to all.
    """
    rest = writes
    for before, after in itertools.pairwise(in_turn):
        begun = after[0].at
        made = [at for at, one in enumerate(rest) if one.created and not one.subresource and one.received <= begun]
        # One that is not in the log, or that made the object before: the watch shows when the next one came.
        known = bool(made) and rest[made[-1]].received > before[0].at
        end = made[-1] if known else bisect.bisect_left(rest, begun, key=attrgetter("received"))
        yield rest[:end]
        rest = rest[end:]
    yield rest


def _unwatched(resource: str, object_id: ObjectId, at: int) -> Life:
    """Return an object of a kind that the recorder does not watch, as a node: nothing but its name is known."""
    namespace, name = object_id
    uid = f"{resource}/{name}"
    return Life(
        resource=resource,
        object=object_id,
        uid=uid,
        events=(ObjectSeen(at=at, watch="", change="added", name=name, namespace=namespace, uid=uid),),
        complete=False,
        begun=at,
        gone_at=None,
        marked_at=None,
        owner=None,
        owners=(),
        writes=(),
        updates=0,
        own_updates=0,
        made_by_operator=False,
        deleted_at=None,
    )
