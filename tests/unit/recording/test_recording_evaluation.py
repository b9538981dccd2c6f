"""Conditions: equal to a plain evaluation of the whole state at every moment, live and replayed."""

from __future__ import annotations

import itertools
import operator
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.errors import RecordingError, UsageError
from pytest_grovescale.recording.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Count,
    FieldTest,
    Predicate,
    Timer,
    WatchSpec,
)
from pytest_grovescale.recording.evaluation import Engine
from pytest_grovescale.recording.records import (
    AnyRecord,
    Mark,
    MilestoneDeclared,
    MilestoneMet,
    ObjectSeen,
    PhaseEnded,
    PhaseStarted,
    WatchCut,
    WatchGap,
    WatchLive,
    WatchOpened,
)

PODS = WatchSpec(resource="pods", path="/api/v1/namespaces/n/pods", fields=("status.phase", "x"))
NARROW = WatchSpec(resource="pods", path="/api/v1/namespaces/n/pods", fields=("x",))
SETS = WatchSpec(resource="sets.a", path="/apis/a/v1/sets", fields=("x",))
OPEN = {"w1": PODS, "w2": SETS}

# ---- a plain evaluation, without counters, to compare with


def judge(where: Predicate, fields: dict[str, Any]) -> bool | None:
    for test in where.tests:
        value = fields.get(test.path)
        if test.op == "==" and (test.path not in fields or value != test.value):
            return False
        if test.op == ">=":
            if isinstance(value, str):
                return None
            if value is None or value < test.value:
                return False
    return True


def plain(condition: Condition, stores: dict[str, dict[str, Any]], live: set[str], elapsed: int | None) -> bool | None:
    match condition:
        case Timer(seconds=seconds):
            return elapsed is not None and elapsed >= seconds * 1e9
        case AllOf(of=parts):
            answers = [plain(part, stores, live, elapsed) for part in parts]
            return False if False in answers else None if None in answers else True
        case AnyOf(of=parts):
            answers = [plain(part, stores, live, elapsed) for part in parts]
            return True if True in answers else None if None in answers else False
        case Count(watch=spec, n=n):
            watch = "w1" if spec in (PODS, NARROW) else "w2"
            if watch not in live:
                return None
            objects = [f for name, f in stores[watch].items() if not condition.names or name in condition.names]
            answers = [judge(condition.where, fields) for fields in objects]
            possible = range(answers.count(True), answers.count(True) + answers.count(None) + 1)
            compare = {"==": operator.eq, ">=": operator.ge, "<=": operator.le}[condition.op]
            outcomes = {bool(compare(c, n)) for c in possible}
            return outcomes.pop() if len(outcomes) == 1 else None


# ---- random conditions and recordings

VALUES = st.sampled_from([0, 1, 2, "1", None])
TESTS = st.builds(FieldTest, path=st.just("x"), op=st.sampled_from(["==", ">="]), value=st.integers(0, 2))
WHERE = st.builds(Predicate, tests=st.one_of(st.just(()), TESTS.map(lambda t: (t,))))
COUNTS = st.builds(
    Count,
    watch=st.sampled_from([PODS, NARROW, SETS]),
    name=st.sampled_from(["", "", "a", ("a", "b")]),
    where=WHERE,
    op=st.sampled_from(["==", ">=", "<="]),
    n=st.integers(0, 3),
)
TIMERS = st.builds(Timer, seconds=st.sampled_from([0.0, 1e-8, 2e-8, 5e-8]))
CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    st.one_of(COUNTS, COUNTS, TIMERS),
    lambda inner: st.one_of(
        st.builds(AllOf, of=st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, of=st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)
MOVES = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(["w1", "w2"]), st.sampled_from("abcd"), VALUES),
    st.tuples(st.just("put"), st.sampled_from(["w1", "w2"]), st.sampled_from("abcd"), VALUES),
    st.tuples(st.just("delete"), st.sampled_from(["w1", "w2"]), st.sampled_from("abcd")),
    st.tuples(st.just("tick")),
    st.tuples(st.just("live"), st.sampled_from(["w1", "w2"])),
    st.tuples(st.just("gap"), st.sampled_from(["w1", "w2"])),
    st.tuples(st.just("cut"), st.sampled_from(["w1", "w2"])),
    st.tuples(st.just("start")),
    st.tuples(st.just("mark")),
)
SCRIPTS = st.lists(st.tuples(st.integers(0, 30), MOVES), max_size=40)


