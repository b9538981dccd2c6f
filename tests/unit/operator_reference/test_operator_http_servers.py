"""/metrics that never answers, and /metrics that moves to another port."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from pytest_grovescale.cluster import ports
from pytest_grovescale.reference_operator.http_servers import HttpServers, metrics_routes

ADDRESS = "127.0.0.1"


async def _status(port: int, *, seconds: float = 5.0) -> int:
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"http://{ADDRESS}:{port}/metrics") as a:
        await a.read()
        return a.status


def _free_port() -> int:
    (leased,) = ports.lease(1)
    ports.release([leased])
    return leased.number


def test_defect_port_move() -> None:
    async def run() -> None:
        port, servers = _free_port(), HttpServers(ADDRESS)
        try:
            await servers.serve(port, metrics_routes(CollectorRegistry(), stalls=False))
            assert await _status(port) == 200
            moved = await servers.move(port)
            assert moved != port
            assert await _status(moved) == 200
            with pytest.raises(aiohttp.ClientConnectorError):
                await _status(port)
        finally:
            await servers.close()

    asyncio.run(run())


def test_defect_metrics_stall() -> None:
    async def run() -> None:
        port, servers = _free_port(), HttpServers(ADDRESS)
        try:
            await servers.serve(port, metrics_routes(CollectorRegistry(), stalls=True))
            with pytest.raises(TimeoutError):
                await _status(port, seconds=0.2)
        finally:
            # It ends all the same, whoever still waits for an answer.
            await servers.close()

    asyncio.run(run())
