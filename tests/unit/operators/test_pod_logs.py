"""The logs of an operator's pods: in one file, whole, in order, whatever becomes of streams and containers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.operator.pods.pod_supervisor import Logs
from pytest_grovescale.operator.pods.replicas import Replica

Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


def stamp(number: int) -> str:
    return f"2026-01-01T00:00:00.{number:09d}Z"


async def lines(request: web.Request, numbers: range, *, then: asyncio.Event | None = None) -> web.StreamResponse:
    """Answer with numbered lines, and end the stream, or break it once told."""
    response = web.StreamResponse()
    await response.prepare(request)
    for number in numbers:
        await response.write(f"{stamp(number)} line {number}\n".encode())
    if then is not None:
        await then.wait()
        assert request.transport is not None
        request.transport.abort()
    return response


@asynccontextmanager
async def followed(file: Path, serve: Serve) -> AsyncIterator[Logs]:
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/robots/pods/robot-1/log", serve)
    async with TestServer(app) as server, Client(Access(server=str(server.make_url("/")))) as client:
        with file.open("ab") as output:
            logs = Logs(client, "robots", "main", output)
            yield logs
            await logs.close()


def replica(container_id: str, *, running: bool = True, restarts: int = 0) -> Replica:
    return Replica(
        pod="robot-1", uid="u", container_id=container_id, running=running, restarts=restarts, last_end="exit code 3"
    )


async def until(file: Path, text: str) -> None:
    async with asyncio.timeout(10):
        while text not in file.read_text():  # noqa: ASYNC110 - nothing announces a line in a file
            await asyncio.sleep(0.01)


def test_stream_that_breaks_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    file = tmp_path / "log"
    broken = asyncio.Event()
    asked: list[str] = []

    async def serve(request: web.Request) -> web.StreamResponse:
        asked.append(request.query.get("sinceTime", ""))
        if len(asked) == 1:
            return await lines(request, range(1, 4), then=broken)
        # The API knows seconds only: what was there already comes once more.
        return await lines(request, range(2, 7))

    async def run() -> None:
        async with followed(file, serve) as logs:
            logs.see(replica("a"))
            await until(file, "line 3")
            broken.set()
            await until(file, "line 6")
            logs.see(replica("a", running=False))

    asyncio.run(run())
    found = file.read_text().splitlines()
    assert [line for line in found if "---" not in line] == [f"robot-1: line {n}" for n in range(1, 7)]
    assert sum("its log broke off" in line for line in found) == 1
    assert asked[:2] == ["", stamp(3)]


def test_next_container_is_followed_and_the_one_before_has_its_last_word(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    file = tmp_path / "log"
    restarted = asyncio.Event()

    async def serve(request: web.Request) -> web.StreamResponse:
        if request.query.get("previous") == "true":
            return await lines(request, range(1, 4))
        if not restarted.is_set():
            # It ends while its stream is broken: only the kubelet's copy has the rest.
            return await lines(request, range(1, 3), then=restarted)
        return await lines(request, range(10, 12))

    async def run() -> None:
        async with followed(file, serve) as logs:
            logs.see(replica("a"))
            await until(file, "line 2")
            logs.see(replica("b", restarts=1))
            restarted.set()
            await until(file, "line 3")
            await until(file, "line 11")
            logs.see(replica("b", running=False, restarts=1))

    asyncio.run(run())
    found = file.read_text().splitlines()
    (reported,) = (line for line in found if "restarted (1)" in line)
    assert reported.startswith("robot-1: --- ")
    assert reported.endswith("exit code 3")
    assert reported == snapshot
    plain = sorted(line for line in found if "---" not in line)
    assert plain == sorted(f"robot-1: line {n}" for n in (1, 2, 3, 10, 11))


def test_pod_that_is_gone_has_no_more_to_say(tmp_path: Path) -> None:
    file = tmp_path / "log"
    asked = 0

    async def serve(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return web.json_response({"kind": "Status", "message": "not found", "reason": "NotFound"}, status=404)

    async def run() -> None:
        async with followed(file, serve) as logs:
            logs.see(replica("a"))

    asyncio.run(run())
    assert asked == 1
    assert file.read_text() == ""
