"""Cost of the recorder's scrapers, and isolation of targets from each other.

- 500 targets of 500 series, a fifth of which change from scrape to scrape, every 5 s, served on loopback by a program
  of its own: CPU time of the recorder process by its exact clock, in windows of one interval; in both formats that
  programs serve. The cost without targets is reported beside it.
- Lateness of scrapes against each target's own grid, with and without a target that never answers, alternating.
- A port that moves: from the move to the first scrape at the new one, in intervals.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from pytest_grovescale.endpoints import Address
from pytest_grovescale.kube.access import Access
from pytest_grovescale.procfs import Identity, started_ticks
from pytest_grovescale.recording import journal
from pytest_grovescale.recording.machine import machine
from pytest_grovescale.recording.process_table import usage
from pytest_grovescale.recording.recorder import Recorder, RecorderConfig, ScrapeTarget
from pytest_grovescale.recording.records import SCHEMA_VERSION, Opened, Scraped, SourceFailed, TargetSeen
from pytest_grovescale.recording.scrape_targets import AtUrl, OfProcess
from pytest_grovescale.recording.scraping.target import due, offset

from .rows import Row, at_most, reported

PROGRAM = Path(__file__).resolve().parent / "programs" / "metrics_endpoints.py"
TARGETS = 500
SERIES = 500
INTERVAL_S = 5.0
WINDOWS = 6
SETTLING_S = 2 * INTERVAL_S
"""Each target's first scrape is expensive: all of it is new."""

COST_BOUND = 25.0
LATE_TARGETS = 50
LATE_INTERVAL_S = 1.0
LATE_S = 15.0
LATE_ROUNDS = 3
LATE_BOUND_MS = 5.0
MOVES = 15
NOWHERE = Access(server="https://127.0.0.1:1", insecure=True)

Format = Literal["text", "protobuf"]
T = TypeVar("T")


