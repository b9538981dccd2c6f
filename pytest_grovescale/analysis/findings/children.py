"""Objects whose children, or whose numbers of them, are not as those of their like, while nothing changes.

What happens to one of thirty is what a user reports and no test repeats: an event that came while a cache was behind,
a name that two owners compute alike, a count that two workers write at the same time. All objects of a workload are
made from one template, so that the many say what the few lack.

No false alarm: only at the end of two idle seconds or more, or of a phase that made no progress; of objects that are
not being deleted and, as their children, have not changed in that time; and only children that the operator made. A
number counts as that of the children where it has their name (``status.pods``, of three owners or more), where it is
for four of five owners, five or more, or where it was for all at another such time, of three children or more; not
where each owner has as many of them, one or two, or where it is the number of something else below the owner. A number
of children without such a field has to be the same for four of five, and what has none, where the others have some, is
a defect. At rest, one that has none is left out where its status says that it failed, or that it is not as they are and
its spec is another. Other differences are a note: a workload may be of two sizes; but where two owners or more have
more than others, under names that the API server has drawn, made within three seconds for one spec that has no such
number, and with a write to the owner in between, they were made twice. Children of one name are parts of one thing
where they were made within five seconds; what stays of it counts of three, three seconds after the operator deleted the
other, which it did not make again, and while the owner stays. One selector of many counts of three owners in one
namespace that have pods of their own and are there at the same time. A label that no pod had counts for Services and
NetworkPolicies of an owner with a pod that was Ready for three seconds beside them, in a namespace of which a watch
showed each pod; a value of a label that pods have is a note where another Service of the owner selects some.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from statistics import median
from typing import NamedTuple

from ...recording.object_references import MANY
from ...recording.records import OBJECTS
from ..result import Finding
from .evidence import BUDGETS, Life, ObjectId, Window, form, number_of, shown
from .grouping import About, Aspect, Found
from .observed import Observed

ID = "children"

_LEAST = 5
_MOST = 0.8
_FEW_OWNERS = 3
"""Children of one owner from which on a number that equals theirs does not by chance."""
_SHOWN = 3
_BUDGET = ("expectedPods", "currentHealthy", "disruptionsAllowed")
_OBSERVED = "status.observedGeneration"
_GENERATION = "metadata.generation"
_FEW = 2
_DRAWN = re.compile("-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""End of a name that the API server has drawn (`k8s.io/apimachinery/pkg/util/rand`)."""
_FAILED = re.compile("fail|error|invalid|reject|refused|denied|unsupported", re.IGNORECASE)
_BEHIND_S = 3.0
"""Time for which an operator's cache may be behind what it made, s."""
_SELECTING = ("services", "networkpolicies.networking.k8s.io")
_NONE: Set[str] = frozenset()
_TOGETHER_NS = 5_000_000_000
_LATER_NS = 3_000_000_000
"""Time within which children are made together, and after which one that was to go as well is left, ns."""


class _Family(NamedTuple):
    """Owners of one kind at the end of a window, with the number of their children of one kind."""

    window: Window
    owners: str
    kind: str
    counts: Sequence[tuple[Life, int]]


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for each kind of children of which some owners have another number, and each wrong number."""
    if not seen.operator:
        return
    yield from _parts_left(seen)
    yield from _select_nothing(seen)
    yield from _select_alike(seen)
    yield from _budgets(seen)
    families = [one for window in [*seen.idle_windows, *seen.stalls] for one in _families(seen, window)]
    by_kind: dict[tuple[str, str], list[_Family]] = defaultdict(list)
    for one in families:
        by_kind[one.owners, one.kind].append(one)
    for _, found in sorted(by_kind.items()):
        wrong = list(_wrong_numbers(seen, found))
        yield from wrong
        if not wrong:
            yield from _odd_ones(seen, found)


def _parts_left(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds whose objects stayed when the operator deleted what it had made with them under one name."""
    left: dict[tuple[str, str], list[Life]] = defaultdict(list)
    deleted = {life.owner for life in seen.known.values() if life.deleted_at}
    for owner, children in seen.children.items() if deleted else ():
        if owner in deleted and (parent := seen.known.get(owner)) is not None:
            for child, other in _left_parts(seen, parent, children):
                left[child.resource, other.resource].append(other)
    for (gone, resource), found in left.items():
        if len(found) >= _FEW_OWNERS:
            yield Found(
                id=ID,
                severity="waste",
                about=About(aspect=Aspect.STATE, objects={life.key for life in found}),
                text=f"the operator deleted {gone} and left {len(found):,} {resource} that are named after them, and"
                f" that it had made with them: {found[0].name} for instance",
                evidence=("their owner was not being deleted, and they were still there when it was",),
                check=f'phase.milestone(…, conditions.count("{resource}", …))',
            )


