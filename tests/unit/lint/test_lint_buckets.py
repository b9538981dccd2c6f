"""Histograms whose observations lie in one bucket, and those of which nothing more could be told."""

from __future__ import annotations

import pytest

from pytest_grovescale.checks.metrics.buckets import of_native
from pytest_grovescale.exposition.families import NativeHistogram

from .surfaces import problems, rules

HEAD = "# HELP x_seats Seats.\n# TYPE x_seats histogram\n"


def histogram(buckets: dict[str, int], total: float) -> str:
    lines = [f'x_seats_bucket{{le="{bound}"}} {count}' for bound, count in buckets.items()]
    return HEAD + "\n".join([*lines, f"x_seats_sum {total}", f"x_seats_count {buckets['+Inf']}", ""])


def test_all_in_one_bucket_is_a_fault() -> None:
    (found,) = problems(histogram({"1": 1000, "2": 1000, "+Inf": 1000}, 120.0))
    assert found.rule == "buckets"
    assert "up to 1" in found.says


@pytest.mark.parametrize(
    ("buckets", "total"),
    [
        ({"1": 1000, "2": 1000, "+Inf": 1000}, 1000.0),
        ({"1": 0, "2": 1000, "+Inf": 1000}, 2000.0),
        ({"0": 999, "5": 1000, "+Inf": 1000}, 4.0),
    ],
    ids=["all are one", "all are two", "nearly all are zero"],
)
def test_one_value_alone_in_a_bucket_is_none(buckets: dict[str, int], total: float) -> None:
    assert rules(histogram(buckets, total)) == []


def test_zero_must_be_what_the_bucket_is_for() -> None:
    assert rules(histogram({"-1": 0, "0": 999, "5": 1000, "+Inf": 1000}, -400.0)) == ["buckets"]


def test_a_mean_outside_of_the_fullest_bucket_is_no_place_for_buckets() -> None:
    (inside,) = problems(histogram({"1": 1000, "+Inf": 1000}, 120.0))
    (outside,) = problems(histogram({"1": 990, "9000": 1000, "+Inf": 1000}, 80_000.0))
    (between,) = problems(histogram({"1": 0, "2": 990, "9000": 1000, "+Inf": 1000}, 80_000.0))
    assert "0.12" in inside.fix
    assert "below 1 " in outside.fix
    assert "between 1 and 2 " in between.fix


@pytest.mark.parametrize(("name", "wrong"), [("certificate_expiration", False), ("throttled", True)])
def test_what_counts_down_is_well_above_all_bounds(name: str, wrong: bool) -> None:
    text = histogram({"1": 0, "2": 0, "+Inf": 1000}, 9000.0).replace("seats", f"{name}_seconds")
    assert (rules(text) == ["buckets"]) is wrong


def test_a_mean_that_is_nearly_the_bound_proves_nothing() -> None:
    assert rules(histogram({"1": 1000, "2": 1000, "+Inf": 1000}, 999.0)) == ["buckets"]


def wide(schema: int, *counts: int, zero: int = 0) -> NativeHistogram:
    positive = {at: float(one) for at, one in enumerate(counts, 1)}
    return NativeHistogram(schema=schema, count=sum(counts) + zero, sum="1", zero_count=zero, positive=positive)


@pytest.mark.parametrize(
    ("one", "wrong"),
    [
        (wide(-4, 1200), True),
        (wide(0, 3, 1200), True),
        (wide(0, 700, 500), False),
        (wide(-4, 3), False),
        # Nearly one value, and no value at all.
        (wide(3, 1200), False),
        (wide(0, 3, zero=1200), False),
    ],
)
def test_native_buckets_may_be_too_wide(one: NativeHistogram, wrong: bool) -> None:
    assert (of_native(one) is not None) is wrong


@pytest.mark.parametrize(
    ("name", "wrong"), [("x_lock_wait_seconds", True), ("x_request_latency_seconds", True), ("x_job_seconds", False)]
)
def test_bounds_of_hours_are_milliseconds_where_it_is_short(name: str, wrong: bool) -> None:
    buckets = {"10": 3, "100": 15, "1000": 45, "60000": 55, "+Inf": 55}
    lines = [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in buckets.items()]
    lines += [f"{name}_sum 55000", f"{name}_count 55"]
    text = "\n".join([f"# HELP {name} What it is.", f"# TYPE {name} histogram", *lines, ""])
    assert rules(text) == ["buckets"] * wrong


@pytest.mark.parametrize(
    ("help", "fractions", "wrong"),
    [
        ("Number of pods of a gang.", ("0.1", "0.25", "0.5"), True),
        ("Number of pods of a gang.", ("0.5",), False),
        ("Time that a gang takes.", ("0.1", "0.25", "0.5"), False),
    ],
)
def test_whole_numbers_have_whole_bounds(help: str, fractions: tuple[str, ...], wrong: bool) -> None:
    counts = dict.fromkeys(fractions, 0) | {"1": 4, "4": 9, "+Inf": 14}
    lines = "".join(f'x_gang_pods_bucket{{le="{bound}"}} {count}\n' for bound, count in counts.items())
    text = f"# HELP x_gang_pods {help}\n# TYPE x_gang_pods histogram\n{lines}x_gang_pods_sum 63\nx_gang_pods_count 14\n"
    assert rules(text).count("buckets") == wrong


@pytest.mark.parametrize(("name", "wrong"), [("x_move_duration_seconds", True), ("x_clock_skew_seconds", False)])
def test_no_duration_is_below_zero(name: str, wrong: bool) -> None:
    counts = {"-1": 0, "1": 4, "10": 9, "+Inf": 14}
    lines = "".join(f'{name}_bucket{{le="{bound}"}} {count}\n' for bound, count in counts.items())
    text = f"# HELP {name} What it is.\n# TYPE {name} histogram\n{lines}{name}_sum 163\n{name}_count 14\n"
    assert rules(text) == ["buckets"] * wrong


def test_the_bounds_of_opentelemetry_are_milliseconds() -> None:
    bounds = (0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000, "+Inf")
    lines = "".join(f'x_dump_seconds_bucket{{le="{bound}"}} {5 * index}\n' for index, bound in enumerate(bounds))
    text = f"# HELP x_dump_seconds What it is.\n# TYPE x_dump_seconds histogram\n{lines}x_dump_seconds_sum 200000\n"
    assert rules(f"{text}x_dump_seconds_count 75\n") == ["buckets"]


@pytest.mark.parametrize(("name", "wrong"), [("operator_sdk_timer", False), ("own_timer", True)])
def test_a_framework_chooses_the_buckets_of_its_own_families(name: str, wrong: bool) -> None:
    buckets = {str(bound): bound for bound in range(1, 70)} | {"+Inf": 70}
    text = histogram(buckets, 2450.0).replace("x_seats", name).replace("Seats", "Seats that are taken")
    assert (rules(text) == ["buckets"]) is wrong
