"""What a trigger that changes nothing made the operator do: write, or reconcile over and over.

The harness changes an annotation; the desired state is what it was. An operator that writes then writes at every resync
and restart, to all its objects, and each write wakes all that watch them.

No false alarm: writes are counted from the trigger on, those of the idle twin subtracted; where objects still changed
in the second before it, those that changed an object's content are left out, too: they may have been due. A write or
few may pass the annotation on, as the Deployment controller does to its ReplicaSets: they are a note where they change
nothing but annotations or labels of objects that were not triggered, as far as is known; so are those by which kopf
notes in the object what it has seen of it, and those that say that a generation was observed, which the API server
gives a Deployment for an annotation. Of a touched object only pods of its own family count as replaced. Of the
controllers the one that reconciled least often counts, since one trigger may have to wake another controller for each
child. CPU is that of the phase beyond the least of idle windows, over all reconciles, and of one controller's by the
time that they take: a note from 10 ms on, and waste from 30 ms on, where the bundled operator takes 0.5 and one of kopf
3 on a busy machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ...recording.records import WRITES
from .. import figures
from ..api_requests import triggers_of
from ..phase_result import PhaseResult, WriteEffects
from ..reconciles import is_of
from ..result import OPERATOR, Finding
from ..run_metrics import WINDOW
from .evidence import LAST_HANDLED, Life, ObjectId, Sent, Span, Touch
from .grouping import About, Aspect, Found
from .idle_windows import comes_regularly
from .observed import QUIET_NS, Observed

ID = "noop-work"

_PASSED_ON = 2
"""Writes for each trigger that may pass its annotation on."""

_FEW = 5
"""Writes that are too many, however many triggers there were; of fewer triggers, half of them."""

_LABELLING = ("metadata.annotations", "metadata.labels")

_NEWS = frozenset({"content", "generation"})

_CPU_NOTE_S, _CPU_S = 0.01, 0.03
"""CPU time of a no-op reconcile, s, from which on it is a note, and waste."""
_ASKING = 0.2
"""Share of the time of reconciles in which requests are under way up to which that time is mostly CPU time."""
_MANY = 1000

_UNEVEN = 1.5
"""How many times as often as on average the operator may write anyway in a time of about a second."""

_PER_TRIGGER = 3
"""Reconciles of the same object for one trigger from which on something triggers itself."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for writes, and one for repeated reconciles, of all phases with triggers together."""
    if not seen.operator:
        return
    triggered = [span for span in seen.spans if span.phase.triggers and not WINDOW.fullmatch(span.phase.name)]
    written = list(_writes(seen, triggered))
    replaced = list(_replaced(seen, triggered))
    yield from replaced
    yield from written or _touched(seen)
    yield from _cpu(seen, triggered)
    if not replaced:
        yield from _reconciles(seen, triggered)


def _writes(seen: Observed, triggered: list[Span]) -> Iterator[Finding]:
    kinds: Counter[str] = Counter()
    passed_on: Counter[str] = Counter()
    triggers = 0
    for span in triggered:
        first = triggers_of(seen.contents, span.recorded)[0][0]
        twin = seen.twin(span)
        counted = Counter(_what(seen, first, span.end))
        anyway = Counter(_what(seen, twin.start, twin.end)) if twin is not None else _anyway(seen, counted, span)
        counted -= anyway
        kinds += counted if seen.still(first, QUIET_NS / 1e9) else _without_news(seen, counted, first, span.end)
        passed_on += _passed_on(seen, first, span.end)
        triggers += span.triggers
    if not kinds:
        return
    total = kinds.total()
    others = total - (kinds & passed_on).total()
    many = total > _PASSED_ON * triggers or others >= min(_FEW, triggers / 2)
    more = tuple(_piled_up(seen, triggered))
    yield Found(
        id=ID,
        severity="defect" if more else "waste" if many else "note",
        about=About(aspect=Aspect.AMOUNT, requests=[one for span in triggered for one in _writes_of(seen, span)]),
        text=f"{_triggers(triggers)} made the operator write {total:,} time{'s' * (total != 1)}: {_most(kinds)}",
        evidence=(*more, *_effects(triggered), *_fields(seen, triggered)),
        check="noop_writes(max=0)",
    )


