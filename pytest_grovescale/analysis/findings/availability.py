"""Changes that take more pods away than they have to: all of an object's at once, twice, or failed ones that stay.

An update that deletes every pod before the first new one is Ready is an outage of each object, at any size; one
template that is written twice rolls everything twice, and one that has to do with the number of pods rolls all for each
that is to come or go. Kubernetes' own controllers go step by step
(https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment).

No false alarm: only pods that the operator itself deleted, or Kubernetes' controllers for what it wrote, all of an
object's within ten seconds, two Ready ones or more, of three objects or six pods, that as many followed, while the
object was not being deleted. It is a note: a group of pods may have to start together; a defect where it happens to an
object of several groups, and not to most of its kind. A template counts as written
twice, its creation included, within one generation of its owner, of three objects that no one else writes, where each
write changed it; of objects of the test's after one of its acts, which changed one object at most that the template
names; together with the number of pods where nothing else of the owner's spec had changed in ten seconds, nor the test
anything of another kind. Failed pods count after five seconds without one that took their place, on three objects or
one in ten of their kind.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from ...recording.records import ObjectSeen
from ..result import Finding
from .evidence import SHOWN_NS, Life, changed_paths, form, number_of, only_number
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "availability"

_LEAST, _PODS = 3, 6
"""Objects, or pods of fewer, from which on that all went is no coincidence."""
_READY = 2
_TEMPLATE = "spec.template"
_REPLICAS = "spec.replicas"
_TWICE = 2
_NEVER_RESTS = 5
"""Templates for one spec from which on no steps of a start explain them: its pods never come to rest."""
_TOGETHER_NS = 10_000_000_000
_USUAL = 0.8
"""Share of a kind from which on that all pods of an object go at once is meant."""
_FAILED_NS = 5_000_000_000
_SHARE = 0.1


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield objects that lost all pods at once, templates that were rolled twice, and failed pods that stay."""
    if not seen.operator or not seen.log_whole:
        return
    yield from _all_at_once(seen)
    yield from _rolled_twice(seen)
    yield from _rolled_for_a_number(seen)
    yield from _failed(seen)


