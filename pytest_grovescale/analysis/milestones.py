"""When each milestone was met: by the watch and, where the audit log names the write, by the API server; its floor."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from .. import durations
from ..recording.conditions import READY_PATH, AllOf, AnyOf, Condition, Count, FieldTest, Predicate, Timer
from ..recording.records import MilestoneMet, ObjectRef, ObjectSeen
from .audit_times import Interval, Unknown, WriteLog, pair_what_can_be, time_of_event, time_of_nth_create
from .disruptions import RECORDER, SEEN_WITHIN_NS
from .phase_result import Clock, MilestoneResult
from .recording_index import Contents, PhaseSpan, WatchStory
from .result import WatchLag
from .statistics.quantile import quantile

FLOOR = "floor"
"""Label of the mark that holds one."""


def milestones_of_phase(
    contents: Contents, phase: PhaseSpan, log: WriteLog | None, hole: str = ""
) -> tuple[MilestoneResult, ...]:
    """Return the phase's milestones in the order of their declaration.

    ``log``: None without an audit log; ``hole``: why that does not cover the phase, empty where it does.
    """
    counts = contents.counts(phase)
    return tuple(
        _milestone(contents, phase, name, declared.condition, log, counts.get(name), hole)
        for name, declared in phase.declared.items()
    )


def _milestone(
    contents: Contents,
    phase: PhaseSpan,
    name: str,
    condition: Condition,
    log: WriteLog | None,
    count: int | None,
    hole: str,
) -> MilestoneResult:
    words = condition_text(condition)
    counted = isinstance(condition, Count)
    target = condition.n if isinstance(condition, Count) else None
    reached = count if counted else None
    met = phase.met.get(name)
    if met is None:
        return MilestoneResult(name=name, condition=words, met=False, reached=reached, wanted=target)
    server = _server(contents, condition, met, log, hole)
    doubt = server.interval.doubt if server.interval is not None else max(met.uncertainty_ns, _late_by(contents, met))
    return MilestoneResult(
        name=name,
        condition=words,
        met=True,
        observed_s=(met.at - phase.start) / 1e9,
        server_s=_seconds(server.interval, phase.start),
        clock=server.clock,
        held_to_end=phase.held.get(name) if phase.ended is not None else None,
        uncertainty_s=doubt / 1e9,
        why_not_server=server.why_not,
        object=met.object,
        reached=reached,
        wanted=target,
    )


def _late_by(contents: Contents, met: MilestoneMet) -> int:
    """Return how much later than it happened a stalled recorder may have seen a milestone, ns."""
    return max(
        (
            met.at - stall.began
            for stall in contents.stalls.values()
            if stall.process == RECORDER and stall.began < met.at <= stall.began + stall.length_ns + SEEN_WITHIN_NS
        ),
        default=0,
    )


def _seconds(interval: Interval | None, start: int) -> tuple[float, float] | None:
    if interval is None:
        return None
    return (interval.low - start) / 1e9, (interval.high - start) / 1e9


def _server(contents: Contents, condition: Condition, met: MilestoneMet, log: WriteLog | None, hole: str) -> _Server:
    if met.object is None:
        return _Server("recorder", None, "no single event tipped it")
    if log is None:
        return _Server("watch", None, "no audit log")
    story = contents.watches.get(met.watch)
    event = _tipping_event(story, met, met.object) if story is not None else None
    if story is None or event is None:
        return _Server("watch", None, "the event that tipped it is not in the recording")
    if hole and event.at > log.last:
        # Its write is missing; the last one to the object that is there is an earlier one.
        return _Server("watch", None, hole)
    committed = time_of_event(log, story, event)
    if isinstance(committed, Unknown) and event.change == "added" and _is_plain_count(condition):
        by_number = time_of_nth_create(log, story, condition.n, met.at)
        committed = by_number if isinstance(by_number, Interval) else committed
    if isinstance(committed, Unknown):
        return _Server("watch", None, committed.why)
    return _Server("server", committed)


def _is_plain_count(condition: Condition) -> TypeGuard[Count]:
    """Return whether a condition is a plain count of objects, so that its N-th is the N-th created."""
    return isinstance(condition, Count) and not condition.name and condition.where == Predicate()


def _tipping_event(story: WatchStory, met: MilestoneMet, ref: ObjectRef) -> ObjectSeen | None:
    """Return the event that met a milestone: the last of its object up to then, unless it was synthetic."""
    events = story.objects.get((ref.namespace, ref.name), [])
    tipping = next((event for event in reversed(events) if event.at <= met.at), None)
    return None if tipping is None or tipping.initial else tipping


def watch_lag(contents: Contents, log: WriteLog) -> WatchLag | None:
    """Return how late events were seen after the answer to their write, over all objects whose writes are certain."""
    lags: list[int] = []
    for story in contents.watches.values():
        for events in story.objects.values():
            pairs = pair_what_can_be(log, story, events)
            if isinstance(pairs, Unknown):
                continue
            answered = sorted(write.completed for write in pairs.writes)
            lags += [max(0, event.at - at) for event, at in zip(pairs.events, answered, strict=True)]
    if not lags:
        return None
    lags.sort()
    return WatchLag(
        events=len(lags), p50_ms=quantile(lags, 0.50) / 1e6, p99_ms=quantile(lags, 0.99) / 1e6, max_ms=lags[-1] / 1e6
    )


def condition_text(condition: Condition) -> str:
    """Return a condition in words: ``1000 pods ready``, ``podcliqueset x: status.available ≥ 500``, ``0 pods``."""
    match condition:
        case Timer(seconds=seconds):
            return f"{durations.text(seconds)} passed"
        case AllOf(of=parts):
            return " and ".join(_part(part) for part in parts)
        case AnyOf(of=parts):
            return " or ".join(_part(part) for part in parts)
        case Count():
            return _named(condition) if condition.name else _count(condition)


def _part(condition: Condition) -> str:
    inner = condition_text(condition)
    return f"({inner})" if isinstance(condition, AllOf | AnyOf) and len(condition.of) > 1 else inner


def _count(count: Count) -> str:
    how = {"==": "", ">=": "at least ", "<=": "at most "}[count.op]
    kind = count.watch.resource.partition(".")[0]
    which = _predicate(count.where)
    chosen = ", ".join(part for part in (count.watch.label_selector, count.watch.field_selector) if part)
    words = f"{how}{count.n} {kind}" + (f" ({chosen})" if chosen else "")
    if which == "ready":
        return f"{words} ready"
    return f"{words} with {which}" if which else words


def _named(count: Count) -> str:
    kind = count.watch.resource.partition(".")[0]
    several = len(count.names) > 1
    who = f"{len(count.names)} {kind}" if several else f"{kind} {count.names[0]}"
    which = _predicate(count.where)
    none = count.n == 0 and count.op in ("==", "<=")
    if not which:
        return f"{who} gone" if none else f"{who} exist{'' if several else 's'}"
    return f"{who}: not {which}" if none else f"{who}{', each' if several else ''}: {which}"


def _predicate(where: Predicate) -> str:
    parts = [_test(test) for test in where.tests]
    parts += [part for part in (where.expression, where.function and f"{where.function}()") if part]
    return " and ".join(parts)


def _test(test: FieldTest) -> str:
    if test.path == READY_PATH and test.value == "True" and test.op in ("==", "!="):
        return "ready" if test.op == "==" else "not ready"
    sign = {"==": "=", "!=": "≠", ">=": "≥", "<=": "≤", ">": ">", "<": "<"}[test.op]
    return f"{test.path} {sign} {'null' if test.value is None else test.value}"


def floor_detail(milestone: str, seconds: float) -> str:
    """Return a floor as the detail of a mark."""
    return f"{milestone} {seconds!r}"


def floors_of(contents: Contents) -> dict[str, float]:
    """Return milestone, or ``phase/milestone``, → seconds; the last declaration of each."""
    details = (mark.detail.rpartition(" ") for mark in contents.marks if mark.label == FLOOR)
    return {milestone: float(seconds) for milestone, _, seconds in details}


class _Server(NamedTuple):
    clock: Clock
    interval: Interval | None
    why_not: str = ""
