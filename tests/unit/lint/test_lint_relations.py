"""Families that contradict each other, and those that only sound as if they could."""

from __future__ import annotations

import pytest

from pytest_grovescale.checks.metrics.families import Problem
from pytest_grovescale.checks.metrics.lint import LintRules, lint

from .surfaces import surface


def described(name: str, kind: str, *samples: str) -> str:
    return "\n".join([f"# HELP {name} What it is.", f"# TYPE {name} {kind}", *samples, ""])


def found(*texts: str, hints: bool = False) -> list[Problem]:
    """Return the faults between families, or what is worth a look."""
    result = lint(surface("".join(texts)), LintRules())
    return [one for one in (result.hints if hints else result.problems) if one.rule == "inconsistent"]


def both(kind: str, less: str, whole: str, *, hints: bool = False) -> list[Problem]:
    """Return what is wrong between two families of one type, each with its series: ``op_runs_failed_total 31``."""
    names = (one.partition("{")[0].partition(" ")[0] for one in (less, whole))
    return found(*(described(name, kind, one) for name, one in zip(names, (less, whole), strict=True)), hints=hints)


@pytest.mark.parametrize(
    ("less", "whole"),
    [
        ("op_runs_failed_total 31", "op_runs_total 28"),
        ("op_failed_runs_total 31", "op_runs_total 28"),
        ("op_run_failures_total 31", "op_runs_total 28"),
        ("op_request_errors_total 31", "op_requests_total 28"),
        ("op_syncs_succeeded_total 31", "op_sync_attempts_total 26"),
        ("op_events_dropped_total 31", "op_events_received_total 26"),
        ("op_cache_hits_total 31", "op_cache_lookups_total 28"),
        ("op_documents_indexed_total 31", "op_documents_seen_total 26"),
        ("op_retries_failed_total 1", "op_retries_total 0"),
    ],
)
def test_a_counter_of_a_part_is_never_above_that_of_the_whole(less: str, whole: str) -> None:
    (problem,) = both("counter", less, whole)
    assert problem.family == less.split()[0]
    assert whole.split()[0] in problem.says
    assert both("counter", less.replace("31", "26").replace(" 1", " 0"), whole) == []


@pytest.mark.parametrize(
    ("less", "whole"),
    [
        ("op_jobs_running 7", "op_jobs_limit 5"),
        ("op_jobs_running 7", "op_jobs_max 5"),
        ("op_running_jobs 7", "op_max_jobs 5"),
        ("op_connections_in_use 7", "op_connections_max 5"),
        ("op_pool_used_bytes 7", "op_pool_capacity_bytes 5"),
        ("op_queue_length 7", "op_queue_capacity 5"),
        ("op_slots_occupied 7", "op_slots 5"),
        ("op_pool_free_bytes 7", "op_pool_size_bytes 5"),
        ('op_connections{state="active"} 7', "op_connections_max 5"),
        ("op_replicas_ready 7", "op_replicas_desired 5"),
        ("op_ready_nodes 7", "op_nodes 5"),
        ("op_replicas_min 7", "op_replicas_max 5"),
        ("op_pause_min_seconds 7", "op_pause_max_seconds 5"),
    ],
)
def test_a_gauge_is_not_above_its_limit_or_its_whole(less: str, whole: str) -> None:
    (problem,) = both("gauge", less, whole)
    assert (problem.family, "7" in problem.says, "5" in problem.says) == (less.split()[0].partition("{")[0], True, True)
    assert both("gauge", less.replace("7", "5"), whole) == []


