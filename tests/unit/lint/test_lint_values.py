"""Values that contradict themselves, their type or their name; and those that are as they should be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from pytest_grovescale.checks.metrics.lint import LintRules, lint

from .surfaces import surface


def found(text: str) -> list[str]:
    """Return the rules about values that a response breaks."""
    rules = ("inconsistent", "value")
    return [one.rule for one in lint(surface(text), LintRules()).problems if one.rule in rules]


def histogram(**changed: str | None) -> str:
    """Return a histogram of five observations, with lines changed or left out (None)."""
    lines: dict[str, str | None] = {
        "low": 'x_seconds_bucket{le="0.1"} 2',
        "high": 'x_seconds_bucket{le="1"} 4',
        "inf": 'x_seconds_bucket{le="+Inf"} 5',
        "sum": "x_seconds_sum 4.5",
        "count": "x_seconds_count 5",
    }
    lines |= changed
    return "\n".join(["# HELP x_seconds What it is.", "# TYPE x_seconds histogram", *filter(None, lines.values()), ""])


def test_a_sound_histogram_has_no_fault() -> None:
    assert found(histogram()) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"high": "x_seconds_bucket 4"},
        {"sum": None},
        {"count": None},
        {"low": None, "high": None, "inf": None},
        {"count": "x_seconds_count 6"},
        {"count": "x_seconds_count 5.5", "inf": 'x_seconds_bucket{le="+Inf"} 5.5'},
        {"count": "x_seconds_count -5", "inf": 'x_seconds_bucket{le="+Inf"} -5'},
        {"sum": "x_seconds_sum NaN"},
        {"sum": "x_seconds_sum +Inf"},
        # In milliseconds, beside buckets in seconds.
        {"sum": "x_seconds_sum 4500", "inf": 'x_seconds_bucket{le="+Inf"} 4', "count": "x_seconds_count 4"},
        {"sum": "x_seconds_sum 0.01"},
        {"sum": "x_seconds_sum -3"},
        {"high": 'x_seconds_bucket{le="1"} 4\nx_seconds_bucket{le="1.0"} 4'},
        {"more": 'x_seconds_bucket{a="b",le="+Inf"} 1\nx_seconds_sum{a="b"} 1\nx_seconds_count{a="b"} 1'},
    ],
)
def test_a_histogram_that_contradicts_itself(changed: dict[str, str | None]) -> None:
    assert "inconsistent" in found(histogram(**changed))


@given(st.lists(st.floats(min_value=-100, max_value=100), max_size=40), st.booleans())
def test_a_client_librarys_histogram_never_has_a_fault(observed: list[float], negative: bool) -> None:
    registry = CollectorRegistry()
    bounds = (-10.0, 0.0, 0.5, 10.0, math.inf) if negative else (0.005, 0.5, 10.0, math.inf)
    metric = Histogram("x_seconds", "Help.", buckets=bounds, registry=registry)
    for value in observed:
        metric.observe(value if negative else abs(value))
    assert found(generate_latest(registry).decode()) == []


def summary(*lines: str) -> str:
    return "\n".join(["# HELP x_seconds What it is.", "# TYPE x_seconds summary", *lines, ""])


WHOLE = ('x_seconds{quantile="0.5"} 1', 'x_seconds{quantile="0.9"} 2', "x_seconds_sum 7", "x_seconds_count 5")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (summary(*WHOLE), False),
        (summary('x_seconds{quantile="0.5"} NaN', 'x_seconds{quantile="0.9"} NaN', *WHOLE[2:]), False),
        (summary('x_seconds{quantile="0.5"} 3', *WHOLE[1:]), True),
        (summary('x_seconds{quantile="50"} 1', *WHOLE[2:]), True),
        (summary(*WHOLE[:2], "x_seconds_sum 7"), True),
        (summary(*WHOLE[:3], "x_seconds_count 5.5"), True),
        (summary("x_seconds 1", *WHOLE), True),
    ],
)
def test_summaries(text: str, wrong: bool) -> None:
    assert (found(text) == ["inconsistent"]) is wrong


@pytest.mark.parametrize(
    ("name", "kind", "value", "wrong"),
    [
        ("x_total", "counter", "3", False),
        ("x_total", "counter", "-1", True),
        ("x_total", "counter", "NaN", True),
        ("x_total", "counter", "+Inf", True),
        ("x_build_info", "gauge", "1", True),
        ("x_build_info", "gauge", "0", True),
        ("x_used_ratio", "gauge", "0.85", False),
        ("x_used_ratio", "gauge", "1.2", False),
        ("x_used_ratio", "gauge", "85", True),
        ("x_used_ratio", "gauge", "NaN", False),
        ("x_last_sync_timestamp_seconds", "gauge", "1.79e9", False),
        ("x_last_sync_timestamp_seconds", "gauge", "0", False),
        ("x_last_sync_timestamp_seconds", "gauge", "1.79e12", True),
        ("x_last_sync_timestamp_seconds", "gauge", "-62135596800", True),
        ("x_cache_bytes", "gauge", "1048576", False),
        ("x_cache_bytes", "gauge", "0.5", True),
        ("x_cache_bytes", "gauge", "-1", True),
        ("x_queue_depth", "gauge", "-1", True),
        ("x_total", "counter", "2.5", True),
        ("x_busy_seconds_total", "counter", "2.5", False),
        ("x_total", "counter", "1.8446744073709552e+19", True),
        ("x_things", "gauge", "NaN", True),
        ("x_things", "gauge", "+Inf", True),
        ("x_things", "gauge", "-4", True),
        ("x_drift_metres", "gauge", "-4", False),
        ("x_progress", "gauge", "-4", False),
        ("x_sync_seconds", "gauge", "1.79e12", True),
        ("x_start_time_seconds", "gauge", "0", True),
        ("x_last_request_time_seconds", "gauge", "1.79e9", False),
        ("x_last_request_time_seconds", "gauge", "1.79e12", True),
        ("x_last_request_duration_seconds", "gauge", "1.79e9", True),
        ("x_clients", "gauge", "1.8446744073709552e+19", True),
        ("x_max_clients", "gauge", "1.8446744073709552e+19", False),
        ("x_catalog_version", "gauge", "16.4", True),
        ("x_schema_version", "gauge", "42", False),
        ("x_uptime_seconds", "gauge", "1.79e9", True),
        ("x_last_sync_total", "counter", "1.79e9", True),
        ("x_sent_bytes_total", "counter", "1.79e9", False),
        ("x_lookups_total", "counter", "1.79e9", False),
        ("x_lag_seconds", "gauge", "1.79e9", True),
        ("x_uptime_seconds", "gauge", "9e7", False),
        ("x_remaining_time_seconds", "gauge", "1.79e9", True),
    ],
)
def test_values_fit_their_type_and_name(name: str, kind: str, value: str, wrong: bool) -> None:
    text = f"# HELP {name} What it is.\n# TYPE {name} {kind}\n{name} {value}\n"
    assert (found(text) == ["value"]) is wrong


def test_what_is_below_zero_is_left_out_and_what_is_not_whole_is_exposed_whole() -> None:
    text = "# HELP x_free_bytes What it is.\n# TYPE x_free_bytes gauge\nx_free_bytes {}\n"
    below, parts = (lint(surface(text.format(value)), LintRules()).problems[0].fix for value in (-1, 0.5))
    assert "leave" in below
    assert "whole" in parts


@pytest.mark.parametrize(("failed", "wrong"), [(7, True), (6, False)])
def test_of_several_labels_one_is_the_sum_of_the_others(failed: int, wrong: bool) -> None:
    lines = [f'{{queue="{one}",result="ok"}} {number}' for one, number in (("a", 40), ("b", 80), ("all", 120))]
    lines += [f'{{queue="{one}",result="failed"}} {number}' for one, number in (("a", 3), ("b", 4), ("all", failed))]
    text = "# HELP x_jobs_total Jobs.\n# TYPE x_jobs_total counter\n"
    assert found(text + "".join(f"x_jobs_total{line}\n" for line in lines)) == ["value"] * wrong


@pytest.mark.parametrize(("versions", "wrong"), [(("7.2", "7.4"), True), (("7.4",), False)])
def test_of_one_thing_an_info_has_one_version(versions: Sequence[str], wrong: bool) -> None:
    lines = [f'x_shard_info{{shard="{one}",version="7.4"}} 1' for one in ("red", "blue", "green")]
    lines += [f'x_shard_info{{shard="black",version="{version}"}} 1' for version in versions]
    text = "\n".join(["# HELP x_shard_info Shards.", "# TYPE x_shard_info gauge", *lines, ""])
    assert found(text) == ["value"] * wrong


@pytest.mark.parametrize(("whole", "wrong"), [("120", True), ("119", False)])
def test_a_series_that_is_the_sum_of_the_others(whole: str, wrong: bool) -> None:
    values = {"Pending": "4", "Ready": "116", "all": whole}
    lines = [f'x_things{{phase="{phase}"}} {value}' for phase, value in values.items()]
    text = "\n".join(["# HELP x_things What it is.", "# TYPE x_things gauge", *lines, ""])
    assert (found(text) == ["value"]) is wrong


@pytest.mark.parametrize(
    ("kind", "sample", "wrong"),
    [
        ("gauge", "x_cache_limit_bytes 512", True),
        ("gauge", "x_max_memory_bytes 2048", True),
        ("gauge", "x_cache_limit_bytes 65536", False),
        # For none, and of what may be small.
        ("gauge", "x_cache_limit_bytes 0", False),
        ("gauge", "x_message_limit_bytes 512", False),
        ("gauge", "x_cache_bytes 512", False),
        ("counter", "x_written_bytes_total 1048576.25", True),
        ("counter", "x_written_bytes_total 1048576", False),
    ],
)
def test_bytes_are_whole_and_memory_has_some(kind: str, sample: str, wrong: bool) -> None:
    name = sample.split()[0]
    assert found(f"# HELP {name} What it is.\n# TYPE {name} {kind}\n{sample}\n") == ["value"] * wrong


@pytest.mark.parametrize(
    ("name", "wrong"), [("x_nodes_healthy", False), ("x_healthy", True), ("x_bus_up", True), ("x_is_healthy", True)]
)
def test_of_several_there_is_a_number(name: str, wrong: bool) -> None:
    assert found(f"# HELP {name} What it is.\n# TYPE {name} gauge\n{name} 4\n") == ["value"] * wrong


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("x_last_success_seconds", True),
        ("x_last_success_timestamp_seconds", False),
        ("x_last_expiration_seconds", False),
        ("x_last_change_time_seconds", False),
    ],
)
def test_a_time_under_the_name_of_a_duration(name: str, wrong: bool) -> None:
    assert found(f"# HELP {name} What it is.\n# TYPE {name} gauge\n{name} 1.76e9\n") == ["value"] * wrong


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        ('version="dev",revision="none"', True),
        ('version="1.0",revision="b",component="web"', False),
    ],
)
def test_a_process_has_one_build(other: str, wrong: bool) -> None:
    first = 'x_build_info{version="1.0",revision="a"} 1'
    text = f"# HELP x_build_info What it is.\n# TYPE x_build_info gauge\n{first}\nx_build_info{{{other}}} 1\n"
    assert found(text) == ["value"] * wrong


@pytest.mark.parametrize(("name", "wrong"), [("x_store_condition", True), ("x_stores", False)])
def test_a_condition_has_one_status(name: str, wrong: bool) -> None:
    series = "".join(
        f'{name}{{status="{status}",store="a"}} {value}\n'
        for status, value in (("True", 1), ("False", 1), ("Unknown", 0))
    )
    assert found(f"# HELP {name} What it is.\n# TYPE {name} gauge\n{series}") == ["value"] * wrong


@pytest.mark.parametrize(("per_second", "wrong"), [(1.0, False), (1e9, True)])
def test_no_mean_duration_is_longer_than_a_year(per_second: float, wrong: bool) -> None:
    lines = "".join(f'x_move_duration_seconds_bucket{{le="{bound * per_second}"}} 5\n' for bound in (1, 10))
    text = (
        f"# HELP x_move_duration_seconds What it is.\n# TYPE x_move_duration_seconds histogram\n{lines}"
        'x_move_duration_seconds_bucket{le="+Inf"} 5\n'
        f"x_move_duration_seconds_sum {4 * per_second}\nx_move_duration_seconds_count 5\n"
    )
    assert found(text) == ["inconsistent"] * wrong


@pytest.mark.parametrize(("total", "count", "wrong"), [(1062.7, 812, True), (1.0627, 812, False), (1062.7, 50, False)])
def test_the_mean_of_a_summary_is_in_the_unit_of_its_quantiles(total: float, count: int, wrong: bool) -> None:
    text = (
        '# HELP x_read_seconds What it is.\n# TYPE x_read_seconds summary\nx_read_seconds{quantile="0.99"} 0.0041\n'
        f"x_read_seconds_sum {total}\nx_read_seconds_count {count}\n"
    )
    assert found(text) == ["inconsistent"] * wrong


@pytest.mark.parametrize(("help", "wrong"), [("Whether it has this status.", True), ("Help.", False)])
def test_a_status_that_was_left_behind(help: str, wrong: bool) -> None:
    values = {("a", "active"): 1, ("a", "failed"): 1, ("b", "active"): 0, ("b", "failed"): 0}
    series = "".join(f'x_vip_status{{node="{node}",status="{one}"}} {value}\n' for (node, one), value in values.items())
    assert found(f"# HELP x_vip_status {help}\n# TYPE x_vip_status gauge\n{series}") == ["value"] * wrong


@pytest.mark.parametrize(
    ("help", "name", "wrong"),
    [
        ("Time that the last signing took.", "x_signing_seconds", True),
        ("Time that is left until it expires.", "x_left_seconds", False),
        ("When it expires, from now on.", "x_expiry_seconds", False),
    ],
)
def test_nothing_takes_less_than_no_time(help: str, name: str, wrong: bool) -> None:
    assert (found(f"# HELP {name} {help}\n# TYPE {name} gauge\n{name} -0.5\n") == ["value"]) is wrong
