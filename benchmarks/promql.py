"""The cost of a batch of gauge, diff and rate against one query, and against three in a row, at 50 ms latency.

A real Prometheus scrapes itself; a proxy in a separate process delays each query. The three are measured alternately,
so that a drift of the machine's speed affects all.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from pytest_grovescale.cluster import binaries, ports
from pytest_grovescale.cluster.versions import DEFAULT_KUBERNETES
from pytest_grovescale.endpoints import Address
from pytest_grovescale.errors import PrometheusError
from pytest_grovescale.prometheus import server
from pytest_grovescale.prometheus.answers import Vector
from pytest_grovescale.prometheus.api import Api
from pytest_grovescale.prometheus.statistics import Value, asked_for, query_text
from pytest_grovescale.prometheus.statistics import statistics as batch

from .rows import Row, at_most, reported

DELAY_S = 0.05
REPEATS = 40
BOUND = 1.3
WINDOW_S = 5.0
GAUGE, COUNTER = "go_goroutines", "prometheus_http_requests_total"
_PROXY = Path(__file__).parent / "programs" / "delaying_proxy.py"
_FIRST_DATA_S = 60.0


def measure(*, quick: bool) -> list[Row]:
    """Return the time of the batch, as a multiple of one query; and that of three in a row."""
    with _prometheus() as url, _delayed(url) as delayed:
        one, row, together = asyncio.run(_measured(url, delayed, REPEATS // 10 if quick else REPEATS))
    middle = statistics.median(one)
    how = (
        f"median of {len(one)} turns, each query delayed by {DELAY_S * 1000:g} ms, of one query {middle * 1000:.1f} ms"
    )
    return [
        at_most(
            "promql_batch_ratio",
            statistics.median(together) / middle,
            "×",
            BOUND,
            spread=[seconds / middle for seconds in together],
            how=f"gauge, diff and rate at one moment: {statistics.median(together) * 1000:.1f} ms; {how}",
        ),
        reported(
            "promql_in_a_row_ratio",
            statistics.median(row) / middle,
            "×",
            spread=[seconds / middle for seconds in row],
            how=f"the same three, one after the other: {statistics.median(row) * 1000:.1f} ms",
        ),
    ]


async def _measured(url: str, delayed: str, turns: int) -> tuple[list[float], list[float], list[float]]:
    asked = asked_for([GAUGE], [COUNTER], [COUNTER])
    texts = [query_text(one, [], WINDOW_S) for one in asked]
    async with Api(Address(url=delayed)) as api:
        await _has_data(url, texts[-1])

        async def one() -> None:
            await api.query(texts[-1])

        async def in_a_row() -> None:
            for text in texts:
                await api.query(text)

        async def together() -> None:
            found = await batch(api, asked, by=[], window_s=WINDOW_S)
            assert all(isinstance(found.figure(*one), Value) for one in asked), found

        found: tuple[list[float], list[float], list[float]] = ([], [], [])
        for work in (one, in_a_row, together):
            await work()
        for _ in range(turns):
            for seconds, work in zip(found, (one, in_a_row, together), strict=True):
                seconds.append(await _seconds(work))
    return found


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _has_data(url: str, query: str) -> None:
    """Return when a rate is available: after two scrapes."""
    async with asyncio.timeout(_FIRST_DATA_S), Api(Address(url=url)) as api:
        while True:
            answer = await api.query(query)
            if isinstance(answer, Vector) and answer.samples:
                return
            await asyncio.sleep(0.1)


@contextlib.contextmanager
def _prometheus() -> Iterator[str]:
    """Run a Prometheus that scrapes itself."""
    binary = binaries.find([server.PROCESS], DEFAULT_KUBERNETES, given={}, progress=print)[server.PROCESS]
    (lease,) = ports.lease(1)
    url = f"http://127.0.0.1:{lease.number}"
    with tempfile.TemporaryDirectory() as folder:
        targets = {"itself": Address(url=f"{url}/metrics")}
        file = server.write(targets, Path(folder), interval_s=1.0, version=binary.version)
        argv = server.command(binary.path, file, Path(folder) / "data", lease.number)
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            asyncio.run(_answers(url))
            yield url
        finally:
            process.terminate()
            process.wait()
            ports.release([lease])


async def _answers(url: str) -> None:
    async with asyncio.timeout(_FIRST_DATA_S):
        while True:
            try:
                async with Api(Address(url=url)):
                    return
            except PrometheusError:
                await asyncio.sleep(0.05)


@contextlib.contextmanager
def _delayed(url: str) -> Iterator[str]:
    proxy = subprocess.Popen(
        [sys.executable, str(_PROXY), url, str(DELAY_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert proxy.stdin is not None
    assert proxy.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(proxy.stdout.readline())}"
    finally:
        proxy.stdin.close()
        proxy.stdout.close()
        proxy.wait()
