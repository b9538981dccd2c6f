"""Objects that are made or written once more although they could have stayed as they were.

Part of the rule `churn`. No false alarm: a change of a number counts where the children before were as many, or a
multiple, and nothing else of the spec changed with it. Contents that are written again count three times within one
generation of their owner, of three objects that no one else writes; those of other kinds than Secrets only where no
other object of the owner had changed in the second before. What is replaced beside a change counts where the harness
had written nothing of its family since it was made, whose spec stayed, nor anything but others of their kind in the ten
seconds before; not what ended, ceased to be Ready, or followed a restart. What is made again under its name counts of
kinds that an update would have changed, three objects, where the harness wrote nothing in between. Work that was done
is done again where a Job, or a pod, that had succeeded was made again under its name within five seconds after it went,
twice and more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from statistics import median

from ...recording.conditions import READY_PATH
from ...recording.records import ObjectSeen
from ..result import Finding
from .evidence import BUDGETS, PHASE, WANTED, Life, changed_paths, condition, only_number, shown
from .grouping import About, Aspect, Found
from .observed import AGAIN, Observed

ID = "churn"

_LEAST = 5
_SHOWN = 3
MOMENTS_NS = 5_000_000_000
"""Objects that their maker deletes within that time of which few show that it decides on a cache that is behind."""
_TRIED_AGAIN_NS = 30_000_000_000
"""Time within which an operator makes an object again under its name, after an error as well, ns."""
_JOB_DONE = condition("Complete")
_LEAST_REWRITTEN = 3
_CAUSE_NS = 1_000_000_000
_BEFORE_NS = 10_000_000_000
"""Time before a replacement in which what the harness did may be why, ns."""
_UPDATED = frozenset(
    {"configmaps", "secrets", "services", "serviceaccounts", "roles.rbac.authorization.k8s.io", BUDGETS}
    | {"horizontalpodautoscalers.autoscaling", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io"}
    | {"deployments.apps", "daemonsets.apps"}
)
"""Kinds of which an update changes nearly everything; of others, as StatefulSets with their claims, an operator may
have to make new ones."""


def replacements(seen: Observed) -> Iterator[Finding]:
    """Yield what was replaced, made again or written again without need."""
    yield from _replaced_for_a_number(seen)
    yield from _rewritten(seen)
    yield from _replaced_beside(seen)
    yield from _made_again(seen)
    yield from _done_again(seen)


def in_one_step(seen: Observed, life: Life) -> bool:
    """Return whether an object came and went between two changes of the workload by the harness."""
    gone, deleted = life.gone_at, seen.workload_deleted
    if gone is None or gone >= seen.end or (deleted is not None and gone >= deleted):
        return False
    return bisect_right(seen.workload_changes, life.begun) == bisect_right(seen.workload_changes, gone)


def names(lives: list[Life]) -> str:
    """Return which objects these are: the one that is there most often, or the first of them."""
    often, number = Counter(life.object for life in lives).most_common(1)[0]
    if number > 1:
        return f"{shown(often)}: {number:,} times"
    named = ", ".join(shown(life.object) for life in lives[:_SHOWN])
    return named + (f" and {len(lives) - _SHOWN:,} more" if len(lives) > _SHOWN else "")


def _replaced_for_a_number(seen: Observed) -> Iterator[Finding]:
    """Yield numbers of children in a spec whose change had children replaced that could have stayed."""
    replaced: dict[tuple[str, str, int, int, str], list[tuple[int, int]]] = defaultdict(list)
    changed = {(one.resource, one.object) for one in seen.by_harness(seen.begin, seen.end) if one.verb != "create"}
    for resource in sorted({resource for resource, _ in changed} & set(seen.lives)):
        for owner in (life for life in seen.lives[resource] if life.key in changed):
            rollouts = [one.at for one in owner.events[1:] if changed_paths(one, "spec") and only_number(one) is None]
            for event in owner.events:
                if (number := only_number(event)) is None:
                    continue
                path, after = number
                before = owner.numbers(event.at - 1).get(path)
                if not isinstance(before, int) or before < 1 or before == after:
                    continue
                end = _next_step(seen, event.at)
                there: dict[str, list[Life]] = defaultdict(list)
                for child in seen.below(owner):
                    if child.stays(event.at):
                        there[child.resource].append(child)
                for kind, those in there.items():
                    left = [one for one in those if not one.exists(end) or one.deleting(end)]
                    each, rest = divmod(len(those), before)
                    surplus = sum(one.ended_at is None for one in left) - max(0, before - after) * each
                    # A rollout that was going on goes on; children that were made with their owner are none.
                    rolling = any(event.at - _BEFORE_NS < at < event.at for at in rollouts)
                    moved = any(_moved(one, event.at, rolling) for one in seen.below(owner) if one.resource == kind)
                    began = max((at for at in rollouts if at < event.at), default=owner.begun)
                    moved = moved or len({one.begun < began for one in those}) > 1  # half of them are new
                    if not rest and not moved:
                        replaced[resource, path, before, after, kind].append((max(0, surplus), len(those)))
    sums = {change: [sum(column) for column in zip(*counts, strict=True)] for change, counts in replaced.items()}
    found = {change: those for change, those in sums.items() if those[0] >= max(_LEAST, those[1] / _LEAST)}
    for change, (total, there_were) in found.items():
        resource, path, before, after, kind = change
        # Pods go with the object that they belong to.
        above = {of.resource for one in seen.lives[kind] if (of := seen.known.get(one.owner or "")) is not None}
        if any((resource, path, before, after, other) in found for other in above):
            continue
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION),
            text=f"a change of {path} from {before:,} to {after:,} in {len(replaced[change]):,} {resource} had"
            f" {total:,} of {there_were:,} {kind} replaced that could have stayed",
            check=f'api_requests(phase=…, verb="delete", resource="{kind}", max=…)',
        )


def _moved(life: Life, at: int, rolling: bool) -> bool:
    """Return whether an object went shortly before a moment; ``rolling``: or came, as what is new in a rollout."""
    moments = (life.marked_at, life.gone_at, *([life.begun] if rolling else []))
    return any(moment is not None and at - MOMENTS_NS < moment <= at for moment in moments)


def _next_step(seen: Observed, at: int) -> int:
    """Return when the harness next changed the workload after a moment, or a phase began."""
    steps = seen.workload_changes
    after = bisect_right(steps, at)
    return min(seen.end, steps[after] if after < len(steps) else seen.end) - 1


def _replaced_beside(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose objects were replaced although nothing of what they belong to had changed."""
    replaced: dict[tuple[str, str], list[tuple[Life, Life, bool]]] = defaultdict(list)
    touched: dict[str, list[int]] = {}
    for lives in seen.lives.values():
        for life in lives:
            at = _deleted_for_another(seen, life)
            if at is None or in_one_step(seen, life) or life.ended_at is not None or _lost_ready(life, at):
                continue
            root = seen.line(life)[-1]
            if root is life or not life.made_by_operator:
                continue
            if root.uid not in touched:
                touched[root.uid] = _touched_at(seen, root)
            news = [*touched[root.uid], *(one.at for one in root.events[1:] if "metadata.generation" in one.numbers)]
            acts = [one for one in seen.by_harness(at - _BEFORE_NS, at) if one.category == "object"]
            if any(life.begun <= when <= at for when in news) or any(one.resource != root.resource for one in acts):
                continue
            if not seen.was_absent(at - _BEFORE_NS, at):
                replaced[life.resource, root.resource].append((life, root, bool(acts)))
    for (resource, of), found in sorted(replaced.items()):
        if len(found) < _LEAST:
            continue
        roots = {root.uid: root for _, root, _ in found}
        beside = sum(acts for _, _, acts in found) > len(found) / 2
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.ACTION, requests=seen.own_writes(life for life, _, _ in found)),
            text=f"the operator replaced {len(found):,} {resource} of {len(roots):,} {of} of which nothing had changed,"
            + (f" when the test changed other {of}" if beside else " while the test changed nothing"),
            evidence=(f"{shown(found[0][0].object)} of {shown(found[0][1].object)}",),
            check=f'api_requests(phase=…, verb="delete", resource="{resource}", max=0)',
        )


