"""Credentials that end while a client is in use: renewed once for all requests, streams that are open go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.kube import access as access_files
from pytest_grovescale.kube import subresources
from pytest_grovescale.kube.access import Access, from_kubeconfig, to_kubeconfig
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import ServerUnavailable, Unauthorized
from pytest_grovescale.kube.resources import Resource
from pytest_grovescale.kube.watch import stream
from tests.golden import masked

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
ADDED = {"type": "ADDED", "object": {"metadata": {"name": "p"}}}


class Server:
    """Lets in whoever shows the one good token; a watch gets one event, and the next when it is told so."""

    def __init__(self) -> None:
        self.good = "first"
        self.refused = 0
        self.more = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.good}":
            self.refused += 1
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        if request.path.endswith("/log"):
            return web.Response(text="2026-01-01T00:00:00Z hello\n")
        if request.path.endswith("/portforward"):
            socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
            await socket.prepare(request)
            await socket.close()
            return socket
        if "watch" not in request.query:
            return web.json_response({"metadata": {"name": "p"}})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps(ADDED).encode() + b"\n")
        await self.more.wait()
        await response.write(json.dumps(ADDED).encode() + b"\n")
        return response


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    runner = web.ServerRunner(web.Server(server.answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    yield server
    await runner.cleanup()


def kubeconfig(file: Path, server: Server, token: str) -> Access:
    file.write_text(to_kubeconfig(Access(server=server.url, token=token), name="one"), encoding="utf-8")
    return from_kubeconfig(file)


def test_many_that_are_refused_at_once_renew_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving() as server:
            access = kubeconfig(tmp_path / "config", server, "first")
            async with Client(access) as client:
                await client.get(PODS, "p", "ns")
                server.good = "second"
                kubeconfig(tmp_path / "config", server, "second")
                await asyncio.gather(*(client.get(PODS, "p", "ns") for _ in range(30)))
                assert client.retries == {"401": 1}
                await client.get(PODS, "p", "ns")
                assert client.retries == {"401": 1}

    asyncio.run(run())


def test_a_stream_that_is_open_goes_on_and_a_new_one_renews(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving() as server:
            access = kubeconfig(tmp_path / "config", server, "first")
            async with Client(access) as client, Client(access) as other:
                events = aiter(stream(client, "/pods"))
                await anext(events)
                server.good = "second"
                kubeconfig(tmp_path / "config", server, "second")
                await client.get(PODS, "p", "ns")
                server.more.set()
                assert [event.type for event in await anext(events)] == ["ADDED"]
                assert (await anext(aiter(stream(other, "/pods"))))[0].type == "ADDED"
                assert (client.retries["401"], other.retries["401"]) == (1, 1)

    asyncio.run(run())


def test_a_log_and_a_forwarded_port_are_begun_with_fresh_credentials(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving() as server:
            access = kubeconfig(tmp_path / "config", server, "first")
            async with Client(access) as reader, Client(access) as forwarder:
                server.good = "second"
                kubeconfig(tmp_path / "config", server, "second")
                lines = [line async for line in subresources.follow(reader, "ns", "p", "main")]
                assert lines == [subresources.Line("2026-01-01T00:00:00Z", "hello")]
                async with subresources.port_connection(forwarder, "ns", "p", 80):
                    pass
                assert (reader.retries["401"], forwarder.retries["401"]) == (1, 1)
                assert server.refused == 2

    asyncio.run(run())


def test_files_of_an_access_are_written_again(tmp_path: Path) -> None:
    file, folder = tmp_path / "config", tmp_path / "files"
    file.write_text(to_kubeconfig(Access(server="https://a:1", token="first"), name="one"), encoding="utf-8")
    access = from_kubeconfig(file)
    access_files.write_files(access, folder)
    token = Path(access_files.address_by_files(access, folder, "/metrics").token_file)
    assert token.read_text() == "first"
    file.write_text(to_kubeconfig(Access(server="https://a:1", token="second"), name="one"), encoding="utf-8")
    renew = access_files.renewal(access, folder)
    assert renew is not None
    renew()
    assert token.read_text() == "second"
    assert access_files.renewal(Access(server="https://a:1", token_file="/run/token"), folder) is None


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving() as server:
            file = tmp_path / "token"
            file.write_text("first", encoding="utf-8")
            async with Client(Access(server=server.url, token_file=str(file))) as client:
                await client.get(PODS, "p", "ns")
                server.good = "second"
                file.write_text("second", encoding="utf-8")
                await asyncio.gather(*(client.get(PODS, "p", "ns") for _ in range(5)))
                assert client.retries["401"] == 1

    asyncio.run(run())


def test_credentials_that_stay_refused_are_an_error_after_one_try(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving() as server:
            access = kubeconfig(tmp_path / "config", server, "first")
            server.good = "nobody's"
            async with Client(access) as client:
                with pytest.raises(Unauthorized):
                    await client.get(PODS, "p", "ns")
                assert server.refused == 2

    asyncio.run(run())


def test_a_plugin_that_fails_at_the_renewal_is_reported_with_its_words(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    async def run() -> None:
        async with serving() as server:
            access = kubeconfig(tmp_path / "config", server, "first")
            document = yaml.safe_load((tmp_path / "config").read_text())
            plugin = tmp_path / "plugin"
            plugin.write_text("#!/bin/sh\necho 'your session has ended' >&2\nexit 1\n")
            plugin.chmod(0o700)
            version = "client.authentication.k8s.io/v1"
            document["users"][0]["user"] = {"exec": {"apiVersion": version, "command": str(plugin)}}
            (tmp_path / "config").write_text(yaml.safe_dump(document))
            server.good = "second"
            async with Client(access) as client:
                with pytest.raises(Unauthorized) as caught:
                    await client.get(PODS, "p", "ns")
                assert masked(str(caught.value), {server.url: "server", tmp_path: "folder"}) == snapshot
                assert "your session has ended" in str(caught.value)
                with pytest.raises(Unauthorized, match="your session has ended"):
                    await anext(aiter(stream(client, "/pods")))

    asyncio.run(run())


def test_requests_go_through_the_proxy(tmp_path: Path) -> None:
    async def run() -> None:
        asked: list[tuple[str, str, str]] = []

        async def proxy(request: web.BaseRequest) -> web.StreamResponse:
            asked.append((request.method, request.host, request.rel_url.path))
            return web.json_response({"metadata": {"name": "p"}})

        runner = web.ServerRunner(web.Server(proxy), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        access = Access(server="http://api.example.com", proxy=f"http://{host}:{port}")
        async with Client(access) as client:
            await client.get(PODS, "p", "ns")
        await runner.cleanup()
        assert asked == [("GET", "api.example.com", PODS.path("ns", "p"))]

    asyncio.run(run())


def test_a_proxy_that_refuses_is_no_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(refusing, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            access = Access(server="https://api.example.com", proxy=f"http://127.0.0.1:{port}")
            async with Client(access) as client:
                with pytest.raises(ServerUnavailable, match="Who are you"):
                    await client.patch(PODS, "p", "ns", body={})

    asyncio.run(run())
