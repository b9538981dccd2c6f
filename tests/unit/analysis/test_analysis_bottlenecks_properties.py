"""What holds of every bottleneck table, whatever happened in the phase."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.analysis.bottlenecks.attribution import ACROSS
from pytest_grovescale.analysis.bottlenecks.object_waits import Wait, Waits
from pytest_grovescale.analysis.bottlenecks.operator_activity import activity, limited_shares, without_limited
from pytest_grovescale.analysis.bottlenecks.wait_graph import SERVER, Turns, take_out, turns
from pytest_grovescale.analysis.cpu import Demand, Window
from pytest_grovescale.analysis.phase_result import PhaseResult
from pytest_grovescale.recording import records as rec

from .simulated import S, Simulation, full_run

END = 10 * S
ACTORS = {name: name for name in ("operator", "scheduler", "kwok")}

moments = st.integers(0, END)
spans = st.tuples(moments, moments).map(lambda pair: (min(pair), max(pair)))
waits = st.lists(
    st.tuples(st.sampled_from([*ACTORS, "stranger"]), spans).map(lambda pair: Wait(pair[0], *pair[1])), max_size=12
)
cuts = st.lists(st.integers(1, END - 1), max_size=6, unique=True).map(
    lambda inside: [Window(low, high) for low, high in pairwise([0, *sorted(inside), END])]
)


flights = st.dictionaries(st.sampled_from(list(ACTORS)), st.lists(spans, max_size=6))
asked = st.dictionaries(
    st.sampled_from([*ACTORS, SERVER, "shared"]),
    st.builds(Demand, st.floats(0, 4), st.none() | st.floats(0, 50)),
)


def own(turn: Turns) -> float:
    return turn.in_flight + turn.alone + turn.shared


@given(counted=waits, named=waits, in_flight=flights, windows=cuts)
def test_turns_add_up_to_their_windows(
    counted: list[Wait], named: list[Wait], in_flight: dict[str, list[tuple[int, int]]], windows: list[Window]
) -> None:
    for window, turn in zip(windows, turns(Waits(counted, named), ACTORS, in_flight, windows), strict=True):
        assert own(turn) + sum(turn.others.values()) + turn.idle == pytest.approx(window.ns / 1e9)
        assert sum(turn.beside.values()) == pytest.approx(turn.shared)
        assert all(turn.others_in_flight.get(actor, 0.0) <= of + 1e-9 for actor, of in turn.others.items())


@given(
    counted=waits,
    in_flight=flights,
    windows=cuts,
    asks=asked,
    process_of=st.sampled_from([{}, {"scheduler": "shared", "kwok": "shared"}]),
)
def test_what_is_taken_out_of_turns_and_what_is_left_add_up(
    counted: list[Wait],
    in_flight: dict[str, list[tuple[int, int]]],
    windows: list[Window],
    asks: dict[str, Demand],
    process_of: dict[str, str],
) -> None:
    found = turns(Waits(counted, []), ACTORS, in_flight, windows)
    taken = take_out(found, {actor: [demand] * len(windows) for actor, demand in asks.items()}, process_of)
    left = sum(own(turn) + sum(turn.others.values()) for turn in taken.turns)
    before = sum(own(turn) + sum(turn.others.values()) for turn in found)
    assert left + (taken.cpu or 0.0) + sum(taken.waiting.values()) == pytest.approx(before)
    assert taken.waiting.keys() == {actor for actor, demand in asks.items() if demand.waiting_s is not None}
    for turn in taken.turns:
        parts = [turn.in_flight, turn.alone, turn.shared, *turn.beside.values(), *turn.others.values()]
        assert all(part >= -1e-9 for part in parts)
        assert sum(turn.beside.values()) == pytest.approx(turn.shared)
    for actor, seconds in taken.waiting.items():
        assert 0 <= seconds <= len(windows) * (asks[actor].waiting_s or 0.0) + 1e-9


@given(
    counted=waits,
    in_flight=st.lists(spans, max_size=6),
    windows=cuts,
    requests_s=st.floats(0, 100),
    limited_s=st.none() | st.floats(0, 1000),
)
def test_what_the_operator_did_adds_up_to_its_turns(
    counted: list[Wait],
    in_flight: list[tuple[int, int]],
    windows: list[Window],
    requests_s: float,
    limited_s: float | None,
) -> None:
    found = turns(Waits(counted, []), ACTORS, {"operator": in_flight}, windows)
    left, limit = without_limited(found, limited_shares(found, limited_s or 0.0))
    rest = None if limited_s is None else max(0.0, limited_s - limit)
    mine = activity(left, requests_s=requests_s, limited_s=rest)
    parts = [limit, mine.api, mine.limited or 0.0, mine.still, *mine.passed_on.values()]
    assert all(part >= -1e-9 for part in parts)
    assert sum(parts) == pytest.approx(sum(map(own, found)))
    assert (mine.limited is None) == (limited_s is None)
    assert limit + (mine.limited or 0.0) <= (limited_s or 0.0) + 1e-9


@given(counted=waits, in_flight=st.lists(spans, max_size=6), more=st.integers(1, 5 * S))
def test_idle_time_is_unattributed(counted: list[Wait], in_flight: list[tuple[int, int]], more: int) -> None:
    """Ten seconds in which something happens, then some in which nothing does."""
    flying = {"operator": in_flight}
    once = activity(turns(Waits(counted, []), ACTORS, flying, [Window(0, END)]), requests_s=1, limited_s=None)
    longer = turns(Waits(counted, []), ACTORS, flying, [Window(0, END), Window(END, END + more)])
    again = activity(longer, requests_s=1, limited_s=None)
    assert again == once
    assert longer[1].idle == pytest.approx(more / 1e9)


def _tables(sim: Simulation) -> list[PhaseResult]:
    return list(analyse(sim.records()).phases)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
def test_no_row_exceeds_its_phase_and_the_parts_add_up(seed: int, n: int) -> None:
    for phase in _tables(full_run(n, seed=seed)):
        for row in phase.bottlenecks:
            assert 0 <= row.seconds <= phase.seconds + 1e-9
            assert row.share == pytest.approx(row.seconds / phase.seconds)
        if phase.bottlenecks:
            parts = sum(row.seconds for row in phase.bottlenecks if row.suspect not in ACROSS)
            assert parts == pytest.approx(phase.seconds, rel=1e-6)
        assert [row.seconds for row in phase.bottlenecks] == sorted(
            (r.seconds for r in phase.bottlenecks), reverse=True
        )


@settings(max_examples=25)
@given(cut=st.integers(1, 400), seed=st.integers(0, 1000))
def test_a_recording_cut_anywhere_has_no_table_that_it_cannot_prove(cut: int, seed: int) -> None:
    records = full_run(4, seed=seed).records()
    phases = analyse(records[: min(cut, len(records))]).phases
    for phase in phases:
        suspects = {row.suspect for row in phase.bottlenecks}
        if not phase.audit_complete:
            assert suspects <= ACROSS
            assert "bottlenecks" in phase.missing


@settings(max_examples=20)
@given(hold_ms=st.integers(1, 60_000), seed=st.integers(0, 1000))
def test_a_hold_grows_only_its_row(hold_ms: int, seed: int) -> None:
    def deployed(end: float) -> PhaseResult:
        sim = full_run(3, seed=seed)
        sim.items = [item for item in sim.items if not _later(item[2], sim.at(6012))]
        for process, cores in (("operator", 0.4), ("kube-apiserver", 0.8)):
            sim.cpu(process, 6012, 1 + cores * 6.012)
            sim.cpu(process, end - 1, 1 + cores * 6.012, edge="end:deploy")
        sim.add(rec.PhaseEnded(at=sim.at(end), phase="deploy", outcome="passed"))
        return _tables(sim)[0]

    short, long = deployed(6100), deployed(6100 + hold_ms)
    before = {row.suspect: row.seconds for row in short.bottlenecks}
    after = {row.suspect: row.seconds for row in long.bottlenecks}
    assert after.keys() == before.keys()
    assert after.pop("held") - before.pop("held") == pytest.approx(hold_ms / 1000)
    assert after == pytest.approx(before)


def _later(record: rec.AnyRecord, at: int) -> bool:
    """Whether a record of the whole run is of what comes after its deployment."""
    return record.at > at or isinstance(record, rec.PhaseEnded) or getattr(record, "edge", "").startswith("end:")