def _left_parts(seen: Observed, parent: Life, children: Sequence[Life]) -> Iterator[tuple[Life, Life]]:
    """Yield (child, other) for each child that the operator deleted and another of its name that stayed."""
    own = [child for child in children if child.made_by_operator]
    lives = Counter((child.resource, child.object) for child in own)
    until = parent.stays_until(seen.end)
    stayed = [other for other in own if other.stays(until) and other.deleted_at is None]
    for child in own:
        at = child.deleted_at
        if at is None or parent.deleting(at) or until - at < _LATER_NS or lives[child.resource, child.object] > 1:
            continue
        for other in stayed:
            together = _is_part(child, other, parent) and abs(other.begun - child.begun) < _TOGETHER_NS
            if together and other.resource != child.resource:
                yield child, other


def _is_part(child: Life, other: Life, owner: Life) -> bool:
    """Return whether an object is named for another one: alike, or with each word of it that is not its owner's."""
    if child.object == other.object:
        return True
    owners = owner.name.split("-")
    words, others = ([word for word in one.name.split("-") if word not in owners] for one in (child, other))
    return child.namespace == other.namespace and bool(words) and set(words) < set(others)


def _select_nothing(seen: Observed) -> Iterator[Finding]:
    """Yield the Services and NetworkPolicies that want a label which no pod of their namespace ever had."""
    labels = _labels_of_pods(seen)
    groups: dict[tuple[str, str, tuple[str, ...]], dict[Life, Sequence[Life]]] = defaultdict(dict)
    met: set[str] = set()
    for life in (life for kind in _SELECTING for life in seen.lives.get(kind, ()) if life.made_by_operator):
        selector, had = _selector(life), labels.get(life.namespace)
        if not selector or not had or not seen.shows_all("pods", life.namespace, life.begun):
            continue
        unmet = [name for name, value in selector.items() if not had.get(name, _NONE) & {value, MANY}]
        owner = life.owner or ""
        if not unmet:
            met.add(owner)
        elif pods := [pod for pod in seen.pods_below.get(owner, ()) if _is_ready_beside(seen, pod, life)]:
            groups[life.resource, seen.known[owner].resource, tuple(sorted(unmet))][life] = pods
    for (resource, of, missing), found in sorted(groups.items(), key=lambda group: group[0]):
        first = min(found, key=lambda life: life.begun)
        had, selector, several = labels[first.namespace], _selector(first), len(found)
        # A part of the application that this workload has not may have no pod: its Service, too, has that label.
        unknown = [name for name in missing if name not in had]
        wants = " and ".join(f"{name}={selector[name]}" for name in missing)
        values = ", ".join(sorted(had.get(missing[0], _NONE))[:_SHOWN])
        yield Found(
            id=ID,
            severity="defect" if unknown or not any(life.owner in met for life in found) else "note",
            about=About(aspect=Aspect.STATE, objects={life.key for life in found}, field="spec.selector"),
            text=f"{number_of(several, resource)} of {of} {form(several, 'selects', 'select')} no pod: none ever had"
            f" {wants}, although {len({pod.uid for pods in found.values() for pod in pods}):,} pods of the same owners"
            " were Ready",
            evidence=(
                shown(first.object),
                f"pods have {missing[0]}={values}" if values else f"no pod has a label {missing[0]}",
            ),
        )


def _selector(life: Life) -> Mapping[str, str]:
    return next((event.selector for event in life.events if event.selector), {})


def _labels_of_pods(seen: Observed) -> Mapping[str, Mapping[str, Set[str]]]:
    """Return namespace → label → the values that any pod ever had."""
    found: dict[str, dict[str, set[str]]] = defaultdict(dict)
    if any(one.source == OBJECTS for one in seen.contents.failures):
        return found
    for pod in seen.lives.get("pods", ()):
        for event in pod.events:
            for name, value in event.labels.items():
                found[pod.namespace].setdefault(name, set()).add(value)
    return found


