"""Scrapes as the recorder process makes them: in its rhythm, at edges, and not at all while it must be quiet."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pytest_grovescale.endpoints import Address
from pytest_grovescale.kube.access import Access
from pytest_grovescale.procfs import started_ticks
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.protocol import PhaseComplete
from pytest_grovescale.recording.recorder import Recorder, RecorderConfig, ScrapeTarget
from pytest_grovescale.recording.records import (
    SCHEMA_VERSION,
    AnyRecord,
    Opened,
    PhaseEnded,
    PhaseStarted,
    Scraped,
    SourceFailed,
    TargetGone,
    TargetSeen,
)
from pytest_grovescale.recording.scrape_targets import AtUrl, OfProcess
from tests.serving import Reply, Request, serving
from tests.waiting import wait_until

NOWHERE = Access(server="https://127.0.0.1:1", insecure=True)
"""Nobody here asks an API server."""

TICK = 0.05


class Metrics:
    """A counter of the times that it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.url = ""

    def reply(self, _: Request) -> Reply:
        self.asked += 1
        return Reply(f"asked_total {self.asked}\n".encode())


@contextmanager
def metrics() -> Iterator[Metrics]:
    found = Metrics()
    with serving(found.reply) as port:
        found.url = f"http://127.0.0.1:{port}/metrics"
        yield found


@contextmanager
def recorder(folder: Path, *targets: ScrapeTarget, interval: float = TICK) -> Iterator[Recorder]:
    config = RecorderConfig(
        journal=str(folder / "recording.jsonl"),
        opened=Opened(at=0, schema_version=SCHEMA_VERSION, run="r", test="t", version="0", machine=machine()),
        access=NOWHERE,
        extra_processes={"harness": (os.getpid(), started_ticks(os.getpid()))},
        scrape_targets=targets,
        scrape_interval_s=interval,
    )
    running = Recorder.start(config, log=folder / "recorder.log")
    try:
        yield running
    finally:
        running.stop()
        assert (folder / "recorder.log").read_text() == ""


def at(server: Metrics, name: str = "it") -> ScrapeTarget:
    return ScrapeTarget(name=name, place=AtUrl(address=Address(url=server.url)))


def read(running: Recorder, *kinds: type[AnyRecord]) -> list[AnyRecord]:
    if running.alive():
        running.flush()
    return [record for record in journal.read(running.journal) if isinstance(record, kinds)]


def seen_at(running: Recorder) -> list[str]:
    """Return where the target was found, in order."""
    return [record.url for record in read(running, TargetSeen) if isinstance(record, TargetSeen)]


def of_phase(records: list[AnyRecord], phase: str) -> list[str]:
    """Return the edges of the scrapes of a phase, in order; empty for those between."""
    started = next(r.at for r in records if isinstance(r, PhaseStarted) and r.phase == phase)
    ended = next(r.at for r in records if isinstance(r, PhaseEnded) and r.phase == phase)
    edges = (f"start:{phase}", f"end:{phase}")
    return [r.edge for r in records if isinstance(r, Scraped) and (r.edge in edges or started <= r.at <= ended)]


def test_a_phase_is_scraped_between_its_edges_unless_it_must_be_quiet(tmp_path: Path) -> None:
    with metrics() as server, recorder(tmp_path, at(server)) as running:
        for phase in ("open", "edges", "hushed"):
            running.begin_phase(phase, [], timeout=60, hold=10 * TICK, edges_only=phase == "edges")
            if phase == "hushed":
                running.quiet_phase()
            while not isinstance(running.wait(60), PhaseComplete):
                pass
            running.end_phase(phase, "passed")
        asked = server.asked
        wait_until(lambda: server.asked >= asked + 2, "scrapes after the last phase")
    records = read(running, PhaseStarted, PhaseEnded, Scraped)
    assert of_phase(records, "open")[1:-1].count("") >= 3
    assert of_phase(records, "edges") == ["start:edges", "end:edges"]
    assert of_phase(records, "hushed") == ["start:hushed", "end:hushed"]


def test_without_an_interval_only_the_edges_of_phases_are_scraped(tmp_path: Path) -> None:
    with metrics() as server, recorder(tmp_path, at(server), interval=0) as running:
        running.begin_phase("p", [], timeout=60)
        running.end_phase("p", "passed")
        assert server.asked == 2
    assert of_phase(read(running, PhaseStarted, PhaseEnded, Scraped), "p") == ["start:p", "end:p"]


def test_a_process_that_moves_its_port_is_followed(tmp_path: Path) -> None:
    """The process is this one: it is measured as `harness`."""
    with ExitStack() as listening:
        first = listening.enter_context(metrics())
        place = OfProcess(process="harness", address=Address(url=first.url))
        with recorder(tmp_path, ScrapeTarget(name="harness", place=place)) as running:
            wait_until(lambda: seen_at(running) == [first.url], "the first scrape")
            with metrics() as second:
                listening.close()
                # Not until it is asked: one that a busy machine answers too late is asked again.
                wait_until(lambda: seen_at(running)[-1] == second.url, "a scrape of the new port")
                running.stop()


def test_targets_are_added_and_removed_by_name(tmp_path: Path) -> None:
    with metrics() as server, recorder(tmp_path) as running:
        running.add_target(at(server, "late"))
        wait_until(lambda: server.asked >= 2, "scrapes")
        running.remove_target("late")
        running.remove_target("late")
        asked = server.asked
        running.begin_phase("p", [], timeout=60)
        running.end_phase("p", "passed")
        assert server.asked == asked
    assert len(read(running, TargetGone)) == 1
    assert not read(running, SourceFailed)


@pytest.mark.parametrize("reason", ["stopped", "interrupted"])
def test_it_stops_in_the_middle_of_a_scrape(tmp_path: Path, reason: str) -> None:
    asked, released = threading.Event(), threading.Event()

    def hanging(_: Request) -> Reply:
        asked.set()
        released.wait()
        return Reply()

    with serving(hanging) as port:
        address = Address(url=f"http://127.0.0.1:{port}/metrics")
        try:
            with recorder(tmp_path, ScrapeTarget(name="hangs", place=AtUrl(address=address))) as running:
                assert asked.wait(30)
                running.stop("stopped" if reason == "stopped" else "interrupted")
                assert not running.alive()
        finally:
            released.set()
    assert not read(running, SourceFailed, Scraped)