def _deleted_for_another(seen: Observed, life: Life, within: int = MOMENTS_NS) -> int | None:
    """Return when the operator deleted an object in whose place it made another one, while their owner stayed.

    ``within``: how soon after it was gone, ns.
    """
    at, gone = life.deleted_at, life.gone_at
    if at is None or gone is None or not life.begun < at < gone + _CAUSE_NS:
        return None
    if at > (seen.workload_deleted or seen.end):
        return None
    owner = seen.known.get(life.owner or "")
    if owner is None or any(one.deleting(at + within) for one in seen.line(owner)):
        return None
    like = (one for one in seen.children.get(owner.uid, ()) if one.resource == life.resource and one is not life)
    return at if any(at - _CAUSE_NS < one.begun < gone + within for one in like) else None


def _lost_ready(life: Life, at: int) -> bool:
    """Return whether a pod had been Ready and was not any more."""
    return life.ready is not None and life.ready.at < at and life.field(READY_PATH, at - 1) != "True"


def _touched_at(seen: Observed, root: Life) -> list[int]:
    """Return when the harness wrote an object or what is below it, its creation left out."""
    keys = {one.key for one in [root, *seen.below(root)]}
    writes = (one for key in keys for one in seen.writes_by_object.get(key, ()))
    return [one.completed for one in writes if one.user == seen.harness and not one.created]