def _replaced(seen: Observed, triggered: list[Span]) -> Iterator[Finding]:
    """Yield that triggers, which change nothing, had pods replaced, by the operator or by what it changed."""
    for span in triggered if seen.log_whole else ():
        first = triggers_of(seen.contents, span.recorded)[0][0]
        pods = seen.lives.get("pods", ())
        there = [pod for pod in pods if pod.stays(first)]
        left, came = _turnover(seen, pods, first, span.end)
        if min(left, came) >= min(_FEW, max(1, len(there) / 2)) and seen.still(first, QUIET_NS / 1e9):
            yield Found(
                id=ID,
                severity="defect",
                about=About(aspect=Aspect.ACTION, requests=_writes_of(seen, span)),
                text=f"{_triggers(span.triggers)} in {span.phase.name} had {left:,} of {len(there):,} pods replaced",
                evidence=(f"{came:,} others were made in that time",),
                check="noop_writes(max=0)",
            )
            return


def _turnover(seen: Observed, pods: Iterable[Life], start: int, end: int) -> tuple[int, int]:
    """Return how many pods that were there left in a time, but for those that the test deleted, and how many came."""
    by_test = {(one.resource, one.object) for one in seen.by_harness(start, end) if one.verb == "delete"}
    left = came = 0
    for pod in pods:
        left += pod.stays(start) and (not pod.exists(end) or pod.deleting(end)) and pod.key not in by_test
        came += start <= pod.begun < end
    return left, came


def _passed_on(seen: Observed, start: int, end: int) -> Counter[str]:
    """Return the writes that may pass a trigger on: to objects that were not triggered, and whose content stayed.

    A framework notes it in an annotation of the triggered object itself (`LAST_HANDLED`), to know what changes next.
    """
    sent = [one for one in seen.requests_in(start, end) if one.updates]
    triggered = {(one.resource, one.object) for one in seen.by_harness(start, end)}
    changed: set[tuple[str, ObjectId]] = set()
    noted: set[tuple[str, ObjectId]] = set()
    # Older recordings do not compare secrets, and hardly anyone passes annotations on to them.
    known = {"secrets", *seen.compared}
    for resource in {one.resource for one in sent}:
        for life in seen.lives.get(resource, ()):
            changes = [event.difference for event in life.between(start, end)]
            paths = [path for change in changes if change is not None for path in change.paths]
            if not paths or not all(path.startswith(_LABELLING) for path in paths):
                changed.add(life.key)
            else:
                others = {path for path in paths if not _is_of_kopf(path)}
                if len(others) <= 1 and len(others) < len(set(paths)):
                    noted.add(life.key)
    return Counter(
        one.what
        for one in sent
        if (
            (one.resource, one.object) not in triggered
            and (one.resource not in known or (one.resource, one.object) not in changed)
        )
        or (one.resource, one.object) in noted
        or (one.subresource == "status" and _acknowledges(seen, one, start, end))
    )


def _is_of_kopf(path: str) -> bool:
    return path.startswith("metadata.annotations.") and path.endswith(LAST_HANDLED)


def _acknowledges(seen: Observed, one: Sent, start: int, end: int) -> bool:
    """Return whether a status was written for a generation that a trigger made, as Deployments get one by it."""
    lives = seen.of_name.get((one.resource, one.object), ())
    events = [event for life in lives for event in life.between(start, end)]
    paths = {path for event in events if event.difference is not None for path in event.difference.paths}
    of_status = {path for path in paths if path.startswith("status")}
    generated = any("metadata.generation" in event.numbers for event in events)
    return generated and bool(of_status) and all(path.endswith("observedGeneration") for path in of_status)