def _is_ready_beside(seen: Observed, pod: Life, life: Life) -> bool:
    """Return whether a pod had been Ready for seconds while another object existed."""
    until = min(one.gone_at or seen.end for one in (pod, life))
    return pod.ready is not None and max(pod.ready.at, life.begun) + _LATER_NS < until


def _select_alike(seen: Observed) -> Iterator[Finding]:
    """Yield the kinds of which several owners with pods of their own have one each, all with the same selector."""
    alike: dict[tuple[str, str, str], dict[ObjectId, Life]] = defaultdict(dict)
    for resource, lives in sorted(seen.lives.items()):
        for life in lives:
            owner = seen.known.get(life.owner or "")
            selects = life.events[0].selects
            if selects and life.made_by_operator and owner is not None and seen.pods_below.get(owner.uid):
                alike[resource, life.namespace, selects][owner.object] = life
    kinds: dict[tuple[str, str], list[list[Life]]] = defaultdict(list)
    for (resource, _, _), of_owners in alike.items():
        # What went before others came, as in cycles, selected nothing of theirs.
        last = max(life.begun for life in of_owners.values())
        found = [life for life in of_owners.values() if life.exists(last)]
        if len(found) >= _FEW_OWNERS:
            owners = {seen.known[life.owner].resource for life in found if life.owner}
            kinds[resource, " and ".join(sorted(owners))].append(found)
    for (resource, of), groups in kinds.items():
        lives = [life for found in groups for life in found]
        one = "one and the same selector" if len(groups) == 1 else f"{len(groups):,} selectors between them"
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.STATE, objects={life.key for life in lives}, field="spec.selector"),
            text=f"{len(lives):,} {resource} of {of} have {one}: each selects the pods of all of them, not those of"
            " its owner",
            evidence=tuple(", ".join(life.name for life in found[:_SHOWN]) for found in groups[:_SHOWN]),
        )


def _budgets(seen: Observed) -> Iterator[Finding]:
    """Yield PodDisruptionBudgets that count no pod although their owners have some, or that allow no eviction."""
    if not seen.idle_windows:
        return
    window = seen.idle_windows[0]
    none: list[Life] = []
    closed: list[tuple[Life, int]] = []
    for life in seen.lives.get(BUDGETS, ()):
        owner = seen.known.get(life.owner or "")
        if owner is None or not life.made_by_operator or not life.exists(window.start):
            continue
        numbers = life.numbers(window.end)
        expected, healthy, allowed = (numbers.get(f"status.{name}") for name in _BUDGET)
        if expected == 0 and any(pod.exists(window.start) for pod in seen.pods_below.get(owner.uid, ())):
            none.append(life)
        elif isinstance(expected, int) and 0 < expected == healthy and allowed == 0:
            closed.append((life, expected))
    if len(none) >= _FEW_OWNERS:
        yield Found(
            id=ID,
            severity="defect",
            about=About(aspect=Aspect.STATE, objects={life.key for life in none}, field="spec.selector"),
            text=f"{len(none):,} {BUDGETS} select no pod, although their owners have some",
            evidence=(", ".join(life.name for life in none[:_SHOWN]),),
        )
    if len(closed) >= _FEW_OWNERS:
        several = sum(pods > 1 for _, pods in closed)
        yield Found(
            id=ID,
            severity="waste" if several >= _FEW_OWNERS else "note",
            about=About(aspect=Aspect.STATE, objects={life.key for life, _ in closed}, field="spec"),
            text=f"{len(closed):,} {BUDGETS} allow no eviction although all of their pods are healthy: a drain of a"
            " node waits for ever",
            evidence=(", ".join(life.name for life, _ in closed[:_SHOWN]),),
        )


def _families(seen: Observed, window: Window) -> Iterator[_Family]:
    rest = seen.at_rest(window)
    for resource, owners in sorted(rest.lives.items()):
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        """Kind → owner's UID → its children of that kind."""
        unsettled: set[str] = set()
        for life in owners:
            for child in seen.children.get(life.uid, ()):
                if child.made_by_operator and child.stays(window.end):
                    of = counts[child.resource]
                    of[life.uid] = of.get(life.uid, 0) + 1
                of_unknown = not child.made_by_operator and not child.complete
                if child in rest.changed or of_unknown:
                    unsettled.add(child.resource)
        for kind in sorted(counts.keys() - unsettled - seen.piling_up):
            having = [life for life in owners if life.uid in counts[kind]]
            lacking = [life for life in owners if life.uid not in counts[kind]]
            if window in seen.idle_windows:
                lacking = [life for life in lacking if not _says_so(life, having, window.end)]
            yield _Family(window, resource, kind, [(life, counts[kind].get(life.uid, 0)) for life in having + lacking])


