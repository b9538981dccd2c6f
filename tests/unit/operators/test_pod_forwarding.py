"""Ports of this host that lead to the pod that works, by the WebSocket protocol of the API server."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.operator.pods.pod_supervisor import Forwarder

Pod = Callable[[web.WebSocketResponse], Awaitable[None]]


class Cluster:
    """An API server that forwards to pods of whatever the test makes them do."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.leader = "robot-1"
        self.asked: list[str] = []
        self.reported: list[str] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.match_info['pod']}:{request.query['ports']}")
        if self.leader == "refused":
            return web.json_response({"kind": "Status", "message": "no", "reason": "Forbidden"}, status=403)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        assert socket.ws_protocol == "v4.channel.k8s.io"
        for channel in (0, 1):
            await socket.send_bytes(bytes((channel,)) + struct.pack("<H", int(request.query["ports"])))
        await self.pod(socket)
        return socket

    @contextlib.asynccontextmanager
    async def forwarded(self) -> AsyncIterator[int]:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/robots/pods/{pod}/portforward", self.serve)
        async with TestServer(app) as server, Client(Access(server=str(server.make_url("/")))) as client:
            forwarder = Forwarder(client, "robots", 8443, lambda: self.leader, self.reported.append)
            yield await forwarder.open()
            forwarder.close()


async def echo(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        assert message.type == WSMsgType.BINARY
        assert message.data[0] == 0
        await socket.send_bytes(b"\0" + message.data[1:].upper())


async def said(port: int, text: bytes, answer: int) -> bytes:
    """Return what comes back for what is sent, up to so many bytes or to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(text)
        await writer.drain()
        async with asyncio.timeout(10):
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
                return await reader.readexactly(answer)
            return b""
    finally:
        writer.close()


def test_bytes_go_both_ways_whatever_their_number() -> None:
    async def run() -> None:
        cluster = Cluster(echo)
        async with cluster.forwarded() as port:
            assert await said(port, b"hello", 5) == b"HELLO"
            large = b"abc" * 1_000_000
            assert await said(port, large, len(large)) == large.upper()
        assert cluster.asked == ["robot-1:8443"] * 2
        assert not cluster.reported

    asyncio.run(run())


def test_each_connection_is_to_the_pod_that_works_then() -> None:
    async def run() -> None:
        cluster = Cluster(echo)
        async with cluster.forwarded() as port:
            await said(port, b"a", 1)
            cluster.leader = "robot-2"
            await said(port, b"b", 1)
            cluster.leader = ""
            assert await said(port, b"c", 1) == b""
        assert cluster.asked == ["robot-1:8443", "robot-2:8443"]

    asyncio.run(run())


def test_why_it_broke_is_reported() -> None:
    async def no_one(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\1dial tcp 127.0.0.1:8443: connection refused")
        await socket.receive()

    async def run() -> Cluster:
        cluster = Cluster(no_one)
        async with cluster.forwarded() as port:
            assert await said(port, b"a", 1) == b""
            cluster.leader = "refused"
            assert await said(port, b"a", 1) == b""
        return cluster

    reported = asyncio.run(run()).reported
    assert "port 8443: dial tcp 127.0.0.1:8443: connection refused" in reported[0]
    assert len(reported) == 2