def _touched(seen: Observed) -> Iterator[Finding]:
    """Yield the touched object for which the operator wrote most often without changing anything, or made others."""
    yield from _replaced_for_touches(seen)
    yield from _made_for_touches(seen)
    worst: tuple[int, str, Counter[str], list[Sent]] | None = None
    for touch in seen.touches:
        sent = seen.requests_in(touch.start, touch.end)
        writes = [one for one in sent if one.verb in WRITES and (one.what, one.object) not in seen.repeated_at_quiet]
        kinds = Counter(one.what for one in writes)
        kinds -= _anyway(seen, kinds, touch)
        wrote = _without_news(seen, kinds, touch.start, touch.end)
        if wrote and (worst is None or wrote.total() > worst[0]):
            worst = wrote.total(), touch.life.resource, wrote, writes
    if worst is None:
        return
    total, resource, wrote, sent = worst
    yield Found(
        id=ID,
        severity="waste",
        about=About(aspect=Aspect.AMOUNT, requests=sent),
        text=f"a change of an annotation of one of the {resource} made the operator write {total:,}"
        f" time{'s' * (total != 1)} without changing anything: {_most(wrote)}",
    )


def _replaced_for_touches(seen: Observed) -> Iterator[Finding]:
    """Yield the touched object for which most pods were replaced, of its family or of what names it.

    No annotation is part of them, nor of what a pod reads of a ConfigMap.
    """
    worst: tuple[int, Touch] | None = None
    touches = seen.touches if seen.log_whole and "pods" in seen.lives else ()
    for touch, after in zip(touches, [*touches[1:], None], strict=False):
        end = after.start if after is not None else touch.end
        roots = {seen.line(one)[-1] for one in (touch.life, *seen.naming(touch.life))}
        pods = {life for root in roots for life in (root, *seen.below(root)) if life.resource == "pods"}
        replaced = min(_turnover(seen, pods, touch.start, end))
        if replaced > (worst[0] if worst is not None else 0):
            worst = replaced, touch
    if worst is not None:
        number, touch = worst
        yield Found(
            id=ID,
            severity="defect",
            about=About(
                aspect=Aspect.ACTION,
                requests=[one for one in seen.requests_in(touch.start, touch.end) if one.verb in WRITES],
            ),
            text=f"a change of an annotation of one of the {touch.life.resource} had {number:,}"
            f" pod{'s' * (number != 1)} replaced",
            evidence=(touch.life.name,),
        )


def _made_for_touches(seen: Observed) -> Iterator[Finding]:
    """Yield that the operator made objects for a touch, and none went that they could replace."""
    made: Counter[tuple[str, str]] = Counter()
    sent: list[Sent] = []
    for touch in seen.touches:
        new = [
            one for one in seen.requests_in(touch.start, touch.end) if one.verb == "create" and _stays(seen, one, touch)
        ]
        going = {resource for resource in {one.resource for one in new} if _goes(seen, resource, touch)}
        new = [one for one in new if one.resource not in going]
        made.update((touch.life.resource, one.resource) for one in new)
        sent += new
    if made:
        (touched, resource), number = made.most_common(1)[0]
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT, requests=sent),
            text=f"a change of an annotation of one of the {touched} made the operator create {number:,} {resource},"
            " while none went",
        )


def _stays(seen: Observed, one: Sent, touch: Touch) -> bool:
    """Return whether what a request made begins within a touch, and is there at its end."""
    lives = seen.of_name.get((one.resource, one.object), ())
    return any(touch.start <= life.begun < touch.end and life.stays(touch.end) for life in lives)


def _goes(seen: Observed, resource: str, touch: Touch) -> bool:
    """Return whether an object of a kind went within a touch, for which another one may have been made."""
    times = ((life.marked_at, life.gone_at) for life in seen.lives.get(resource, ()))
    return any(touch.start <= at < touch.end for both in times for at in both if at is not None)


def _anyway(seen: Observed, kinds: Iterable[str], time: Span | Touch) -> Counter[str]:
    """Return how many writes of each kind in a time are none of a trigger's: what comes regularly is not at all."""
    touched = [(touch.start, touch.end) for touch in seen.touches]
    touched += [(span.start, span.end) for span in seen.spans if span.phase.triggers]
    found: Counter[str] = Counter()
    for what in kinds:
        times = [one.received for one in seen.own_of([what])]
        expected = _UNEVEN * seen.anyway(what, (time.end - time.start) / 1e9)
        found[what] = len(times) if comes_regularly(times, touched) else math.ceil(expected)
    return found