@pytest.mark.parametrize(
    ("kind", "less", "whole"),
    [
        # What may be more.
        ("counter", "op_events_dropped_total 31", "op_events_total 28"),
        ("counter", "op_retries_total 31", "op_runs_total 28"),
        # One was read a moment later, and some began before the process did.
        ("counter", "op_cache_hits_total 10050", "op_cache_lookups_total 10000"),
        ("counter", "op_tasks_succeeded_total 3", "op_tasks_started_total 0"),
        # No limit at all.
        ("gauge", "op_jobs_running 7", "op_jobs_limit 0"),
        ("gauge", "op_jobs_running 7", "op_jobs_limit -1"),
        # Of other label sets.
        ("gauge", 'op_jobs_running{queue="a"} 7', 'op_jobs_limit{queue="b"} 5'),
        # The longest of late is no limit of what takes time now.
        ("gauge", "op_request_active_seconds 7", "op_request_max_seconds 5"),
        # A sensor reads what it reads, and warns from there on.
        ("gauge", "op_disk_celsius 7", "op_disk_max_celsius 5"),
        ("gauge", "op_clock_hertz 7", "op_clock_max_hertz 5"),
        # Another thing.
        ("gauge", "op_jobs_running 7", "op_pods_limit 5"),
    ],
)
def test_what_may_be_more_is_no_fault(kind: str, less: str, whole: str) -> None:
    assert both(kind, less, whole) == []


def test_one_thing_may_have_several_errors() -> None:
    series = ("op_bundle_errors_total 31", "op_bundles_total 28")
    assert both("counter", *series) == []
    assert len(both("counter", *series, hints=True)) == 1


def test_label_sets_are_compared_over_the_labels_of_both() -> None:
    whole = described("op_runs_total", "counter", 'op_runs_total{store="a"} 9', 'op_runs_total{store="b"} 2')
    part = 'op_runs_failed_total{{reason="{}",store="{}"}} {}'.format
    failed = described("op_runs_failed_total", "counter", part("x", "a", 4), part("y", "a", 5), part("x", "b", 2))
    assert found(whole, failed) == []
    failed = described("op_runs_failed_total", "counter", part("x", "a", 4), part("x", "b", 2), part("y", "b", 1))
    (problem,) = found(whole, failed)
    assert problem.series == part("x", "b", "").strip()


@pytest.mark.parametrize(("ok", "failed", "wrong"), [(30, 25, True), (30, 10, False)])
def test_what_ended_began(ok: int, failed: int, wrong: bool) -> None:
    values = {"started": 40, "succeeded": ok, "failed": failed}
    names = {word: f"op_moves_{word}_total" for word in values}
    texts = [described(names[word], "counter", f"{names[word]} {value}") for word, value in values.items()]
    assert [one.family for one in found(*texts)] == ["op_moves_succeeded_total"] * wrong


@pytest.mark.parametrize(
    ("some", "rest", "wrong"),
    [
        ("op_apply_success_ratio 0.9", "op_apply_failure_ratio 0.3", True),
        ("op_cache_hit_ratio 0.9", "op_cache_miss_ratio 0.3", True),
        ("op_cache_hit_ratio 0.9", "op_cache_miss_ratio 0.1", False),
        ("op_cache_hit_ratio 0.9", "op_disk_miss_ratio 0.3", False),
    ],
)
def test_shares_are_no_more_than_the_whole(some: str, rest: str, wrong: bool) -> None:
    assert [one.family for one in both("gauge", some, rest)] == [some.split()[0]] * wrong


def phases(name: str, *values: int, label: str = "phase") -> str:
    words = ("Pending", "Ready", "Failed")
    return described(
        name, "gauge", *(f'{name}{{{label}="{word}"}} {one}' for word, one in zip(words, values, strict=True))
    )


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ("op_databases_by_phase", "op_databases"),
        ("op_database_phases", "op_managed_databases"),
        ("op_database_phase", "op_database_objects"),
    ],
)
def test_phases_add_up_to_the_whole(parts: str, whole: str) -> None:
    (problem,) = found(phases(parts, 2, 6, 1), described(whole, "gauge", f"{whole} 12"))
    assert (problem.family, "9" in problem.says, "12" in problem.says) == (parts, True, True)
    assert found(phases(parts, 2, 9, 1), described(whole, "gauge", f"{whole} 12")) == []
    # One moment apart.
    assert found(phases(parts, 2, 8, 1), described(whole, "gauge", f"{whole} 12")) == []


