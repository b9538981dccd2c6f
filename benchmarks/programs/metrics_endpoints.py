"""A program that serves many metrics endpoints on loopback, each of 500 series of which about a fifth change a scrape.

``python metrics_endpoints.py TARGETS FORMAT`` (``text`` or ``protobuf``) prints a line of JSON: the ports, and one that
takes connections and never answers. Each line ``move`` on its standard input moves the first endpoint to another port,
which it prints. It ends with its standard input. Standard library only, so that its cost is independent of grovescale.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
import sys
from collections.abc import Iterator

COUNTERS = {f"bench_events_{kind}_total": 20 for kind in "abcdefghij"}
GAUGES = {f"bench_depth_{kind}": 12 for kind in "abcdefghi"}
HISTOGRAMS = {"bench_work_duration_seconds": 8, "bench_queue_duration_seconds": 8}
"""Family → its label sets. 200 counters, 108 gauges, 16 histograms of 12 series: 500."""

CHANGES = {"counter": 5, "gauge": 3, "histogram": 2}
"""Label sets of each family that change between two scrapes."""

BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
TEXT = "text/plain; version=0.0.4; charset=utf-8"
PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"


class Family:
    """One metric, its label sets and their values."""

    def __init__(self, name: str, kind: str, sets: int, target: int) -> None:
        self.name = name
        self.kind = kind
        self.labels = [{"controller": f"controller-{number}", "instance": f"target-{target}"} for number in range(sets)]
        self.values = [0.0] * sets
        self.buckets = [[0] * (len(BOUNDS) + 1) for _ in range(sets)]
        self.changed = True
        self.rendered = b""

    def change(self, number: int) -> None:
        """Change the value of one label set."""
        self.changed = True
        if self.kind == "gauge":
            self.values[number] = random.randrange(1000)
        else:
            self.values[number] += 1
        if self.kind == "histogram":
            self.buckets[number][random.randrange(len(BOUNDS) + 1)] += 1

    def lines(self) -> Iterator[str]:
        """Yield its lines in the text format."""
        yield f"# HELP {self.name} Something that a program counts.\n# TYPE {self.name} {self.kind}\n"
        for labels, value, buckets in zip(self.labels, self.values, self.buckets, strict=True):
            inside = ",".join(f'{key}="{labels[key]}"' for key in labels)
            if self.kind != "histogram":
                yield f"{self.name}{{{inside}}} {value:g}\n"
                continue
            below = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                below += count
                yield f'{self.name}_bucket{{{inside},le="{bound}"}} {below}\n'
            yield f"{self.name}_sum{{{inside}}} {value:g}\n{self.name}_count{{{inside}}} {below}\n"

    def message(self) -> bytes:
        """Return it as a delimited MetricFamily, as github.com/prometheus/client_model/io/prometheus/client has it."""
        kind = {"counter": 0, "gauge": 1, "histogram": 4}[self.kind]
        parts = [_bytes(1, self.name.encode()), _bytes(2, b"Something that a program counts."), _number(3, kind)]
        for labels, value, buckets in zip(self.labels, self.values, self.buckets, strict=True):
            metric = [_bytes(1, _bytes(1, key.encode()) + _bytes(2, labels[key].encode())) for key in labels]
            metric.append(self._value(value, buckets))
            parts.append(_bytes(4, b"".join(metric)))
        whole = b"".join(parts)
        return _varint(len(whole)) + whole

    def _value(self, value: float, buckets: list[int]) -> bytes:
        if self.kind != "histogram":
            return _bytes(3 if self.kind == "counter" else 2, _double(1, value))
        below, parts = 0, [_number(1, sum(buckets)), _double(2, value)]
        for bound, count in zip(BOUNDS, buckets, strict=False):
            below += count
            parts.append(_bytes(3, _number(1, below) + _double(2, bound)))
        return _bytes(7, b"".join(parts))


class Surface:
    """One endpoint's metrics."""

    def __init__(self, target: int) -> None:
        self.families = [
            Family(name, kind, sets, target)
            for kind, names in (("counter", COUNTERS), ("gauge", GAUGES), ("histogram", HISTOGRAMS))
            for name, sets in names.items()
        ]

    def scrape(self, protobuf: bool) -> bytes:
        """Let about a fifth of the series change, and return all of them."""
        for family in self.families:
            for number in random.sample(range(len(family.values)), CHANGES[family.kind]):
                family.change(number)
        for family in self.families:
            if family.changed:
                family.rendered = family.message() if protobuf else "".join(family.lines()).encode()
                family.changed = False
        return b"".join(family.rendered for family in self.families)


class Connection(asyncio.Protocol):
    """Answers every request with a scrape, for any number of requests."""

    def __init__(self, surface: Surface, protobuf: bool, open_ones: set[Connection]) -> None:
        self.surface = surface
        self.protobuf = protobuf
        self.open_ones = open_ones
        self.heard = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.open_ones.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.open_ones.discard(self)

    def data_received(self, data: bytes) -> None:
        self.heard += data
        assert self.transport is not None
        while b"\r\n\r\n" in self.heard:
            self.heard = self.heard.partition(b"\r\n\r\n")[2]
            body = self.surface.scrape(self.protobuf)
            kind = PROTOBUF if self.protobuf else TEXT
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            self.transport.write(head.encode() + body)


async def serve(targets: int, protobuf: bool) -> None:
    """Serve until the standard input ends."""
    loop = asyncio.get_running_loop()
    surfaces = [Surface(number) for number in range(targets)]
    open_ones: list[set[Connection]] = [set() for _ in surfaces]

    async def opened(number: int) -> asyncio.Server:
        return await loop.create_server(
            lambda: Connection(surfaces[number], protobuf, open_ones[number]), "127.0.0.1", 0
        )

    servers = [await opened(number) for number in range(targets)]
    silent = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    print(json.dumps([[_port(server) for server in servers], _port(silent)]), flush=True)  # noqa: T201 - its protocol
    while await loop.run_in_executor(None, sys.stdin.readline):
        former, servers[0] = servers[0], await opened(0)
        former.close()
        for connection in open_ones[0].copy():
            assert connection.transport is not None
            connection.transport.abort()
        print(_port(servers[0]), flush=True)  # noqa: T201 - its protocol


def _port(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2] == "protobuf"))
