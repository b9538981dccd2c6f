"""The cost of reading a scrape, as a multiple of prometheus_client's parser for the same text.

The scrape is a real one, of a manager with three controllers: 636 series of 171 families. All contenders alternate, so
that a drift of the machine's speed affects all of them.

``cold`` is an endpoint's first response, ``warm`` the same again, and ``moving`` one of which a fifth differs from the
previous response, as from scrape to scrape of a busy operator.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as client_openmetrics
from prometheus_client.openmetrics import parser as client_openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as client_reads_text
from prometheus_client.registry import Collector, CollectorRegistry

from pytest_grovescale.exposition.reader import Reader
from pytest_grovescale.protobuf_wire import varint

from .rows import Row, at_most, reported

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "exposition"
ROUNDS = 25

# Their types: the client's modules for this format have none.
client_reads_openmetrics: Callable[[str], Iterable[Metric]] = client_openmetrics_parser.text_string_to_metric_families
client_writes_openmetrics: Callable[[CollectorRegistry], bytes] = client_openmetrics.generate_latest

BOUNDS = {"cold": 1.25, "warm": 0.1, "moving": 0.25}
"""Multiples of prometheus_client's time. Native histograms and series names cost extra the first time."""

_MOVING = 5
"""One in this many differs from the previous response."""
_UNKNOWN_KEY = b"\xf8\x07"


class Answer(NamedTuple):
    """One body, and functions that derive changed ones from it."""

    body: bytes
    moved: Callable[[int], bytes]
    content_type: str


def measure(*, quick: bool = False) -> list[Row]:
    """Return a row for each format and state; ``quick``: a tenth of the rounds, and no verdict."""
    text = (DATA / "controller_runtime_head.prom").read_bytes()
    protobuf = (DATA / "controller_runtime_head.pb").read_bytes()
    openmetrics = _as_openmetrics(text.decode())
    answers = {
        "text": Answer(text, lambda n: _moved_text(text, n), "text/plain; version=0.0.4"),
        "openmetrics": Answer(
            openmetrics, lambda n: _moved_text(openmetrics, n), "application/openmetrics-text; version=1.0.0"
        ),
        "protobuf": Answer(protobuf, lambda n: _moved_protobuf(protobuf, n), "application/vnd.google.protobuf"),
    }
    clients = {
        "text": lambda: list(client_reads_text(text.decode())),
        "openmetrics": lambda: list(client_reads_openmetrics(openmetrics.decode())),
        # It reads no protobuf: compared with its text parser.
        "protobuf": lambda: list(client_reads_text(text.decode())),
    }
    return [
        row
        for form, answer in answers.items()
        for row in _rows(form, answer, clients[form], max(3, ROUNDS // 10) if quick else ROUNDS, quick=quick)
    ]


def _rows(form: str, answer: Answer, client: Callable[[], object], rounds: int, *, quick: bool) -> Iterable[Row]:
    known, moving = Reader(), Reader()
    known.read(answer.body, answer.content_type)
    moving.read(answer.body, answer.content_type)
    took: dict[str, list[float]] = {name: [] for name in ("client", *BOUNDS)}
    for number in range(rounds):
        moved = answer.moved(number)
        took["client"].append(_milliseconds(client))
        took["cold"].append(_milliseconds(lambda: Reader().read(answer.body, answer.content_type)))
        took["warm"].append(_milliseconds(lambda: known.read(answer.body, answer.content_type)))
        took["moving"].append(_milliseconds(lambda: moving.read(moved, answer.content_type)))  # noqa: B023 - called now
    for state, bound in BOUNDS.items():
        ratios = [ours / theirs for ours, theirs in zip(took[state], took["client"], strict=True)]
        value, how = statistics.median(ratios), _how(form, took[state], took["client"])
        name = f"exposition_{form}_{state}"
        yield (
            reported(name, value, "×", spread=ratios, how=how)
            if quick
            else at_most(name, value, "×", bound, spread=ratios, how=how)
        )


def _how(form: str, ours: list[float], theirs: list[float]) -> str:
    whose = "its text parser" if form == "protobuf" else "it"
    return (
        f"times prometheus_client, {len(ours)} rounds in turn: medians {statistics.median(ours):.3f} ms,"
        f" {whose} {statistics.median(theirs):.2f} ms"
    )


def _milliseconds(work: Callable[[], object]) -> float:
    # CPU time: the machine may have other load.
    began = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - began) / 1e6


def _moved_text(text: bytes, number: int) -> bytes:
    """Return a text in which the values of some samples are new."""
    lines = text.split(b"\n")
    for position, line in enumerate(lines):
        if position % _MOVING == 0 and line and not line.startswith(b"#"):
            lines[position] = line.rpartition(b" ")[0] + b" %d" % (1000 * (number + 2) + position)
    return b"\n".join(lines)


def _moved_protobuf(body: bytes, number: int) -> bytes:
    """Return a response in which some families must be parsed again: they have an additional, meaningless field."""
    moved, at, position = bytearray(), 0, 0
    while at < len(body):
        size, begin = varint(body, at)
        at = begin + size
        message = body[begin:at] + (_UNKNOWN_KEY + bytes([number]) if position % _MOVING == 0 else b"")
        moved += _length(len(message)) + message
        position += 1
    return bytes(moved)


def _length(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80]) + _length(size >> 7)


class _Scraped(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _as_openmetrics(text: str) -> bytes:
    # Its parser rejects its own output for a gauge and a counter that share one name in this format.
    metrics = [metric for metric in client_reads_text(text) if metric.name != "go_memstats_alloc_bytes"]
    registry = CollectorRegistry()
    registry.register(_Scraped(metrics))
    return client_writes_openmetrics(registry)