class Live:
    """What the recorder does with an engine: every record is made, evaluated and written down in one step."""

    def __init__(self, conditions: dict[str, Condition]) -> None:
        self.engine = Engine()
        self.journal: list[AnyRecord] = []
        self.now = 1000
        for watch, spec in OPEN.items():
            self.add(WatchOpened(at=self.now, watch=watch, spec=spec, mode="stream"))
        for name, condition in conditions.items():
            self.add(MilestoneDeclared(at=self.now, phase="p", name=name, condition=condition))

    def add(self, record: AnyRecord) -> None:
        self.journal += self.engine.advance(record.at)
        self.journal.append(record)
        self.journal += self.engine.feed(record)

    def play(self, move: tuple[Any, ...], *, started: bool) -> None:
        match move:
            case ("put", watch, name, value):
                fields = {"x": value, "status.phase": "Running"} if value is not None else {"status.phase": "Failed"}
                self.add(ObjectSeen(at=self.now, watch=watch, change="added", name=name, fields=fields))
            case ("delete", watch, name):
                self.add(ObjectSeen(at=self.now, watch=watch, change="deleted", name=name))
            case ("live", watch):
                self.add(WatchLive(at=self.now, watch=watch, objects=0))
            case ("gap", watch):
                self.add(WatchGap(at=self.now, watch=watch, reason="410", length_ns=7))
            case ("cut", watch):
                self.add(WatchCut(at=self.now, watch=watch, reason="cut", length_ns=7))
            case ("tick",):
                self.journal += self.engine.advance(self.now)
            case ("mark",):
                self.add(Mark(at=self.now, label="m"))
            case ("start",) if not started:
                self.add(PhaseStarted(at=self.now, phase="p", timeout_ns=1))


@given(st.lists(CONDITIONS, min_size=1, max_size=3), SCRIPTS)
def test_live_replayed_and_plain_evaluation_agree(conditions: list[Condition], script: list[Any]) -> None:
    named = {f"m{n}": condition for n, condition in enumerate(conditions)}
    live = Live(named)
    stores: dict[str, dict[str, Any]] = {"w1": {}, "w2": {}}
    complete: set[str] = set()
    started: int | None = None
    met: dict[str, int] = {}

    def judge_all(now: int) -> None:
        for name, condition in named.items():
            elapsed = None if started is None else now - started
            if started is not None and name not in met and plain(condition, stores, complete, elapsed) is True:
                met[name] = now

    for passed, move in script:
        # The plain evaluation looks at every nanosecond in between: timers run out there.
        for now in range(live.now, live.now + passed + 1):
            judge_all(now)
        live.now += passed
        live.play(move, started=started is not None)
        match move:
            case ("put", watch, name, value):
                stores[watch][name] = {"x": value} if value is not None else {}
            case ("delete", watch, name):
                stores[watch].pop(name, None)
            case ("live", watch):
                complete.add(watch)
            case ("gap", watch):
                complete.discard(watch)
            case ("start",) if started is None:
                started = live.now
            case _:
                pass
        judge_all(live.now)
        for name in named:
            elapsed = None if started is None else live.now - started
            assert live.engine.holds("p", name, live.now) is plain(named[name], stores, complete, elapsed)
    live.journal += live.engine.advance(live.now)

    answers = [record for record in live.journal if isinstance(record, MilestoneMet)]
    assert {m.name: m.at for m in answers} == met
    assert len(answers) == len(met)
    times = [record.at for record in live.journal]
    assert times == sorted(times)

    again = Engine()
    assert [m for record in live.journal for m in again.feed(record)] == answers


def test_replay_of_a_cut_recording_gives_what_was_met_by_then() -> None:
    live = Live({"two": Count(watch=PODS, n=2), "later": AllOf(of=(Timer(seconds=1e-7), Count(watch=PODS, n=2)))})
    for move in [("live", "w1"), ("start",), ("put", "w1", "a", 1), ("put", "w1", "b", 1), ("mark",), ("mark",)]:
        live.play(move, started=False)
        live.now += 60
    answers = [r for r in live.journal if isinstance(r, MilestoneMet)]
    assert len(answers) == 2
    for length in range(len(live.journal) + 1):
        engine = Engine()
        replayed = [m for record in live.journal[:length] for m in engine.feed(record)]
        written = [r for r in live.journal[:length] if isinstance(r, MilestoneMet)]
        # The record that tips a milestone may be the last one of the file, its answer just cut off.
        assert len(written) <= len(replayed)
        assert replayed == answers[: len(replayed)]


def run(*records: AnyRecord) -> tuple[Engine, list[MilestoneMet]]:
    engine = Engine()
    return engine, [met for record in records for met in engine.feed(record)]


