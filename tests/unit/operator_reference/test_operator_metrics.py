"""/metrics: all that can be known is there at the start, and the sums agree."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_grovescale.reference_operator import metrics
from pytest_grovescale.reference_operator.api_client import ApiClient, ApiError, TerminalError, error_type
from pytest_grovescale.reference_operator.controller import DONE, Controller, Result
from pytest_grovescale.reference_operator.credentials import Credentials
from pytest_grovescale.reference_operator.histograms import Histogram

NAMES = ("podcliqueset", "podclique", "podcliquescalinggroup")


def _api() -> ApiClient:
    context: ssl.SSLContext | None = None
    token_file: Path | None = None
    return ApiClient(Credentials(server="http://h:1", ssl_context=context, token="", token_file=token_file))


async def _nothing(_: str) -> Result:
    return DONE


def _scrape(controllers: list[Controller]) -> dict[str, list[tuple[dict[str, str], float]]]:
    text = metrics.render(metrics.registry(controllers, _api())).decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def test_series_are_there_with_zero() -> None:
    found = _scrape([Controller(name, _nothing, concurrency=3) for name in NAMES])
    assert len(found["grove_operator_status_update_conflict_total"]) == 9
    assert len(found["grove_operator_reconcile_errors_total"]) == 24
    assert len(found["controller_runtime_reconcile_total"]) == 12
    assert {value for _, value in found["controller_runtime_max_concurrent_reconciles"]} == {3}
    assert len(found["controller_runtime_reconcile_time_seconds_bucket"]) == 3 * 41
    for family in ("rest_client_request_duration_seconds", "rest_client_rate_limiter_duration_seconds"):
        assert [value for _, value in found[f"{family}_sum"]] == [0.0] * 5
        assert {labels["verb"] for labels, _ in found[f"{family}_sum"]} == {"GET", "POST", "PUT", "PATCH", "DELETE"}
    assert all(labels.keys() == {"name", "controller", "priority"} for labels, _ in found["workqueue_depth"])
    assert "process_cpu_seconds_total" in found


ERRORS: list[tuple[Exception, str]] = [
    (ApiError(404, "NotFound", ""), "not_found"),
    (ApiError(409, "Conflict", ""), "conflict"),
    (ApiError(409, "AlreadyExists", ""), "already_exists"),
    (ApiError(504, "Timeout", ""), "timeout"),
    (TimeoutError(), "timeout"),
    (ApiError(403, "Forbidden", ""), "forbidden"),
    (ApiError(422, "Invalid", ""), "invalid"),
    (ApiError(429, "TooManyRequests", ""), "rate_limited"),
    (ApiError(500, "InternalError", ""), "internal"),
    (ApiError(0, "NoAnswer", ""), "internal"),
    (KeyError("a bug"), "internal"),
]


@pytest.mark.parametrize(("error", "kind"), ERRORS)
def test_error_types(error: Exception, kind: str) -> None:
    assert error_type(error) == kind


def test_errors_add_up() -> None:
    errors = [*(error for error, _ in ERRORS), TerminalError("never again")]
    all_raised = asyncio.Event()

    async def reconcile(_: str) -> Result:
        error = errors.pop(0)
        if not errors:
            all_raised.set()
        raise error

    async def run() -> Controller:
        controller = Controller("podclique", reconcile, concurrency=1)
        controller.start()
        for number in range(len(ERRORS) + 1):
            controller.queue.add(f"n/{number}")
        await all_raised.wait()
        await controller.stop(1.0)
        return controller

    controller = asyncio.run(run())
    found = _scrape([controller])
    assert sum(value for _, value in found["grove_operator_reconcile_errors_total"]) == len(ERRORS) + 1
    assert found["controller_runtime_reconcile_errors_total"][0][1] == len(ERRORS) + 1
    assert found["controller_runtime_terminal_reconcile_errors_total"][0][1] == 1
    # All but the terminal one are tried again.
    assert found["workqueue_retries_total"][0][1] == len(ERRORS)


def test_a_histogram_is_cumulative() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    assert histogram.cumulative() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]
    assert histogram.total == 12.0