class Endpoints(NamedTuple):
    """The program, running."""

    process: subprocess.Popen[bytes]
    ports: list[int]
    silent: int
    """Accepts connections and never answers."""

    def move(self) -> int:
        """Move the first endpoint to another port; return that."""
        assert self.process.stdin is not None  # a pipe
        assert self.process.stdout is not None
        self.process.stdin.write(b"move\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def targets(self) -> tuple[ScrapeTarget, ...]:
        return tuple(_target(f"target-{number}", port) for number, port in enumerate(self.ports))


def measure(*, quick: bool = False) -> list[Row]:
    """Return the rows; ``quick``: a tenth of the targets, windows and moves."""
    tenth = 10 if quick else 1
    return [
        *(_cost(form, TARGETS // tenth, max(WINDOWS // tenth, 2)) for form in _FORMATS),
        _idle(max(WINDOWS // tenth, 2)),
        *_lateness(LATE_TARGETS // tenth, LATE_S / tenth),
        _moves(MOVES // tenth),
    ]


_FORMATS: tuple[Format, ...] = ("text", "protobuf")


# ---- cost


def _cost(form: Format, targets: int, windows: int) -> Row:
    with _endpoints(targets, form) as endpoints, _recorder(endpoints.targets(), INTERVAL_S) as recorder:
        recorder.begin_phase("scraping", [], timeout=3600)
        # After a phase's edge scrapes, the loops do not scrape again before an interval has passed.
        time.sleep(INTERVAL_S + SETTLING_S)
        began = time.time_ns()
        shares = _shares(recorder, windows)
        ended = time.time_ns()
        recorder.flush()
        found = [scrape for scrape in _records(recorder, Scraped) if began <= scrape.at <= ended]
        failed = _records(recorder, SourceFailed)
    if failed:
        raise RuntimeError(f"{len(failed)} scrapes failed: {failed[0].message}")
    expected = targets * windows
    if not 0.95 * expected <= len(found) <= 1.05 * expected:
        raise RuntimeError(f"{len(found)} scrapes in {windows} intervals of {targets} targets")
    changed = statistics.mean(len(scrape.samples) for scrape in found) / SERIES
    return at_most(
        f"scraping {targets} targets, {form}",
        100 * statistics.median(shares),
        "% core",
        COST_BOUND,
        spread=[100 * share for share in shares],
        how=f"{len(found)} scrapes of {SERIES} series in {windows} windows of {INTERVAL_S:g} s, "
        f"{100 * changed:.0f} % of the series changed in each; spread: smallest and largest window",
    )


def _idle(windows: int) -> Row:
    with _recorder((), INTERVAL_S) as recorder:
        recorder.begin_phase("nothing", [], timeout=3600)
        shares = _shares(recorder, windows)
    percent = [100 * share for share in shares]
    return reported("the recorder without a target", statistics.median(percent), "% core", spread=percent)


def _shares(recorder: Recorder, windows: int) -> list[float]:
    """Return the recorder's CPU time / wall time in windows of one interval: each target is scraped once in it."""
    process = Identity(recorder.pid, started_ticks(recorder.pid))
    shares = []
    for _ in range(windows):
        before, began = _cpu_ns(process), time.monotonic_ns()
        time.sleep(INTERVAL_S)
        shares.append((_cpu_ns(process) - before) / (time.monotonic_ns() - began))
    return shares


def _cpu_ns(process: Identity) -> int:
    used = usage(process)
    if used is None:
        raise RuntimeError("the recorder has ended")
    return used.cpu_ns


# ---- effect of a hanging target


def _lateness(targets: int, seconds: float) -> list[Row]:
    spans: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    with (
        _endpoints(targets, "text") as endpoints,
        _recorder(endpoints.targets(), LATE_INTERVAL_S) as recorder,
    ):
        recorder.begin_phase("lateness", [], timeout=3600)
        time.sleep(3 * LATE_INTERVAL_S)
        for _ in range(LATE_ROUNDS):
            for hanging in (False, True):
                if hanging:
                    recorder.add_target(_target("hangs", endpoints.silent))
                began = time.time_ns()
                time.sleep(seconds)
                spans[hanging].append((began, time.time_ns()))
                recorder.remove_target("hangs")
        recorder.flush()
        late = _late_ms([scrape for scrape in _records(recorder, Scraped) if not scrape.edge])
    alone, beside = (
        [ms for at, ms in late if any(began <= at <= ended for began, ended in spans[hanging])]
        for hanging in (False, True)
    )
    how = f"{len(alone)} scrapes of {targets} targets without it, {len(beside)} beside it"
    delay = _percentile(beside, 99) - _percentile(alone, 99)
    return [
        at_most("delay by a hanging target, p99", max(delay, 0.0), "ms", LATE_BOUND_MS, how=how),
        reported(
            "lateness beside it, p99",
            _percentile(beside, 99),
            "ms",
            spread=[statistics.median(beside), max(beside)],
            how="spread: median and largest",
        ),
        reported(
            "lateness without it, p99",
            _percentile(alone, 99),
            "ms",
            spread=[statistics.median(alone), max(alone)],
            how="spread: median and largest",
        ),
    ]


def _late_ms(scrapes: Sequence[Scraped]) -> list[tuple[int, float]]:
    """Return (when, how late) of scrapes, ms after the due time in the target's grid; the least late one counts as 0.

    The recorder's clock runs with the monotonic clock of the grid; their difference is the same for all scrapes, and is
    estimated from the least late one.
    """
    apart = time.time_ns() - time.monotonic_ns()
    late = []
    for scrape in scrapes:
        began = (scrape.at - scrape.took_ns - apart) / 1e9
        # Slightly earlier, so that a small clock error does not make a prompt scrape an interval late.
        moment = due(began - LATE_INTERVAL_S / 2, LATE_INTERVAL_S, offset(scrape.target, LATE_INTERVAL_S))
        late.append((scrape.at, (began - moment) * 1e3))
    promptest = min(ms for _, ms in late)
    return [(at, ms - promptest) for at, ms in late]


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


# ---- a port that moves


def _moves(moves: int) -> Row:
    waits = []
    with _endpoints(1, "text") as endpoints:
        place = OfProcess(process="endpoints", address=_address(endpoints.ports[0]))
        target = ScrapeTarget(name="moving", place=place)
        pid = endpoints.process.pid
        with _recorder((target,), LATE_INTERVAL_S, extra={"endpoints": (pid, started_ticks(pid))}) as recorder:
            recorder.begin_phase("moves", [], timeout=3600)
            # After an edge the next scrape is up to one and a half intervals away.
            time.sleep(2 * LATE_INTERVAL_S)
            for number in range(moves):
                # Not synchronous with the scrapes.
                time.sleep(LATE_INTERVAL_S * (1 + number / moves))
                began = time.time_ns()
                waits.append((_seen_at(recorder, endpoints.move()) - began) / 1e9 / LATE_INTERVAL_S)
            failed = _records(recorder, SourceFailed)
    if failed:
        raise RuntimeError(f"{len(failed)} scrapes failed: {failed[0].message}")
    return at_most(
        "a port's move followed after",
        max(waits),
        "ticks",
        1.05,
        spread=waits,
        how=f"{moves} moves of a process' port, a scrape each {LATE_INTERVAL_S:g} s; no scrape failed. One tick, and "
        "the time of the scrape itself",
    )


def _seen_at(recorder: Recorder, port: int) -> int:
    """Return when the target was scraped at a port, recorder's clock, ns."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        recorder.flush()
        for seen in _records(recorder, TargetSeen):
            if seen.url == _address(port).url:
                return seen.at
        time.sleep(0.02)
    raise RuntimeError(f"port {port} was not found")


# ---- the programs


@contextmanager
def _endpoints(targets: int, form: Format) -> Iterator[Endpoints]:
    command = [sys.executable, str(PROGRAM), str(targets), form]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ports, silent = msgspec.json.decode(process.stdout.readline(), type=tuple[list[int], int])
        try:
            yield Endpoints(process, ports, silent)
        finally:
            process.kill()


@contextmanager
def _recorder(
    targets: tuple[ScrapeTarget, ...], interval: float, *, extra: dict[str, tuple[int, int]] | None = None
) -> Iterator[Recorder]:
    opened = Opened(at=0, schema_version=SCHEMA_VERSION, run="bench", test="scraping", version="0", machine=machine())
    with tempfile.TemporaryDirectory() as folder:
        config = RecorderConfig(
            journal=f"{folder}/recording.jsonl",
            opened=opened,
            access=NOWHERE,
            scrape_targets=targets,
            scrape_interval_s=interval,
            extra_processes=extra or {},
        )
        recorder = Recorder.start(config, log=Path(folder) / "recorder.log")
        try:
            yield recorder
        finally:
            recorder.stop()


def _target(name: str, port: int) -> ScrapeTarget:
    return ScrapeTarget(name=name, place=AtUrl(address=_address(port)))


def _address(port: int) -> Address:
    return Address(url=f"http://127.0.0.1:{port}/metrics")


def _records(recorder: Recorder, kind: type[T]) -> list[T]:
    found: list[Any] = [record for record in journal.read(recorder.journal) if isinstance(record, kind)]
    return found
