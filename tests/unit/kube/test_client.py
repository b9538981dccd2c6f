"""The client against a real HTTP server on loopback: retries, errors, paging, watch framing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.kube import watch
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    ServerUnavailable,
    TooManyRequests,
    Unauthorized,
)
from pytest_grovescale.kube.resources import Resource
from pytest_grovescale.kube.watch import bookmark, stream

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Client]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    async with Client(Access(server=f"http://{host}:{port}")) as client:
        yield client
    await runner.cleanup()


def status(code: int, reason: str, **details: object) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"it is {reason}", "details": details}
    return web.json_response(body, status=code)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (500, "InternalError", ServerUnavailable),
    ],
)
def test_status_becomes_a_typed_error(
    code: int, reason: str, kind: type[Exception], snapshot: SnapshotAssertion
) -> None:
    async def run() -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return status(code, reason)

        async with serving(handler) as client:
            with pytest.raises(kind) as caught:
                await client.get(PODS, "p", "ns")
            assert f"it is {reason}" in str(caught.value)
            assert str(caught.value) == snapshot

    asyncio.run(run())


def test_invalid_lists_its_fields() -> None:
    async def run() -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return status(422, "Invalid", causes=[{"field": "spec.replicas", "message": "must be ≥ 0"}])

        async with serving(handler) as client:
            with pytest.raises(Invalid) as caught:
                await client.patch(PODS, "p", "ns", body={})
            assert caught.value.causes == ["spec.replicas: must be ≥ 0"]

    asyncio.run(run())


def test_a_body_that_is_no_status_becomes_the_message() -> None:
    async def run() -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=503, text="upstream is away")

        async with serving(handler) as client:
            with pytest.raises(ServerUnavailable, match="upstream is away"):
                await client.get(PODS, "p", "ns")

    asyncio.run(run())


def test_429_is_retried_after_what_it_says_and_counted() -> None:
    async def run() -> None:
        calls = 0

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            nonlocal calls
            calls += 1
            if calls < 3:
                return web.json_response({"kind": "Status"}, status=429, headers={"Retry-After": "0"})
            return web.json_response({"metadata": {"name": "p"}})

        async with serving(handler) as client:
            assert (await client.get(PODS, "p", "ns"))["metadata"]["name"] == "p"
            assert client.retries == {"429": 2}

    asyncio.run(run())


def test_429_for_ever_is_an_error() -> None:
    async def run() -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return web.json_response({"kind": "Status"}, status=429, headers={"Retry-After": "0"})

        async with serving(handler) as client:
            with pytest.raises(TooManyRequests):
                await client.delete(PODS, "p", "ns")

    asyncio.run(run())


def _breaking(times: int) -> tuple[Handler, list[str]]:
    """A handler that drops the connection ``times`` times, then answers; and what it was asked."""
    asked: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.method)
        if len(asked) <= times:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.json_response({"metadata": {"name": "p"}})

    return handler, asked


def test_a_read_on_a_broken_connection_is_retried_and_counted() -> None:
    async def run() -> None:
        handler, asked = _breaking(2)
        async with serving(handler) as client:
            await client.get(PODS, "p", "ns")
            assert client.retries["connection"] == len(asked) - 1

    asyncio.run(run())


def test_a_write_on_a_broken_connection_is_not_retried() -> None:
    async def run() -> None:
        handler, asked = _breaking(1)
        async with serving(handler) as client:
            with pytest.raises(ServerUnavailable, match="no answer"):
                await client.patch(PODS, "p", "ns", body={})
            assert asked == ["PATCH"]
            assert not client.retries

    asyncio.run(run())


def test_401_without_anything_to_renew_is_an_error() -> None:
    async def run() -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return status(401, "Unauthorized")

        async with serving(handler) as client:
            with pytest.raises(Unauthorized):
                await client.get(PODS, "p", "ns")

    asyncio.run(run())


def test_list_follows_pages_to_the_end() -> None:
    async def run() -> None:
        pages = {"": (["a", "b"], "next"), "next": (["c"], "")}

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            names, following = pages[request.query.get("continue", "")]
            assert request.query["limit"] == "2"
            assert request.query["labelSelector"] == "x=y"
            metadata = {"resourceVersion": "7", "continue": following}
            return web.json_response({"metadata": metadata, "items": [{"metadata": {"name": n}} for n in names]})

        async with serving(handler) as client:
            listing = await client.list(PODS, "ns", label_selector="x=y", page=2)
            assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c"]
            assert listing.resource_version == "7"

    asyncio.run(run())


EVENTS = [{"type": "ADDED", "object": {"metadata": {"name": f"p{n}", "pad": "é" * n * 7}}} for n in range(5)]
SPACED, COMPACT = (", ", ": "), (",", ":")
BODY = b"".join(
    json.dumps(event, separators=(SPACED, COMPACT)[number % 2], ensure_ascii=False).encode() + b"\n"
    for number, event in enumerate(EVENTS)
)
"""As another program may write them, and as the API server does."""


@given(st.lists(st.integers(1, len(BODY) - 1), max_size=8).map(sorted))
def test_watch_lines_survive_any_chunking(cuts: list[int]) -> None:
    async def run() -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for start, end in zip([0, *cuts], [*cuts, len(BODY)], strict=True):
                await response.write(BODY[start:end])
            return response

        async with serving(handler) as client:
            names = [
                msgspec.json.decode(event.object)["metadata"]["name"]
                async for events in stream(client, "/api/v1/pods")
                for event in events
            ]
        assert names == [event["object"]["metadata"]["name"] for event in EVENTS]  # type: ignore[index]

    asyncio.run(run())


def test_watch_asks_for_initial_events_and_reads_their_end() -> None:
    async def run() -> None:
        end = {
            "type": "BOOKMARK",
            "object": {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}},
        }

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            assert request.query["sendInitialEvents"] == "true"
            assert request.query["resourceVersionMatch"] == "NotOlderThan"
            return web.Response(text=json.dumps(end) + "\n")

        async with serving(handler) as client:
            ((event,),) = [events async for events in stream(client, "/api/v1/pods", initial_events=True)]
        assert bookmark(event).initial_events_end
        assert bookmark(event).resource_version == "9"

    asyncio.run(run())


def test_a_watch_that_says_nothing_for_too_long_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_SILENCE_S", 0.2)

    async def run() -> None:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(BODY)
            await asyncio.Event().wait()
            return response

        async with serving(handler) as client:
            names = []
            with pytest.raises(ServerUnavailable):
                async for events in stream(client, "/api/v1/pods"):
                    names += [msgspec.json.decode(event.object)["metadata"]["name"] for event in events]
        assert len(names) == len(EVENTS)

    asyncio.run(run())


def test_watch_error_event_is_raised() -> None:
    async def run() -> None:
        event = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(text=json.dumps(event) + "\n")

        async with serving(handler) as client:
            with pytest.raises(Gone, match="too old"):
                async for _ in stream(client, "/api/v1/pods", resource_version="1"):
                    pytest.fail("an event came")

    asyncio.run(run())