def test_conditions_may_overlap() -> None:
    parts = phases("op_databases_by_condition", 2, 9, 9, label="condition")
    assert found(parts, described("op_databases", "gauge", "op_databases 12")) == []


def timed(count: int) -> str:
    name = "op_update_duration_seconds"
    return described(name, "summary", f"{name}_sum 41", f"{name}_count {count}")


@pytest.mark.parametrize(("count", "counted", "wrong"), [(64, 90, 1), (90, 64, 1), (64, 64, 0), (64, 70, 0), (4, 9, 0)])
def test_a_histogram_observes_what_a_counter_counts(count: int, counted: int, wrong: int) -> None:
    assert len(found(timed(count), described("op_updates_total", "counter", f"op_updates_total {counted}"))) == wrong


def test_what_fails_may_go_unobserved() -> None:
    updates = described("op_updates_total", "counter", "op_updates_total 90")
    failed = described("op_updates_failed_total", "counter", "op_updates_failed_total 26")
    assert found(timed(64), updates, failed) == []
    ended = ('op_updates_total{result="ok"} 64', 'op_updates_total{result="failed"} 26')
    assert found(timed(64), described("op_updates_total", "counter", *ended)) == []


@pytest.mark.parametrize("whole", ["op_jobs_finished_total", "op_jobs_completed_total", "op_jobs_processed_total"])
def test_no_more_succeed_than_end(whole: str) -> None:
    assert len(both("counter", "op_jobs_succeeded_total 31", f"{whole} 28")) == 1
    # What completes may be what succeeds.
    assert both("counter", "op_jobs_failed_total 31", f"{whole} 28") == []


def test_what_ended_well_has_been_observed() -> None:
    def updates(well: str) -> str:
        return described("op_updates_total", "counter", f'op_updates_total{{result="{well}"}} 90')

    assert len(found(timed(64), updates("completed"))) == 1
    assert found(timed(64), updates("skipped")) == found(timed(85), updates("completed")) == []


def test_spans_of_time_are_within_each_other() -> None:
    def active(last: int) -> list[str]:
        of_spans = (
            f'op_active_users{{period="{span}"}} {count}' for span, count in (("24h", 4), ("7d", 5), ("30d", last))
        )
        whole = described("op_total_users", "gauge", "op_total_users 5")
        return [one.family for one in found(described("op_active_users", "gauge", *of_spans), whole)]

    assert active(5) == []
    assert active(9) == ["op_active_users"]


@pytest.mark.parametrize(("misses", "wrong"), [(300, True), (21, False)])
def test_hits_and_misses_are_no_more_than_lookups(misses: int, wrong: bool) -> None:
    values = {"lookups": 900, "hits": 880, "misses": misses}
    names = {word: f"op_cache_{word}_total" for word in values}
    texts = [described(names[word], "counter", f"{names[word]} {value}") for word, value in values.items()]
    assert [one.family for one in found(*texts)] == ["op_cache_hits_total"] * wrong


@pytest.mark.parametrize(("ratio", "wrong"), [(0.2, True), (0.74, False), (0.8, False)])
def test_a_ratio_is_the_quotient_of_what_is_beside_it(ratio: float, wrong: bool) -> None:
    values = {"used_ratio": ratio, "used_bytes": 74e9, "capacity_bytes": 100e9}
    texts = [
        described(f"op_disk_{end}", "gauge", f'op_disk_{end}{{disk="a"}} {value}') for end, value in values.items()
    ]
    assert [one.family for one in found(*texts)] == ["op_disk_used_ratio"] * wrong
    # Of other disks.
    assert found(*texts[:2], texts[2].replace('"a"', '"b"')) == []
