"""What a reader must know of a recording's holes, in words."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from pytest_grovescale import checks
from pytest_grovescale.analysis.analyse import analyse
from pytest_grovescale.checks.judge import judge
from pytest_grovescale.checks.run import Run
from pytest_grovescale.recording import records as rec

from .simulated import S, Simulation, full_run


def test_a_whole_recording_has_no_warnings() -> None:
    assert analyse(full_run(3).records()).warnings == ()


def test_each_hole_is_reported_once_with_its_phase(snapshot: SnapshotAssertion) -> None:
    sim = full_run(3)
    for index in range(2):
        sim.add(rec.SourceFailed(at=sim.at(200), source="scrape:operator", message="refused"))
        sim.add(rec.WatchGap(at=sim.at(300 + index), watch="w0", reason="too old", length_ns=2 * S))
    sim.add(rec.ClockStep(at=sim.at(400), offset_ns=-3 * S))
    warnings = analyse(sim.records()).warnings
    assert len(warnings) == 3
    assert " 2.00 s " in warnings[1]
    assert "\n".join(warnings) == snapshot


def test_cuts_are_counted_and_are_no_warning() -> None:
    sim = full_run(3)
    for moment in (200, 300):
        sim.add(rec.WatchCut(at=sim.at(moment), watch="w0", reason="ended by the server", length_ns=S // 4))
    result = analyse(sim.records())
    assert result.warnings == ()
    assert (result.watches[0].cuts, result.watches[0].cut_s, result.watches[1].cuts) == (2, 0.5, 0)
    assert (result.watches[0].resource, result.watches[0].events) == ("pods", 15)


def test_how_it_ended() -> None:
    sim = Simulation()
    assert "killed" in analyse(sim.records()).warnings[0]
    sim.add(rec.Closed(at=sim.at(10), reason="journal-full", message="no space left"))
    (warning,) = analyse(sim.records()).warnings
    assert warning.endswith("any more: no space left")


def test_the_recordings_early_end_is_the_first_reason_why_a_figure_is_missing() -> None:
    """Its open phase ended nowhere; a phase that had ended before keeps its own reasons, and its figures."""
    sim = full_run(3)
    records = list(sim.records())
    ended = [at for at, record in enumerate(records) if isinstance(record, rec.PhaseEnded)]
    cut = [*records[: ended[1]], rec.Closed(at=records[ended[1]].at, reason="journal-full", message="no space left")]
    test = analyse(cut)
    assert (test.phases[0].outcome, test.phases[1].outcome) == ("passed", "unfinished")
    early = "the recording ends early: the journal could not be written any more: no space left"
    missing = test.phases[1].missing
    assert missing["audit"] == early
    assert all(why.startswith(early) for why in missing.values()), missing
    assert not any(early in why for why in test.phases[0].missing.values())
    never = judge(checks.Milestone("gone", max="1s", phase="never-begun"), Run(test))
    assert never.verdict == "inconclusive"
    assert never.text.startswith(early)
    assert test.verdict == "error"


def test_a_clock_step_moves_server_times_with_it() -> None:
    """The API server's clock jumps an hour back long before a phase: its times still line up with the watch's."""
    sim = full_run(5)
    records = []
    hour = 3600 * S
    records = [
        rec.Request(
            **{
                **{f: getattr(r, f) for f in r.__struct_fields__},
                "received_wall": r.received_wall - hour,
                "completed_wall": r.completed_wall - hour,
            }
        )
        if isinstance(r, rec.Request)
        else r
        for r in sim.records()
    ]
    records.insert(1, rec.ClockStep(at=sim.at(0) - 10 * S, offset_ns=-hour))
    shifted, plain = analyse(records), analyse(sim.records_made)
    assert shifted.phases == plain.phases
    assert shifted.watch_lag == plain.watch_lag


def test_near_a_clock_step_server_times_say_how_uncertain_they_are() -> None:
    sim = full_run(5)
    sim.add(rec.ClockStep(at=sim.at(600), offset_ns=5_000_000))
    ready = analyse(sim.records()).phases[0].milestones[1]
    assert ready.server_s is not None
    assert ready.uncertainty_s == 0.005


def test_marks_are_paired_and_lines_are_kept_with_their_phase() -> None:
    sim = full_run(3)
    sim.add(rec.Mark(at=sim.at(110), label="apply", state="begin", detail="PodCliqueSet pcs", count=1))
    sim.add(rec.Mark(at=sim.at(150), label="apply", state="end"))
    sim.add(rec.Mark(at=sim.at(160), label="note"))
    sim.add(rec.Lines(at=sim.at(170), source="log:operator", lines=["a", "b"]))
    result = analyse(sim.records())
    apply, note = result.phases[0].marks
    assert (apply.label, apply.started_s, apply.ended_s, apply.count) == ("apply", 0.01, 0.05, 1)
    assert (note.label, note.ended_s) == ("note", None)
    assert (result.evidence[0].phase, result.evidence[0].lines) == ("deploy", ("a", "b"))