def _writes_of(seen: Observed, span: Span) -> list[Sent]:
    """Return what the operator wrote in a phase from its first trigger on."""
    first = triggers_of(seen.contents, span.recorded)[0][0]
    return [one for one in seen.requests_in(first, span.end) if one.verb in WRITES]


def _most(kinds: Counter[str]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in kinds.most_common(3))


def _effects(triggered: list[Span]) -> list[str]:
    known = [span.phase.write_effects for span in triggered if span.phase.write_effects is not None]
    total = WriteEffects(
        writes=sum(one.writes for one in known), without_effect=sum(one.without_effect for one in known)
    )
    return figures.effects_text(total)


def _without_news(seen: Observed, kinds: Counter[str], start: int, end: int) -> Counter[str]:
    """Return writes without those that may tell of changes before the trigger: as many as changed an object's content.

    Of a kind that no watch compares, nothing is known.
    """
    left: Counter[str] = Counter()
    for resource in {_resource(what) for what in kinds}:
        events = [event for life in seen.lives.get(resource, ()) for event in life.between(start, end)]
        compared = any(event.difference is not None for event in events)
        news = sum(event.difference is not None and event.difference.kind in _NEWS for event in events)
        for what, number in kinds.items():
            if _resource(what) == resource and compared:
                left[what] = max(0, number - news)
                news = max(0, news - number)
    return +left


def _resource(what: str) -> str:
    return what.partition(" ")[2].partition("/")[0]


def _what(seen: Observed, start: int, end: int) -> Iterator[str]:
    return (one.what for one in seen.requests_in(start, end) if one.verb in WRITES)


def _piled_up(seen: Observed, triggered: list[Span]) -> Iterator[str]:
    """Yield how many of the objects that triggers brought about stay, of each kind, and of how many of one owner."""
    stay: dict[str, int] = {}
    for resource, lives in seen.lives.items():
        made = went = 0
        for span in triggered:
            made += sum(
                span.start <= life.begun < span.end and life.exists(span.end) and life.made_by_operator
                for life in lives
            )
            went += sum(span.start <= (life.gone_at or 0) < span.end for life in lives)
        if made - went >= _FEW:
            stay[resource] = made
    if stay:
        (first, number), *others = sorted(stay.items(), key=lambda one: (-one[1], one[0]))
        end = triggered[-1].end
        most = max(Counter(life.owner for life in seen.lives[first] if life.exists(end)).values(), default=0)
        yield (
            f"{number:,} of the new {first} stay"
            + (f", up to {most:,} of one owner" if most > 1 else "")
            + (f"; so do {', '.join(f'{number:,} {resource}' for resource, number in others)}" if others else "")
        )


def _fields(seen: Observed, triggered: list[Span]) -> Iterator[str]:
    """Yield which fields changed most often after triggers, in objects that the operator wrote to."""
    changed: Counter[str] = Counter()
    for span in triggered:
        first = triggers_of(seen.contents, span.recorded)[0][0]
        wrote = {(one.resource, one.object) for one in seen.requests_in(first, span.end) if one.verb in WRITES}
        by_harness = {(one.resource, one.object) for one in seen.by_harness(first, span.end)}
        for resource, lives in seen.lives.items():
            for life in lives:
                key = resource, life.object
                events = life.between(first, span.end) if key in wrote else ()
                # The first change of a triggered object is the trigger.
                for event in events[key in by_harness :]:
                    if event.difference is not None:
                        changed.update(f"{path} of {resource}" for path in event.difference.paths)
    if changed:
        yield "what changed: " + ", ".join(path for path, _ in changed.most_common(2))


def _reconciles(seen: Observed, triggered: list[Span]) -> Iterator[Finding]:
    for span in triggered:
        repeated = triggered_itself(seen, span)
        if repeated is None:
            continue
        controller, least = repeated
        wrote = any(one.changes for one in seen.requests_in(span.start, span.end))
        again = Counter(
            one.resource for one in seen.within(span) if one.verb == "watch" and is_of(controller, one.resource)
        )
        yield Found(
            id=ID,
            severity="waste",
            about=About(aspect=Aspect.AMOUNT, requests=_writes_of(seen, span), times=[(span.start, span.end)]),
            text=f"{_triggers(span.triggers)} in {span.phase.name} made {least:,} reconciles of {controller}"
            + (_why_again(wrote) if seen.log_whole else ""),
            evidence=tuple(
                f"it opened {number:,} watches on {resource} meanwhile: one without a version begins with all objects"
                for resource, number in again.items()
            ),
            check=f'noop_reconciles(controller="{controller}", per_trigger=1)',
        )
        return


