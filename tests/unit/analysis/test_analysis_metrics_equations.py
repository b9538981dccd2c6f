"""The language of invariants: what it means, and what it refuses, with the place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.metrics.equations import Equation, Objects, Sum, Term, equation
from pytest_grovescale.analysis.metrics.object_states import ObjectStates, Wanted
from pytest_grovescale.analysis.metrics.selectors import ExpressionError, Matcher, Selector, selector
from pytest_grovescale.exposition.families import text
from pytest_grovescale.recording import records as rec
from pytest_grovescale.recording.conditions import WatchSpec


def test_sums_signs_and_numbers() -> None:
    assert equation('sum(a) - sum(b{x="1"}) + 2 == sum(increase(c_total))') == Equation(
        left=(
            Term(1, Sum(Selector("a"))),
            Term(-1, Sum(Selector("b", (Matcher("x", "=", "1"),)))),
            Term(1, 2.0),
        ),
        relation="==",
        right=(Term(1, Sum(Selector("c_total"), increase=True)),),
    )


def test_numbers_of_objects() -> None:
    stated = equation(
        'sum(a) == objects("pods", ready=True, phase="Running") + objects("x.a.io", condition="Done=False")'
    )
    assert stated.objects == (
        Objects(Wanted("pods", ("condition Ready=True", "phase Running"))),
        Objects(Wanted("x.a.io", ("condition Done=False",))),
    )


def test_objects_are_counted_as_the_watches_showed_them() -> None:
    states = ObjectStates()
    spec = WatchSpec(resource="cliques.a.io", path="/c")
    states.feed(rec.WatchOpened(at=0, watch="w", spec=spec, mode="stream"))
    ready = "status.conditions[type=Ready].status"

    def event(at: int, name: str, change: Any, **parts: Any) -> None:
        states.feed(rec.ObjectSeen(at=at * 10**9, watch="w", change=change, name=name, **parts))

    event(1, "a", "added", fields={ready: "False"}, numbers={"status.phase": "New"})
    event(2, "b", "added", fields={ready: "True"})
    event(5, "a", "modified", fields={ready: "True"})
    event(9, "b", "deleted")
    asked = [Wanted("cliques"), Wanted("cliques.a.io", ("condition Ready=True",)), Wanted("cliques", ("phase New",))]
    asked.append(Wanted("cliques", absent=("condition Ready=True",)))
    counts = [[states.count(one, at * 10**9) for one in asked] for at in (0, 1, 3, 6, 10)]
    assert counts == [[0, 0, 0, 0], [1, 0, 1, 1], [2, 1, 1, 1], [2, 2, 1, 0], [1, 1, 1, 0]]
    assert not states.still("cliques", 4 * 10**9)
    assert states.still("cliques", 7 * 10**9)
    assert states.resource("pods") == ""


@pytest.mark.parametrize(
    "written",
    [
        "sum by (x, y) (a) <= sum by (y, x) (b)",
        "sum(a) by (x,y)<=sum(b) by(x,y)",
        "  sum ( a )by ( x , y ) <= sum by (x,y)(b)",
    ],
)
def test_by_may_stand_before_or_behind_as_in_promql(written: str) -> None:
    assert equation(written).by == ("x", "y")


@pytest.mark.parametrize(
    ("written", "at", "problem"),
    [
        ("", 0, r"`sum\(…\)`, `objects"),
        ("sum(a)", 6, "`==`"),
        ("sum(a) = sum(b)", 7, "`==`"),
        ("sum(a) == b", 10, r"`sum\(…\)`, `objects"),
        ("sum(a) == sum(b", 15, r"`\)`"),
        ("sum(a) == sum(b) sum(c)", 17, "the end"),
        ("sum(rate(a[5m])) == 0", 8, r"`\)`"),
        ("avg(a) == 0", 0, r"`sum\(…\)`"),
        ("sum(a) by (x) == sum(b)", 17, "the first one by x"),
        ('sum(a{x=~"("}) == 0', 9, "not a regular expression"),
        ("sum(a{x=1}) == 0", 8, "a value in quotes"),
        ('sum(a{x="1" y="2"}) == 0', 12, "`,` or `}`"),
        ("sum(a{x:y='1'}) == 0", 6, "not a label name"),
        ("sum(a) == $", 10, "unexpected"),
        ("1 <= 2", 0, "no sum"),
        ("sum(a) == objects(pods)", 18, "a kind in quotes"),
        ('sum(a) == objects("pods", redy=True)', 26, "objects have no 'redy'"),
        ('sum(a) == objects("pods", ready="yes")', 32, "`True` or `False`"),
        ('sum(a) by (x) == objects("pods")', 0, "has no labels"),
    ],
)
def test_what_is_no_equation_is_refused_at_its_place(
    written: str, at: int, problem: str, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(ExpressionError, match=problem) as refused:
        equation(written)
    assert refused.value.at == at
    assert str(refused.value) == snapshot


@pytest.mark.parametrize(
    ("written", "fitting"),
    [
        ('a{x="1"}', {'a{x="1"}', 'a{x="1",y="2"}'}),
        ('a{x!="1"}', {"a", 'a{x="12"}'}),
        ('a{x=~"1|3"}', {'a{x="1"}', 'a{x="1",y="2"}'}),
        ('a{x=~"1.*"}', {'a{x="1"}', 'a{x="1",y="2"}', 'a{x="12"}'}),
        ('a{x!~"1.+"}', {"a", 'a{x="1"}', 'a{x="1",y="2"}'}),
        ('a{x=""}', {"a"}),
        ("a{y='2'}", {'a{x="1",y="2"}'}),
    ],
)
def test_a_selector_takes_what_prometheus_would(written: str, fitting: set[str]) -> None:
    served = ["a", 'a{x="1"}', 'a{x="12"}', 'a{x="1",y="2"}', 'ab{x="1"}', 'b{a="1",x="1"}']
    assert set(selector(written).of(served)) == fitting


@given(st.dictionaries(st.sampled_from("xyz"), st.text(max_size=5)))
def test_a_selector_of_all_labels_finds_its_series(labels: dict[str, str]) -> None:
    written = str(Selector("a", tuple(Matcher(label, "=", value) for label, value in labels.items())))
    series = text("a", labels)
    assert set(selector(written).of([series, "b"])) == {series}


@given(st.text(alphabet='sum(ab)by{}=~<>!"+-,1. ', max_size=30))
def test_any_text_is_an_equation_or_refused_with_a_place_in_it(written: str) -> None:
    refused: list[ExpressionError] = []
    try:
        assert equation(written).sums
    except ExpressionError as error:
        refused.append(error)
    assert all(0 <= error.at <= len(written) for error in refused)
