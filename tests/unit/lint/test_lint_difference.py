"""What a change adds and takes away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.checks.lint.difference import FamilyDifference, difference

from .surfaces import family, surface

OLD = family("a_total", "counter", '{op="x"}', '{op="y"}') + family("b", "gauge") + family("c", "gauge", '{k="1"}')
NEW = (
    family("a_total", "counter", '{op="x",pod="p"}')
    + family("b", "histogram", 'b_bucket{le="+Inf"}')
    + family("d", "gauge")
)


def test_families_series_and_labels() -> None:
    found = difference(surface(OLD), surface(NEW))
    assert (found.series_before, found.series) == (4, 3)
    assert {one.family: one for one in found.families} == {
        "a_total": FamilyDifference(
            family="a_total", change="changed", type="counter", series=1, series_before=2, labels_added=("pod",)
        ),
        "b": FamilyDifference(
            family="b",
            change="changed",
            type="histogram",
            type_before="gauge",
            series=1,
            series_before=1,
            labels_added=("le",),
        ),
        "c": FamilyDifference(family="c", change="removed", type="gauge", series=1),
        "d": FamilyDifference(family="d", change="added", type="gauge", series=1),
    }


TEXTS = st.lists(
    st.sampled_from(
        [
            family("a_total", "counter", '{op="x"}'),
            family("b", "gauge"),
            family("c", "gauge", '{k="1"}', '{k="2"}'),
            family("d", "gauge", '{k="1",l="2"}'),
        ]
    ),
    unique=True,
)


@given(TEXTS, TEXTS)
def test_what_is_added_one_way_is_removed_the_other(old: list[str], new: list[str]) -> None:
    there, back = surface("".join(old)), surface("".join(new))
    added = {one.family for one in difference(there, back).families if one.change == "added"}
    removed = {one.family for one in difference(back, there).families if one.change == "removed"}
    assert added == removed
    assert difference(there, there).families == ()