def _why_again(wrote: bool) -> str:
    return ": it triggers itself" if wrote else ", and it wrote nothing: something asks for each object again"


def triggered_itself(seen: Observed, span: Span) -> tuple[str, int] | None:
    """Return the controller that reconciled least often, and how often; None where that is what triggers ask for."""
    triggers = span.triggers
    counts = caused_by_triggers(seen, span)
    if not counts or not triggers:
        return None
    controller, least = min(counts.items(), key=lambda one: one[1])
    return (controller, least) if least >= _PER_TRIGGER * triggers else None


def caused_by_triggers(seen: Observed, span: Span) -> Counter[str]:
    """Return controller → reconciles of a phase, without those that its idle twin, or any quiet time, has anyway."""
    twin = seen.twin(span)
    if twin is not None:
        anyway = by_controller(twin.phase)
    else:
        anyway = Counter({controller: round(rate * span.phase.seconds) for controller, rate in seen.go_on.items()})
    counts = by_controller(span.phase)
    counts.subtract({controller: number for controller, number in anyway.items() if controller in counts})
    return counts


def _cpu(seen: Observed, triggered: list[Span]) -> Iterator[Finding]:
    """Yield the CPU time of a no-op reconcile, without what the operator uses at rest, in the phase with most."""
    costs: list[tuple[float, int, str, Span]] = []
    for span in triggered:
        used, twin = span.cpu(OPERATOR), seen.twin(span)
        at_rest = [one.cpu_s / one.cpu_window_s for one in seen.test.idle if one.cpu_s is not None and one.cpu_window_s]
        if twin is not None and (idle := twin.cpu(OPERATOR)) is not None:
            at_rest = [idle.cores]
        if used is None or not at_rest:
            continue
        caused = caused_by_triggers(seen, span)
        number = caused.total() if span.phase.reconciles else span.triggers
        if number >= _FEW:
            seconds = (used.cores - min(at_rest)) * span.phase.seconds
            costs.append((seconds / number, number, "", span))
            costs += [
                (seconds * share / caused[controller], caused[controller], f" of {controller}", span)
                for controller, share in _shares(seen, span).items()
                if caused[controller] >= _FEW
            ]
    if not costs:
        return
    each, number, of, span = max(costs, key=lambda one: one[0])
    if each >= _CPU_NOTE_S:
        yield Found(
            id=ID,
            severity="waste" if each >= _CPU_S else "note",
            about=About(aspect=Aspect.AMOUNT),
            text=f"a reconcile{of} that finds nothing to do takes {each * 1e3:.3g} ms of CPU ({number:,} after"
            f" {_triggers(span.triggers)} in {span.phase.name}): {each * _MANY:,.0f} s of a core for each resync or"
            f" restart with {_MANY:,} objects",
            evidence=("without what the operator uses at rest; more objects may make each more expensive: sweep",),
            check=f'noop_cpu(phase="{span.phase.name}", per_reconcile=…)',
        )


def _shares(seen: Observed, span: Span) -> Mapping[str, float]:
    """Return each controller's share of the time of a phase's reconciles, where it is served and is mostly CPU time.

    What asks waits for answers, and not for a core: its time says nothing of its CPU.
    """
    by = max(seen.reconcile_times(span).values(), key=len, default={})
    total = sum(seconds for seconds, _ in by.values())
    if len(by) < 2 or seen.under_way(span) * span.phase.seconds > _ASKING * total:
        return {}
    return {controller: seconds / total for controller, (seconds, _) in by.items()} if total else {}


def _triggers(number: int) -> str:
    return f"{number:,} no-op trigger{'s' * (number != 1)}"


def by_controller(phase: PhaseResult) -> Counter[str]:
    """Return controller → reconciles of a phase, whatever their results."""
    found: Counter[str] = Counter()
    for row in phase.reconciles:
        found[row.controller] += row.count
    return found