def _made_again(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose objects the operator deleted and made again under their name, where an update would do."""
    for resource in sorted(_UPDATED & set(seen.lives)):
        again: list[Life] = []
        for life in seen.lives[resource]:
            gone, at = life.gone_at, _deleted_for_another(seen, life, _TRIED_AGAIN_NS)
            if gone is None or at is None or in_one_step(seen, life):
                continue
            after = (one for one in seen.of_name[life.key] if gone - _CAUSE_NS < one.begun < gone + _TRIED_AGAIN_NS)
            # What the test wanted gone and then back is another matter.
            touched = _touched_at(seen, seen.line(life)[-1])
            after = (one for one in after if not any(at < moment < one.begun for moment in touched))
            if any(one.owner == life.owner and one.made_by_operator for one in after if one is not life):
                again.append(life)
        if len(again) >= _LEAST_REWRITTEN:
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.ACTION, requests=seen.own_writes(again)),
                text=f"the operator deleted {len(again):,} {resource} and made them again under the same names, where"
                " an update would do: in between they are not there",
                evidence=(names(again),),
                check=f'api_requests(phase=…, verb="delete", resource="{resource}", max=0)',
            )


def _done_again(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose work was done, was deleted, and was made again, over and over."""
    for resource in sorted({"jobs.batch", "pods"} & set(seen.lives)):
        again = [
            life
            for life in seen.lives[resource]
            if life.made_by_operator and (gone := life.gone_at) is not None and _succeeded(life)
            if in_one_step(seen, life)
            if any(gone <= one.begun < gone + MOMENTS_NS for one in seen.of_name[life.key] if one is not life)
        ]
        of_name = Counter(life.object for life in again)
        often = {of: number + 1 for of, number in of_name.items() if number + 1 >= AGAIN}
        if often and sum(often.values()) >= _LEAST:
            most = max(often, key=lambda of: often[of])
            times = [life.begun for life in seen.of_name[resource, most]]
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.ACTION, requests=seen.own_writes(again)),
                text=f"the operator made {len(often):,} {resource} {sum(often.values()):,} times: each was done, was"
                " deleted, and was made again under its name: what was done once has to stay known, as in the status",
                evidence=(f"{shown(most)}: {often[most]:,} times in {(times[-1] - times[0]) / 1e9:,.0f} s",),
                check=f'api_requests(phase=…, verb="create", resource="{resource}", max=…)',
            )


def _succeeded(life: Life) -> bool:
    done = any(event.fields.get(PHASE) == "Succeeded" for event in life.events)
    return done or any(event.numbers.get(_JOB_DONE) == "True" for event in life.events)


def _rewritten(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose contents the operator wrote again and again, while their owners stayed."""
    for resource in sorted(seen.lives):
        often: list[tuple[int, str, Life]] = []
        back = 0
        for life, events in seen.kinds[resource].changed(WANTED):
            changes = [event for event in events if event is not life.events[0]]
            owner = seen.only_maker_for(life) if len(changes) >= _LEAST_REWRITTEN else None
            if owner is None:
                continue
            paths: Counter[str] = Counter()
            generations: Counter[str | int] = Counter()
            for event in changes:
                # What changed nothing but the order of a list is another rule's: `wasted-writes`.
                if event.difference is not None and event.difference.kind == "order":
                    continue
                if resource == "secrets" or not _has_cause(seen, event, life, owner):
                    wanted = changed_paths(event, WANTED)
                    paths.update(wanted)
                    generations[owner.generation_by(event)] += 1
            if generations and (most := max(generations.values())) >= _LEAST_REWRITTEN:
                path = paths.most_common(1)[0][0]
                often.append((most, path, life))
                returns = sum(event.difference is not None and path in event.difference.back for event in changes)
                back += returns >= paths[path] / 2
        if len(often) >= _LEAST_REWRITTEN:
            path = Counter(path for _, path, _ in often).most_common(1)[0][0]
            yield Found(
                id=ID,
                severity="defect" if resource == "secrets" else "waste",
                about=About(aspect=Aspect.ACTION, requests=seen.own_writes(life for _, _, life in often)),
                text=f"the operator changed {path} of {len(often):,} {resource} that it had made"
                f" {median(number for number, _, _ in often):,.0f} times each (median), while the spec of their owners"
                " stayed: "
                + (
                    "back to the value before, and again: two of its controllers, or replicas, write it in turn"
                    if back > len(often) / 2
                    else "it makes new ones at each reconcile"
                ),
                evidence=(names([life for _, _, life in often]),),
                check="noop_writes(max=0)",
            )


def _has_cause(seen: Observed, event: ObjectSeen, life: Life, owner: Life) -> bool:
    """Return whether another object of the owner changed shortly before an event."""
    others = (one for one in seen.below(owner) if one is not life)
    return any(one.changed_in(event.at - _CAUSE_NS, event.at) for one in others)