def _all_at_once(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds that lost all Ready pods at once, to the operator or to Kubernetes' controllers.

    The latter follow what the operator wrote for the test's objects: a template with a strategy that takes all, or an
    object in another's place.
    """
    by_test = {one.object for one in seen.by_harness(seen.begin, seen.end) if one.what == "delete pods"}
    applied = {one.resource for one in seen.by_harness(seen.begin, seen.end) if one.created} & seen.status_written

    def own(life: Life) -> list[Life]:
        return [one for one in seen.children.get(life.uid, ()) if one.resource == "pods"]

    def further_below(life: Life) -> list[Life]:
        return [pod for pod in seen.pods_below.get(life.uid, ()) if pod.owner != life.uid]

    for resource, lives in sorted(seen.lives.items()):
        if resource == "pods":
            continue
        taken = _lost(seen, lives, own, lambda pod: bool(pod.deleted_at))
        went = resource in applied and _lost(
            seen, lives, further_below, lambda pod: not pod.deleted_at and pod.object not in by_test
        )
        groups = resource in applied and _lost(seen, lives, further_below, lambda pod: bool(pod.deleted_at))
        for lost, done, why, evidence in (
            (taken, "the operator took all Ready pods of {} away", "", "none of them was being deleted"),
            (
                groups,
                "the operator took all Ready pods of {} away",
                ", of all that they consist of",
                f"of {len(lives):,}; the others went on while a part of their pods was replaced",
            ),
            (
                went,
                "all Ready pods of {} went",
                ", since what the operator makes for them was replaced, or may lose all of its pods",
                "an update in steps: maxUnavailable of a Deployment, and the object itself kept",
            ),
        ):
            if lost and (len(lost) >= _LEAST or sum(pods for _, pods in lost) >= _PODS):
                yield Found(
                    id=ID,
                    # What happens to some of a kind alone is no design.
                    severity="defect" if lost is groups and len(lost) < _USUAL * len(lives) else "note",
                    about=About(aspect=Aspect.ACTION),
                    text=f"{done.format(number_of(len(lost), resource))} at once: for"
                    f" {median(seconds for seconds, _ in lost):.1f} s (median) none was Ready{why}",
                    evidence=(evidence,),
                )


def _lost(
    seen: Observed, lives: Sequence[Life], pods_of: Callable[[Life], Sequence[Life]], meant: Callable[[Life], bool]
) -> list[tuple[float, int]]:
    """Return for how long each object that lost all of its Ready pods had none, s, and how many they had been."""
    end = seen.workload_deleted or seen.end
    found: list[tuple[float, int]] = []
    for life in lives:
        until, pods = min(end, life.marked_at or end), pods_of(life)
        went = any((pod.leaves_at or until) < until and meant(pod) for pod in pods)
        if went and (lost := _without_ready(pods, until, meant)) is not None:
            found.append(lost)
    return found


def _without_ready(pods: Sequence[Life], end: int, meant: Callable[[Life], bool]) -> tuple[float, int] | None:
    """Return for how long none of some pods was Ready, s, after all of two or more went, and how many; None: never.

    ``meant``: whether it counts that a pod goes; it counts for none where it does not for one of them.
    """
    moments: list[tuple[int, int, Life]] = []
    for pod in pods:
        if pod.ready is not None and pod.ready.at < end:
            moments.append((pod.ready.at, 1, pod))
            if pod.leaves_at is not None and pod.leaves_at < end:
                moments.append((pod.leaves_at, -1, pod))
    number = most = 0
    lost: int | None = None
    for at, step, _ in sorted(moments, key=lambda one: one[:2]):
        number += step
        most = max(most, number)
        if lost is not None and number >= _READY:
            return (at - lost) / 1e9, most
        if number == 0 and step < 0 and most >= _READY:
            went = [one for moment, down, one in moments if down < 0 and at - _TOGETHER_NS < moment <= at]
            lost = at if len(went) >= most and all(map(meant, went)) else None
    return None


def _rolled_twice(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose template the operator wrote twice for one change of their owner."""
    for resource in sorted(seen.lives):
        twice: list[tuple[int, Life]] = []
        again: Counter[str] = Counter()
        own = True
        for life, events in seen.kinds[resource].changed(_TEMPLATE):
            owner = seen.only_maker_for(life)
            if owner is None:
                if (most := _for_one_change(seen, life, events)) >= _TWICE:
                    own = False
                    twice.append((most, life))
                    again.update(path for event in events for path in changed_paths(event, _TEMPLATE))
                continue
            generations: Counter[str | int] = Counter()
            for event in events:
                if event is not life.events[0]:
                    # The first template is that of its creation, until the test changes anything.
                    first = not generations and not _between(seen.workload_changes, life.begun, event.at)
                    generation = owner.generation_by(event)
                    if first or generations[generation]:
                        again.update(changed_paths(event, _TEMPLATE))
                    generations[generation] += 1 + first
            if generations and (most := max(generations.values())) >= _TWICE:
                twice.append((most, life))
        if len(twice) >= _LEAST:
            lives_of = [life for _, life in twice]
            times = median(number for number, _ in twice)
            yield Found(
                id=ID,
                severity="defect" if times >= _NEVER_RESTS else "waste",
                # Never what it should be, for long: nearer to the cause than writes without effect in between.
                about=About(aspect=Aspect.STATE, requests=seen.own_writes(lives_of)),
                text=f"the operator changed the pod template of {len(twice):,} {resource}"
                f" {times:,.0f} times (median) for one {'spec of their owners' if own else 'change'}: each rolls all of"
                " their pods",
                evidence=(
                    ", ".join(life.name for _, life in twice[:_LEAST]),
                    f"what changed once more: {', '.join(path for path, _ in again.most_common(_LEAST))}",
                ),
            )


def _for_one_change(seen: Observed, life: Life, events: Sequence[ObjectSeen]) -> int:
    """Return how often the operator changed the template of an object that it had not made, for one of the test's acts.

    Where one act changes several objects that the template names, each of them may have asked for it: 1 then.
    """
    if life.made_by_operator:
        return 0
    acts = seen.workload_changes
    often: Counter[int] = Counter()
    for event in events:
        wrote = {one.user for one in life.writes if one.received <= event.at <= one.completed + SHOWN_NS}
        if event is not life.events[0] and wrote == {seen.operator}:
            often[bisect.bisect_right(acts, event.at)] += 1
    act, most = max(often.items(), key=lambda one: one[1], default=(0, 0))
    if not act:
        return 0
    until = acts[act] if act < len(acts) else seen.end
    named = {(kind, (life.namespace, name)) for kind, _, name in (one.partition("/") for one in life.events[0].needs)}
    asked = {(one.resource, one.object) for one in seen.by_harness(acts[act - 1], until)}
    return 1 if len(asked & named) > 1 else most


def _rolled_for_a_number(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose template the operator changed together with their number of pods, where only that was."""
    rolled: dict[tuple[str, str, str], list[tuple[Life, str]]] = defaultdict(list)
    for resource in sorted(seen.lives):
        for life, events in seen.kinds[resource].changed(_TEMPLATE):
            owner = seen.only_maker_for(life)
            if owner is None:
                continue
            for event in events:
                specs = [one for one in owner.events[1:] if one.at <= event.at and changed_paths(one, "spec")]
                number = only_number(specs[-1]) if specs and event is not life.events[0] else None
                if number is None:
                    continue
                since = specs[-1].at
                before = [one.at for one in specs[:-1] if one.at > since - _TOGETHER_NS]
                others = [one for one in seen.by_harness(since, event.at) if one.resource != owner.resource]
                scaled = any(_REPLICAS in changed_paths(one, _REPLICAS) for one in life.between(since, event.at + 1))
                if scaled and not before and not others:
                    path = changed_paths(event, _TEMPLATE)[0]
                    rolled[owner.resource, number[0], resource].append((life, path))
                    break
    for (of, path, resource), found in rolled.items():
        if len(found) >= _LEAST:
            lives_of = [life for life, _ in found]
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.ACTION, requests=seen.own_writes(lives_of)),
                text=f"a change of {path} alone, of {of}, had the operator change the pod template of {len(found):,}"
                f" {resource} too: scaling replaces all of their pods",
                evidence=(f"{found[0][1]} of {found[0][0].name}",),
            )


def _between(times: Sequence[int], start: int, end: int) -> bool:
    return bisect.bisect_right(times, start) < bisect.bisect_left(times, end)


def _failed(seen: Observed) -> Iterator[Finding]:
    """Yield pods that failed and were neither deleted nor replaced, while their owner stayed."""
    end = (seen.workload_deleted or seen.end) - 1
    left: dict[str, list[Life]] = defaultdict(list)
    for pod in seen.lives.get("pods", ()):
        failed = next((event.at for event in pod.events if event.fields.get("status.phase") == "Failed"), None)
        owner = seen.known.get(pod.owner or "") if failed is not None else None
        if failed is None or owner is None or failed + _FAILED_NS > end or not pod.made_by_operator:
            continue
        others = [one for one in seen.children[owner.uid] if one.resource == "pods"]
        replaced = any(failed <= other.begun for other in others)
        if pod.stays(end) and not owner.deleting(end) and not replaced:
            left[owner.resource].append(pod)
    owners = (seen.known.get(pod.owner or "") for pod in seen.lives["pods"]) if left else ()
    number = Counter(owner.resource for owner in owners if owner is not None)
    for resource, pods in left.items():
        if len(pods) >= min(_LEAST, max(1, round(_SHARE * number[resource]))):
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.STATE, objects={pod.key for pod in pods}, field="status.phase"),
                text=f"{number_of(len(pods), 'pods')} of {resource} failed, and the operator neither deleted nor"
                f" replaced {form(len(pods), 'it', 'them')}:"
                f" {pods[0].name} for instance",
            )
