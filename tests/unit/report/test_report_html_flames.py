"""Flame graphs: what is pruned is added up, and nothing else changes."""

from __future__ import annotations

import io
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_grovescale.analysis.profiles import folded
from pytest_grovescale.analysis.profiles.stacks import StackCounter, Stacks
from pytest_grovescale.report.html import profiles
from pytest_grovescale.report.html.profiles import OTHER, ROOT, Flame, difference_of, flame_of


def stacks_of(text: str) -> Stacks:
    counter = StackCounter()
    folded.feed(counter, io.BytesIO(text.encode()))
    return counter.stacks()


def paths(flame: Flame, column: tuple[float, ...]) -> dict[tuple[str, ...], float]:
    """Return path → weight of every call in a flame graph."""
    found: dict[tuple[str, ...], float] = {}
    path: list[str] = []
    for depth, frame, value in zip(flame.depths, flame.frames, column, strict=True):
        path[depth:] = [flame.names[frame]]
        found[tuple(path[1:])] = value
    return found


def calls(stacks: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    """Return path → weight of every call, pruned of nothing."""
    found: dict[tuple[str, ...], int] = defaultdict(int)
    for stack, weight in stacks.items():
        for depth in range(len(stack) + 1):
            found[stack[:depth]] += weight
    return found


Profiles = st.dictionaries(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6).map(tuple),
    st.integers(1, 3000),
    min_size=1,
    max_size=60,
)


def text_of(stacks: dict[tuple[str, ...], int]) -> str:
    return "".join(f"{';'.join(stack)} {weight}\n" for stack, weight in stacks.items())


def test_a_small_profile_is_shown_as_it_is() -> None:
    flame = flame_of(stacks_of("main;a;b 10\nmain;a 5\nmain;c 2\n"))
    assert flame is not None
    assert paths(flame, flame.values) == {
        (): 17, ("main",): 17, ("main", "a"): 15, ("main", "a", "b"): 10, ("main", "c"): 2
    }  # fmt: skip
    assert (flame.names[-2:], flame.pruned, flame.before, flame.unit) == ((OTHER, ROOT), 0, (), "samples")


@given(Profiles)
def test_pruned_calls_are_small_and_added_up_and_all_others_stay_as_they_were(
    stacks: dict[tuple[str, ...], int],
) -> None:
    flame = flame_of(stacks_of(text_of(stacks)))
    assert flame is not None
    whole, shown = calls(stacks), paths(flame, flame.values)
    assert shown[()] == sum(stacks.values())
    least = flame.min_share * shown[()]
    for path, weight in shown.items():
        if path[-1:] != (OTHER,):
            assert weight == whole[path]
            children = {p: w for p, w in whole.items() if p[:-1] == path and len(p) == len(path) + 1}
            small = sum(w for w in children.values() if w < least)
            assert shown.get((*path, OTHER), 0) == small
            assert all(p in shown for p, w in children.items() if w >= least)


@given(Profiles, Profiles)
@settings(max_examples=50)
def test_a_difference_holds_the_shares_of_both(
    before: dict[tuple[str, ...], int], after: dict[tuple[str, ...], int]
) -> None:
    flame = difference_of(stacks_of(text_of(before)), stacks_of(text_of(after)))
    assert flame is not None
    assert flame.unit == "share"
    for column, stacks in ((flame.before, before), (flame.values, after)):
        whole, total = calls(stacks), sum(stacks.values())
        for path, share in paths(flame, column).items():
            if OTHER not in path:
                assert share == pytest.approx(whole.get(path, 0) / total, rel=1e-4)
                assert (share == 0) == (path not in whole)


def test_a_difference_is_of_cpu_seconds_where_those_are_known() -> None:
    flame = difference_of(stacks_of("m;a 1\nm;gone 1\n"), stacks_of("m;a 4\n"), before_cpu_s=2.0, after_cpu_s=3.0)
    assert flame is not None
    assert flame.unit == "cpu-seconds"
    assert paths(flame, flame.before)["m", "a"] == 1.0
    assert paths(flame, flame.values)["m", "a"] == 3.0
    assert paths(flame, flame.before)["m", "gone"] == 1.0
    assert paths(flame, flame.values)["m", "gone"] == 0


def test_a_wide_profile_is_pruned_until_it_fits() -> None:
    text = "".join(f"main;f{n};g{n};h{n} {1000 + n % 7}\n" for n in range(900))
    flame = flame_of(stacks_of(text * 2 + "".join(f"main;small{n} 1\n" for n in range(5000))))
    assert flame is not None
    assert len(flame.depths) <= profiles.MAX_FRAMES
    assert paths(flame, flame.values)["main", OTHER] >= 5000
    assert flame.pruned >= 5000


def test_so_many_calls_that_only_a_higher_bound_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MAX_FRAMES", 100)
    flame = flame_of(stacks_of("".join(f"main;f{n};g{n} 1\n" for n in range(400))))
    assert flame is not None
    assert flame.min_share == 0.004
    assert paths(flame, flame.values) == {(): 400, ("main",): 400, ("main", OTHER): 400}


def test_a_recursion_is_as_deep_as_a_page_can_show() -> None:
    flame = flame_of(stacks_of(";".join(["f"] * 5000) + " 7\n"))
    assert flame is not None
    assert max(flame.depths) == profiles.MAX_DEPTH


def test_stacks_beyond_the_limit_are_part_of_the_whole() -> None:
    counter = StackCounter(max_stacks=1)
    folded.feed(counter, io.BytesIO(b"a 3\nb 4\n"))
    flame = flame_of(counter.stacks())
    assert flame is not None
    assert paths(flame, flame.values) == {(): 7, ("a",): 3}


def test_a_profile_without_samples_has_no_graph() -> None:
    assert flame_of(stacks_of("")) is None
    assert difference_of(stacks_of(""), stacks_of("a 1\n")) is None