def prelude(condition: Condition, *objects: ObjectSeen) -> list[AnyRecord]:
    return [
        WatchOpened(at=1, watch="w1", spec=PODS, mode="stream"),
        *objects,
        WatchLive(at=2, watch="w1", objects=len(objects)),
        MilestoneDeclared(at=3, phase="p", name="m", condition=condition),
        PhaseStarted(at=10, phase="p", timeout_ns=100),
    ]


def pod(at: int, name: str, **fields: Any) -> ObjectSeen:
    return ObjectSeen(at=at, watch="w1", change="added", name=name, namespace="n", resource_version="7", fields=fields)


def test_it_latches_and_names_the_object_that_tipped_it() -> None:
    engine, met = run(
        *prelude(Count(watch=PODS, n=1)),
        pod(20, "a"),
        ObjectSeen(at=21, watch="w1", change="deleted", name="a", namespace="n"),
        pod(22, "b"),
    )
    assert [(m.at, m.watch, m.resource_version, m.uncertainty_ns) for m in met] == [(20, "w1", "7", 0)]
    assert met[0].object is not None
    assert (met[0].object.resource, met[0].object.namespace, met[0].object.name) == ("pods", "n", "a")
    assert engine.open_milestones("p") == []


def test_what_holds_from_the_start_is_met_at_the_start() -> None:
    _, met = run(*prelude(Count(watch=PODS, n=1), pod(1, "a")))
    assert [(m.at, m.watch, m.object) for m in met] == [(10, "", None)]


def test_nothing_is_met_before_the_list_is_complete() -> None:
    _, met = run(
        WatchOpened(at=1, watch="w1", spec=PODS, mode="stream"),
        MilestoneDeclared(at=1, phase="p", name="m", condition=Count(watch=PODS, n=0)),
        PhaseStarted(at=2, phase="p", timeout_ns=1),
        pod(3, "a"),
    )
    assert met == []


def test_an_event_after_a_cut_may_be_as_old_as_the_cut() -> None:
    start = prelude(Count(watch=PODS, n=1))
    second = 10**9
    cut = WatchCut(at=5 * second, watch="w1", reason="reset", length_ns=2 * second)
    for at, uncertainty in [(5 * second, 2 * second), (6 * second, 3 * second), (7 * second + 1, 0)]:
        _, met = run(*start, cut, pod(at, "a"))
        assert [m.uncertainty_ns for m in met] == [uncertainty]


def test_a_gap_is_judged_when_its_list_is_complete() -> None:
    gap = WatchGap(at=50, watch="w1", reason="410", length_ns=30)
    _, met = run(*prelude(Count(watch=PODS, n=1)), gap, pod(51, "a"), pod(51, "b"))
    assert met == []
    gone = ObjectSeen(at=52, watch="w1", change="deleted", name="b", namespace="n")
    live = WatchLive(at=60, watch="w1", objects=1, resource_version="9")
    _, met = run(*prelude(Count(watch=PODS, n=1)), gap, pod(51, "a"), pod(51, "b"), gone, live)
    assert [(m.at, m.object, m.resource_version, m.uncertainty_ns) for m in met] == [(60, None, "9", 40)]


def test_a_predicate_that_raises_is_reported_and_leaves_the_answer_unknown() -> None:
    condition = Count(watch=PODS, where=Predicate(expression='fields["x"] > 1'), n=0)
    engine, met = run(*prelude(condition), pod(11, "a", x="no number"))
    assert [(m.at, m.watch) for m in met] == [(10, "")]
    engine, met = run(*prelude(condition, pod(1, "a", x=2)), pod(11, "a", x="no number"))
    assert met == []
    assert engine.holds("p", "m", 11) is None
    (failure,) = engine.failures
    assert (failure.milestone, failure.object.name) == ("m", "a")
    assert "TypeError" in failure.message
    # Judged again when the object can be.
    assert [m.at for m in engine.feed(pod(12, "a", x=0))] == [12]


def test_objects_that_cannot_be_judged_matter_only_where_they_decide() -> None:
    expression = Predicate(expression='fields["x"] > 1')
    objects = [pod(1, "bad"), pod(1, "good", x=2)]
    for op, n, expected in [(">=", 1, True), (">=", 2, None), (">=", 3, False), ("<=", 0, False), ("<=", 2, True)]:
        engine, _ = run(*prelude(Count(watch=PODS, where=expression, op=op, n=n), *objects))  # type: ignore[arg-type]
        assert engine.holds("p", "m", 10) is expected


