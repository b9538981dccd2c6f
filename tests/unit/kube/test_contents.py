"""What is in a namespace, page by page, against a server on loopback that counts what it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_grovescale.kube import namespaces
from pytest_grovescale.kube.access import Access
from pytest_grovescale.kube.client import Client
from pytest_grovescale.kube.errors import Forbidden, Gone
from pytest_grovescale.kube.resources import Resource

PODS = Resource(group="", version="v1", plural="pods", kind="Pod", namespaced=True)


class Metadata(msgspec.Struct, frozen=True):
    name: str


class Found(msgspec.Struct, frozen=True):
    metadata: Metadata


class Namespace:
    """A collection of pods as an API server serves it: in pages, from a moment that it forgets after some of them."""

    def __init__(self, names: Sequence[str], *, forgets_after: int = 0) -> None:
        self.names = list(names)
        self.deleted: list[str] = []
        self.pages: list[int] = []
        self.accepts: set[str] = set()
        self._forgets_after = forgets_after

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        limit, start = int(request.query["limit"]), int(request.query.get("continue", 0))
        self.accepts.add(request.headers["Accept"])
        if start and self._forgets_after and len(self.pages) == self._forgets_after:
            self._forgets_after = 0
            return web.json_response({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)
        page = self.names[start : start + limit]
        self.pages.append(len(page))
        if request.method == "DELETE":
            self.deleted += page
        more = {"continue": str(start + limit)} if start + limit < len(self.names) else {}
        return web.json_response({"metadata": more, "items": [{"metadata": {"name": name}} for name in page]})


@asynccontextmanager
async def serving(namespace: Namespace) -> AsyncIterator[Client]:
    runner = web.ServerRunner(web.Server(namespace.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with Client(Access(server=f"http://{host}:{port}")) as client:
            yield client
    finally:
        await runner.cleanup()


async def read(namespace: Namespace) -> list[str]:
    async with serving(namespace) as client:
        return [found.metadata.name async for page in namespaces.objects(client, PODS, "ns", Found) for found in page]


@given(st.integers(0, 4 * namespaces.PAGE))
@settings(max_examples=10)
def test_every_object_comes_once_and_no_page_is_large(count: int) -> None:
    namespace = Namespace([f"p{n}" for n in range(count)])
    assert asyncio.run(read(namespace)) == namespace.names
    assert max(namespace.pages) <= namespaces.PAGE


def test_only_metadata_is_asked_for() -> None:
    namespace = Namespace(["a"])
    asyncio.run(read(namespace))
    (accept,) = namespace.accepts
    assert accept.startswith("application/json;as=PartialObjectMetadataList;")


def test_a_forgotten_moment_begins_again() -> None:
    namespace = Namespace([f"p{n}" for n in range(3 * namespaces.PAGE)], forgets_after=2)
    found = asyncio.run(read(namespace))
    assert set(found) == set(namespace.names)
    assert len(found) == 5 * namespaces.PAGE


def test_all_are_deleted_a_page_at_a_time() -> None:
    namespace = Namespace([f"p{n}" for n in range(2 * namespaces.PAGE + 1)])

    async def clear() -> None:
        async with serving(namespace) as client:
            await namespaces.clear(client, PODS, "ns")

    asyncio.run(clear())
    assert namespace.deleted == namespace.names
    assert namespace.pages == [namespaces.PAGE, namespaces.PAGE, 1]


@pytest.mark.parametrize(("names", "there"), [([], False), (["a", "b"], True)])
def test_one_object_is_enough_to_know_that_there_are_some(names: list[str], there: bool) -> None:
    namespace = Namespace(names)

    async def look() -> bool:
        async with serving(namespace) as client:
            return await namespaces.holds(client, PODS, "ns")

    assert asyncio.run(look()) is there
    assert namespace.pages == [min(1, len(names))]


@pytest.mark.parametrize(("code", "error"), [(403, Forbidden), (410, Gone)])
def test_a_refusal_of_the_first_page_is_raised(code: int, error: type[Exception]) -> None:
    class Refusing(Namespace):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            return web.json_response({"kind": "Status", "code": code}, status=code)

    with pytest.raises(error):
        asyncio.run(read(Refusing([])))
