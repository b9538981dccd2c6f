"""What programs outside a comparison took of the cores: two recordings of one machine with the truth known."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.analyse import contents_of
from pytest_grovescale.analysis.contention import (
    OF_CONTENTION,
    PairContention,
    RunContention,
    contention_of_run,
    described,
    is_contended,
    remarks,
    worst_of,
)
from pytest_grovescale.analysis.recording_index import Contents
from pytest_grovescale.recording import records as rec

from .simulated import S, Simulation

CORES = 2


def recording(
    api_server: float, *, first_pid: int, seconds: int = 10, steal: float = 0.0, busy: float = 0.0, api: bool = True
) -> Contents:
    """A phase from second 1 on, in which an API server and an operator use ``api_server`` and 0.25 cores.

    ``busy`` and ``steal`` are of the whole machine, in cores; its counters and the clocks are read once a second.
    """
    sim = Simulation()
    sim.phase("deploy", 1_000, 1_000 * (seconds + 1))
    for second in range(seconds + 3):
        at = sim.at(1_000 * second)
        times = rec.CoreTimes(
            cores=CORES,
            busy_ns=round(busy * second * S),
            idle_ns=S,
            iowait_ns=0,
            steal_ns=round(steal * second * S),
        )
        edge = {1: "start:deploy", seconds + 1: "end:deploy"}.get(second, "")
        sim.add(rec.MachineRead(at=at, times=times, edge=edge))
        clocks = [("kube-apiserver", api_server), ("operator", 0.25)][0 if api else 1 :]
        for number, (process, cores) in enumerate(clocks):
            pid = first_pid + number
            read = rec.CpuRead(
                at=at, process=process, pid=pid, cpu_ns=round(cores * second * S), rss_bytes=1, edge=edge
            )
            sim.add(read)
    return contents_of(record for record in sim.records() if isinstance(record, OF_CONTENTION))


def test_what_the_partner_used_is_no_contention() -> None:
    a = recording(0.5, first_pid=10, busy=1.6)
    b = recording(0.4, first_pid=20, busy=1.6)
    # 1.6 - (0.5 + 0.25) - (0.4 + 0.25) of 2 cores.
    assert contention_of_run(a, ["deploy"], [b]).share == pytest.approx(0.1)
    assert contention_of_run(b, ["deploy"], [a]).share == pytest.approx(0.1)
    assert contention_of_run(a, ["deploy"]).share == pytest.approx(0.425)


def test_only_the_time_that_both_recordings_cover_counts() -> None:
    longer, sooner = recording(0.5, first_pid=10, busy=1.4, seconds=20), recording(0.4, first_pid=20, seconds=4)
    assert contention_of_run(longer, ["deploy"], [sooner]).share == pytest.approx(0.0)


def test_a_process_that_both_recordings_measure_counts_once() -> None:
    a, b = recording(0.5, first_pid=10, busy=0.75), recording(0.5, first_pid=10, busy=0.75)
    assert contention_of_run(a, ["deploy"], [b]).share == pytest.approx(0.0)


def test_steal_is_contention() -> None:
    found = contention_of_run(recording(0.5, first_pid=10, busy=0.75, steal=0.6), ["deploy"])
    assert found.share == found.steal_share == pytest.approx(0.3)
    assert described(found) == "30 % in deploy, steal 30 %"
    assert is_contended(found, 0.25)
    assert not is_contended(found, 0.3)
    assert not is_contended(found, None)


def test_what_was_not_measured_is_not_contended() -> None:
    elsewhere = contention_of_run(recording(0.5, first_pid=10, busy=1.9, api=False), ["deploy"])
    assert (elsewhere.share, is_contended(elsewhere, 0.25)) == (None, False)
    assert "API server" in elsewhere.why_not
    assert contention_of_run(recording(0.5, first_pid=10), ["delete"]).share is None
    # Of a pair, one run that was not measured is enough: it may have been the contended one.
    assert worst_of([RunContention(share=0.1), None]).share is None
    assert worst_of([RunContention(share=0.1), RunContention(share=0.2)]).share == 0.2


def account(*shares: float | None, discarded: int = 0) -> list[PairContention]:
    """The pairs of a comparison; ``discarded``: so many times pair 2 was made before."""
    runs = [RunContention(share=share, phase="deploy", why_not="" if share else "no /proc/stat") for share in shares]
    found = [
        PairContention(pair=1 + at, contention=run, contended=is_contended(run, 0.25)) for at, run in enumerate(runs)
    ]
    again = PairContention(pair=2, contention=RunContention(share=0.43, phase="deploy"), contended=True, discarded=True)
    return [found[0], *[again] * discarded, *found[1:]]


def test_remarks_say_which_pairs_were_discarded_and_which_stay(snapshot: SnapshotAssertion) -> None:
    def said(*shares: float | None, discarded: int = 0, repeats: int = 4) -> list[str]:
        return remarks(account(*shares, discarded=discarded), limit=0.25, repeats=repeats, warmup=1)

    assert said(0.01, 0.02) == []
    (again,) = said(0.01, 0.02, discarded=1)
    assert again.endswith(": pair 2 (43 % in deploy)")
    assert again == snapshot(name="discarded")
    # Of the warm-up there are no figures.
    assert said(0.9, 0.02) == []
    (stay,) = said(0.01, 0.3, 0.5, repeats=0)
    assert stay.startswith("2 pairs ")
    assert stay.endswith("pair 2 (30 % in deploy), pair 3 (50 % in deploy)")
    assert stay == snapshot(name="stays")
    (unknown,) = said(0.01, None)
    assert unknown.endswith(": no /proc/stat")
    assert unknown == snapshot(name="not measured")
    assert remarks(account(0.9, 0.9), limit=None, repeats=0, warmup=1) == []