def _says_so(life: Life, others: Sequence[Life], at: int) -> bool:
    """Return whether an object's status says that it failed, or is not as the others where its spec is not.

    Of a spec that it cannot follow an operator makes nothing: a phase of failure, or a condition as False that is True
    for all others.
    """
    said, theirs = life.numbers(at), [other.numbers(at) for other in others]
    differs = any(
        path.startswith("spec.") and all(one.get(path) != number for one in theirs) for path, number in said.items()
    )
    return bool(_FAILED.search(str(said.get("status.phase", "")))) or any(
        differs and path.startswith("status.") and value == "False" and all(one.get(path) == "True" for one in theirs)
        for path, value in said.items()
    )


def _is_of_others(seen: Observed, window: Window, row: tuple[Life, int, int]) -> bool:
    """Return whether a number that is not that of some children may have to do with others: what is below the owner.

    Of one or two children, that it equals it for most owners says nothing.
    """
    life, count, number = row
    below = Counter(one.resource for one in seen.below(life) if one.exists(window.end))
    return count < _FEW_OWNERS or number in below.values()


def _wrong_numbers(seen: Observed, found: Sequence[_Family]) -> Iterator[Finding]:
    """Yield each field that is the number of children for most owners, or was for all, and is not for some."""
    at_rest = [(one, _fields(one)) for one in found]
    right_once = {
        path
        for one, fields in at_rest
        for path, numbers in fields.items()
        if _is_right(numbers, one) and max(count for _, count, _ in numbers) >= _FEW_OWNERS
    }
    # What most owners had otherwise at another rest is no figure of theirs.
    by_chance = {
        (one.owners, one.kind, path)
        for one, fields in at_rest
        for path, numbers in fields.items()
        if len(numbers) >= _LEAST and sum(count == number for _, count, number in numbers) <= len(numbers) / 2
    }
    reported: set[str] = set()
    for one, fields in at_rest:
        # Of several in a spec one says how many there are to be; another is the same number by chance.
        says = any(_is_right(fields.get(path, ()), one) for path in right_once if path.startswith("spec."))
        alike: dict[tuple[tuple[str, int, int], ...], list[str]] = defaultdict(list)
        for path, numbers in sorted(fields.items()):
            if path.startswith("spec.") and not says:
                alike[tuple((life.uid, count, number) for life, count, number in numbers)].append(path)
        wrongs: dict[tuple[tuple[str, int, int], ...], list[tuple[str, int]]] = defaultdict(list)
        """Owner's UID, its children and the field, of those that differ → the fields that do, and for how many not."""
        for path, numbers in sorted(fields.items()):
            if says and path.startswith("spec."):
                continue
            right = [count for _, count, number in numbers if count == number]
            named = path.startswith("status.") and path.removeprefix("status.").lower() == one.kind.partition(".")[0]
            named = named and len(numbers) >= _FEW_OWNERS
            usual = len(numbers) >= _LEAST and len(right) >= _MOST * len(numbers)
            usual = usual and (one.owners, one.kind, path) not in by_chance
            # Where each has as many as all others, as one Role, that is no figure of any field.
            fixed = set(right) if len(set(right)) == 1 and not named and path not in right_once else set()
            wrong = [
                row
                for row in numbers
                if row[1] != row[2] and not (row[1] in fixed and _is_of_others(seen, one.window, row))
            ]
            if not wrong or path in reported or not (usual or named or path in right_once):
                continue
            same = alike.get(tuple((life.uid, count, number) for life, count, number in numbers), [path])
            reported.update(same)
            wrongs[tuple((life.uid, count, number) for life, count, number in wrong)].append(
                (" or ".join(same) if path.startswith("spec.") else path, len(right))
            )
        yield from (_wrong_number(seen, one, rows, paths) for rows, paths in wrongs.items())