def test_one_is_not_true() -> None:
    one, true = (Count(watch=PODS, where=Predicate(tests=(FieldTest(path="x", value=v),)), n=1) for v in (1, True))
    _, met = run(*prelude(AllOf(of=(one, true)), pod(1, "a", x=1)))
    assert met == []
    _, met = run(*prelude(AllOf(of=(one, true)), pod(1, "a", x=1), pod(1, "b", x=True)))
    assert len(met) == 1


def test_a_wider_watch_serves_a_narrow_condition_and_a_later_phase_finds_its_objects() -> None:
    engine, _ = run(*prelude(Count(watch=PODS, n=9), pod(1, "a", x=1)))
    assert engine.serving(NARROW) == "w1"
    assert engine.serving(SETS) is None
    second: list[AnyRecord] = [
        PhaseEnded(at=20, phase="p", outcome="timeout"),
        MilestoneDeclared(at=21, phase="q", name="m", condition=Count(watch=NARROW, n=1)),
        PhaseStarted(at=22, phase="q", timeout_ns=1),
    ]
    assert [(m.phase, m.at) for record in second for m in engine.feed(record)] == [("q", 22)]


def test_a_phase_that_ended_costs_and_answers_nothing() -> None:
    engine, _ = run(*prelude(AllOf(of=(Timer(seconds=1.0), Count(watch=PODS, n=1)))))
    engine.feed(PhaseEnded(at=20, phase="p", outcome="interrupted"))
    assert engine.advance(10**12) == []
    assert engine.feed(pod(10**12, "a")) == []
    assert engine.next_due() is None
    with pytest.raises(KeyError):
        engine.holds("p", "m", 10**12)


def test_figures_and_shortfalls() -> None:
    ready = Count(watch=PODS, where=Predicate(tests=(FieldTest(path="x", value=1),)), n=3)
    engine, _ = run(
        *prelude(
            AllOf(of=(ready, Timer(seconds=0.0))),
            *(pod(1, name, x=x) for name, x in zip("abc", [1, 0, 2], strict=True)),
        )
    )
    assert engine.figures("p", 10) == {"m": (1, 2)}
    (shortfall,) = engine.shortfalls("p", 10, limit=1)
    assert (shortfall.have, shortfall.surplus, [o.name for o in shortfall.objects]) == (1, False, ["b"])
    engine, _ = run(*prelude(Count(watch=PODS, n=0), pod(1, "a")))
    (shortfall,) = engine.shortfalls("p", 10, limit=10)
    assert (shortfall.surplus, [o.name for o in shortfall.objects]) == (True, ["a"])
    assert engine.figures("p", 10) == {"m": (1, 0)}


@pytest.mark.parametrize(
    ("counts", "figures"),
    [
        ([("==", 0), ("==", 0)], (3, 0)),
        ([("==", 4), (">=", 1)], (3, 5)),
        ([("==", 2), ("==", 0)], (1, 2)),
        ([("<=", 4), ("<=", 9)], (2, 2)),
    ],
)
def test_objects_of_several_counts_are_added_up_where_all_come_or_all_go(
    counts: list[tuple[Literal["==", ">=", "<="], int]], figures: tuple[float, float]
) -> None:
    names: tuple[tuple[str, ...], ...] = (("a", "b"), ("c",))
    some, one = (Count(watch=PODS, name=those, op=op, n=n) for those, (op, n) in zip(names, counts, strict=True))
    engine, _ = run(*prelude(AllOf(of=(some, one)), *(pod(1, name) for name in "abc")))
    assert engine.figures("p", 10) == {"m": figures}


def test_records_out_of_order_are_damage() -> None:
    with pytest.raises(RecordingError, match="never opened"):
        run(pod(1, "a"))
    with pytest.raises(RecordingError, match="no watch on"):
        run(MilestoneDeclared(at=1, phase="p", name="m", condition=Count(watch=PODS, n=1)))


def test_a_function_that_cannot_be_imported_is_refused() -> None:
    with pytest.raises(UsageError, match="no_such_module"):
        run(*prelude(Count(watch=PODS, where=Predicate(function="no_such_module:f"), n=1)))


def test_cost_of_an_event_does_not_depend_on_the_number_of_objects() -> None:
    judged = itertools.count()
    engine, _ = run(*prelude(Count(watch=PODS, n=10**9), *(pod(1, f"p{n}", x=n) for n in range(500))))
    (counter,) = engine._stores["w1"].counters.values()
    original = counter.judge
    counter.judge = lambda fields: (next(judged), original(fields))[1]
    for n in range(100):
        engine.feed(pod(20 + n, f"p{n}", x=0))
    assert next(judged) == 100
