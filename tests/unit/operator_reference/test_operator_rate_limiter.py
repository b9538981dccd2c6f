"""The client's rate limit: a burst, then so many a second, in order; and what it says of itself in /metrics."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from pytest_grovescale.reference_operator import settings
from pytest_grovescale.reference_operator.api_client import ApiClient, RateLimiter, rate_limiter
from pytest_grovescale.reference_operator.credentials import Credentials


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_goes_at_once_and_the_rest_one_by_one() -> None:
    limiter = RateLimiter(10, 3, clock=Clock())
    assert [limiter.reserve() for _ in range(6)] == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])


def test_what_was_not_used_is_kept_up_to_the_burst() -> None:
    clock = Clock()
    limiter = RateLimiter(10, 2, clock=clock)
    limiter.reserve()
    clock.now += 60
    assert [limiter.reserve() for _ in range(3)] == pytest.approx([0, 0, 0.1])


@given(
    qps=st.floats(0.5, 1000),
    burst=st.integers(1, 50),
    steps=st.lists(st.floats(0, 2), min_size=1, max_size=80),
)
def test_no_second_lets_more_through_than_it_may(qps: float, burst: int, steps: list[float]) -> None:
    clock = Clock()
    limiter = RateLimiter(qps, burst, clock=clock)
    gone = []
    for step in steps:
        clock.now += step
        gone.append(clock.now + limiter.reserve())
    assert gone == sorted(gone)
    for first in range(len(gone)):
        for last in range(first, len(gone)):
            assert last - first + 1 <= burst + (gone[last] - gone[first]) * qps + 1e-6


def test_no_rate_is_no_limiter() -> None:
    assert rate_limiter(0, 0) is None
    assert rate_limiter(0, 10) is None
    limiter = rate_limiter(2.5, 0)
    assert limiter is not None
    assert [limiter.reserve() > 0 for _ in range(3)] == [False, False, True]


def test_the_command_line() -> None:
    given = settings.parse(["--kubeconfig", "k", "--kube-api-qps", "50", "--kube-api-burst", "80"])
    assert (given.kube_api_qps, given.kube_api_burst) == (50.0, 80)
    default = settings.parse(["--kubeconfig", "k"])
    assert (default.kube_api_qps, default.kube_api_burst) == (0.0, 0)


@pytest.mark.parametrize(
    "wrong",
    [("--kube-api-qps", "-1"), ("--kube-api-qps", "inf"), ("--kube-api-qps", "nan"), ("--kube-api-burst", "-3")],
)
def test_a_wrong_limit_is_a_usage_error(wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        settings.parse(["--kubeconfig", "k", *wrong])
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_a_client_counts_what_it_waits_for() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="{}")

    async def run() -> ApiClient:
        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            server = f"http://127.0.0.1:{runner.addresses[0][1]}"
            credentials = Credentials(server=server, ssl_context=None, token="", token_file=None)
            async with ApiClient(credentials, limiter=RateLimiter(50, 1, clock=Clock())) as api:
                await asyncio.gather(*(api.get("/api") for _ in range(3)))
        finally:
            await runner.cleanup()
        return api

    api = asyncio.run(run())
    latency, throttled = api.latency["GET"], api.throttled["GET"]
    assert sum(latency.counts) == sum(throttled.counts) == 3
    assert sum(api.latency["POST"].counts) == 0
    # By a clock that stands still the second waits for one token, 20 ms, the third for two; a request takes no less.
    assert throttled.total >= 0.0599
    assert latency.total >= throttled.total