def _wrong_number(
    seen: Observed, family: _Family, rows: Sequence[tuple[str, int, int]], paths: Sequence[tuple[str, int]]
) -> Finding:
    """Return that some owners' fields are not the number of their children, which they are for others."""
    (path, right), *more = paths
    lives = [seen.known[uid] for uid, _, _ in rows]
    texts = [
        f"{life.name} has {number}, and {count} {family.kind}"
        for life, (_, count, number) in zip(lives, rows, strict=True)
    ]
    owners, their = number_of(len(rows), family.owners), form(len(rows), "its", "their")
    what = (
        f"{owners} {form(len(rows), 'has', 'have')} another number of {family.kind} than {their} {path}"
        if path.startswith("spec.")
        else f"{path} of {owners} is not {their} number of {family.kind}"
    )
    also = [f"the same of {', '.join(other for other, _ in more)}"] if more else []
    return Found(
        id=ID,
        severity="defect",
        about=About(aspect=Aspect.STATE, objects={life.key for life in lives}, field=path.partition(" or ")[0]),
        text=f"{what} while nothing changes for {family.window.seconds:.1f} s of {family.window.phase}: {texts[0]}",
        evidence=(*texts[1:_SHOWN], *also, f"it is for {right:,} others"),
        check=f'invariant("… == objects(\\"{family.kind}\\")")',
    )


def _is_right(numbers: Sequence[tuple[Life, int, int]], family: _Family) -> bool:
    """Return whether a field is the number of its children for each owner of a family."""
    return len(numbers) == len(family.counts) and all(number == count for _, count, number in numbers)


def _fields(family: _Family) -> Mapping[str, list[tuple[Life, int, int]]]:
    """Return path → (owner, its number of children, the field) for each whole number of spec and status."""
    found: dict[str, list[tuple[Life, int, int]]] = defaultdict(list)
    for life, count in family.counts:
        for path, number in life.numbers(family.window.end).items():
            # A generation is a small number, and that of some children by chance.
            if isinstance(number, int) and path.startswith(("spec.", "status.")) and path != _OBSERVED:
                found[path].append((life, count, number))
    return found


def _odd_ones(seen: Observed, found: Sequence[_Family]) -> Iterator[Finding]:
    """Yield the owners with fewer or more children than most have, in the first window that shows some."""
    for one in found:
        usual, number = Counter(count for _, count in one.counts).most_common(1)[0]
        odd = [(life, count) for life, count in one.counts if count != usual]
        if not odd or not usual or number < max(_LEAST, _MOST * len(one.counts)):
            continue
        counts = sorted({count for _, count in odd})
        have = "none" if counts == [0] else " or ".join(str(count) for count in counts)
        more = [_made_twice(seen, life, one.kind, count) for life, count in odd if count > usual]
        twice = [seconds for seconds in more if seconds is not None]
        again = len(twice) >= _FEW and 2 * len(twice) > len(odd)
        why = (
            f": it made the second {median(twice):.2g} s after the first (median), for one spec: its cache did not show"
            " that yet"
            if again
            else ""
        )
        yield Found(
            id=ID,
            severity="defect" if counts == [0] or again else "note",
            about=About(aspect=Aspect.STATE, objects={life.key for life, _ in odd}, field="children"),
            text=f"{len(odd):,} of {len(one.counts):,} {one.owners} {form(len(odd), 'has', 'have')} {have} of the"
            f" {one.kind} of which the others"
            f" have {usual} each, while nothing changes for {one.window.seconds:.1f} s of {one.window.phase}{why}",
            evidence=(", ".join(life.name for life, _ in odd[:_SHOWN]),),
            check=f'phase.milestone(…, conditions.count("{one.kind}", {usual * len(one.counts)}))',
        )
        return


def _made_twice(seen: Observed, life: Life, kind: str, count: int) -> float | None:
    """Return how soon after the first the last of an owner's children was made, s, for one spec that asks for no more.

    None where it took longer than a cache is behind, where a number of the spec is that of the children, and where they
    came in one go: for what a list asks for, one reconcile makes all, under names of their own.
    """
    made = [one for one in seen.children.get(life.uid, ()) if one.resource == kind and one.made_by_operator]
    first, last = min(one.begun for one in made), max(one.begun for one in made)
    asked = any(number == count for path, number in life.numbers(last).items() if path.startswith("spec."))
    generations = {life.numbers(at).get(_GENERATION) for at in (first, last)}
    between = any(one.user == seen.operator and first < one.completed < last for one in life.writes)
    drawn = {one.name.rpartition("-")[0] for one in made if _DRAWN.search(one.name)}
    seconds = (last - first) / 1e9
    is_again = between and drawn and len(drawn) == len(generations) == 1 and not asked and seconds < _BEHIND_S
    return seconds if is_again else None
