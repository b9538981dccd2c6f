"""Asking over HTTP: all at once, at one moment, let in by a token, and every kind of refusal told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web

from pytest_grovescale.endpoints import Address
from pytest_grovescale.errors import PrometheusError, UsageError
from pytest_grovescale.prometheus.answers import QueryError, Vector
from pytest_grovescale.prometheus.api import Api
from pytest_grovescale.prometheus.statistics import NoData, QueryFailed, Value, asked_for, statistics

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def vector(*samples: tuple[dict[str, str], str]) -> web.Response:
    result = [{"metric": labels, "value": [1, value]} for labels, value in samples]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


def refused(status: int, kind: str, message: str) -> web.Response:
    return web.json_response({"status": "error", "errorType": kind, "error": message}, status=status)


async def serving(answer: Handler, use: Callable[[str], Coroutine[Any, Any, T]], *, ahead_s: float = 0.0) -> T:
    """Serve a Prometheus that answers every query but ``time()`` by ``answer``, and use it by its URL."""

    async def query(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        if form["query"] == "time()":
            now = time.time() + ahead_s
            result = {"resultType": "scalar", "result": [now, str(now)]}
            return web.json_response({"status": "success", "data": result})
        return await answer(request)

    app = web.Application()
    app.router.add_post("/prefix/api/v1/query", query)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        return await use(f"http://127.0.0.1:{port}/prefix/")
    finally:
        await runner.cleanup()


def asked(answer: Handler, query: str = "up", *, token_file: str = "", timeout_s: float = 10.0) -> Any:
    async def use(url: str) -> Any:
        async with Api(Address(url=url, token_file=token_file)) as api:
            return await api.query(query, timeout_s=timeout_s)

    return asyncio.run(serving(answer, use))


def test_all_queries_of_a_batch_are_on_their_way_at_once_and_of_one_moment() -> None:
    """Each is answered only when all have arrived: one after the other would wait for ever."""
    texts: list[str] = []
    times: set[str] = set()
    all_there = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        texts.append(str(form["query"]))
        times.add(str(form["time"]))
        if len(texts) == 5:
            all_there.set()
        await all_there.wait()
        return vector(({"name": "a"}, "0"))

    async def use(url: str) -> Any:
        async with Api(Address(url=url)) as api:
            return await statistics(api, asked_for(["g"], ["d"], ["r"]), by=["name"], window_s=30)

    found = asyncio.run(serving(answer, use, ahead_s=100.0))
    assert len(texts) == 5
    assert times == {f"{found.at:.3f}"}
    assert found.at == pytest.approx(time.time() + 100, abs=60)


def test_one_failed_query_leaves_the_others() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        query = str((await request.post())["query"])
        if "broken" in query:
            return refused(422, "execution", "many-to-many matching")
        return vector() if "count_over_time" in query else vector(({"name": "a"}, "0"))

    async def use(url: str) -> Any:
        async with Api(Address(url=url)) as api:
            return await statistics(api, asked_for(["broken"], ["d"], []), by=["name"], window_s=30)

    found = asyncio.run(serving(answer, use))
    assert found.figure("increase", "d", "a") == Value(0.0)
    assert found.figure("increase", "d", "b") == NoData("no sample in 30.0 s")
    failed = found.figure("gauge", "broken", "a")
    assert isinstance(failed, QueryFailed)
    assert failed.kind == "execution"
    with pytest.raises(PrometheusError, match="many-to-many"):
        found.value("gauge", "broken", "a")


def test_a_prometheus_that_is_gone_is_a_failure_and_never_no_data() -> None:
    async def gone(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def use(url: str) -> Any:
        async with Api(Address(url=url)) as api:
            return await statistics(api, asked_for([], [], ["r"]), by=[], window_s=30)

    figure = asyncio.run(serving(gone, use)).figure("rate", "r")
    assert isinstance(figure, QueryFailed)
    assert figure.kind == "unreachable"


def test_a_window_of_nothing_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="0 s holds no samples"):
        asyncio.run(statistics(Api(Address(url="http://127.0.0.1:1")), asked_for(["a"], [], []), by=[], window_s=0))


def test_a_token_is_read_for_each_request_and_goes_nowhere_else(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        token.write_text("second\n")
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/elsewhere"})

    async def use(url: str) -> None:
        async with Api(Address(url=url, token_file=str(token))) as api:
            for _ in range(2):
                with pytest.raises(PrometheusError, match="answers 302"):
                    await api.query("up")

    asyncio.run(serving(answer, use))
    assert seen == ["Bearer first", "Bearer second"]


def test_refusals_say_what_to_do() -> None:
    async def unauthorized(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401, text="who are you?")

    async def forbidden(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status"}, status=403)

    async def missing(request: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="<html>")

    with pytest.raises(PrometheusError, match="answers 401 Unauthorized: who are you") as caught:
        asked(unauthorized)
    assert "--grovescale-prometheus-token" in caught.value.next_step
    with pytest.raises(PrometheusError, match="answers 403"):
        asked(forbidden)
    with pytest.raises(PrometheusError, match="answers 404") as caught:
        asked(missing)
    assert "without /api/v1" in caught.value.next_step


def test_a_refused_query_is_reported_with_its_message() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return refused(400, "bad_data", 'invalid parameter "query": 1:4: parse error: unexpected end of input')

    with pytest.raises(QueryError, match="unexpected end of input") as caught:
        asked(answer, "up{")
    assert caught.value.column == 4


def test_a_query_that_hangs_ends_in_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_grovescale.prometheus.api._MARGIN_S", 0.0)

    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    with pytest.raises(QueryError, match=r"no answer within 0\.05 s") as caught:
        asked(answer, timeout_s=0.05)
    assert caught.value.kind == "timeout"


def test_no_one_there_and_no_authority() -> None:
    with pytest.raises(PrometheusError, match="cannot be reached"):
        asyncio.run(Api(Address(url="http://127.0.0.1:1")).open())
    with pytest.raises(PrometheusError, match="CA file cannot be used"):
        asyncio.run(Api(Address(url="https://127.0.0.1:1", ca_file="/no/such/ca")).open())


def test_an_answer_without_samples_is_an_answer() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return vector()

    found = asked(answer)
    assert isinstance(found, Vector)
    assert found.samples == []
