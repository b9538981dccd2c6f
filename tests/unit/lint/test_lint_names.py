"""promlint's rules: what each finds, what it lets pass, and that its own advice is no fault."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.checks.metrics.families import Served
from pytest_grovescale.checks.metrics.names import problems as name_problems
from pytest_grovescale.checks.metrics.units import ABBREVIATIONS, BASE, OTHER, PREFIXES, SCALED
from pytest_grovescale.exposition.families import Family, MetricType

from .surfaces import family, problems, rules

TYPES: tuple[MetricType, ...] = ("counter", "gauge", "histogram", "summary", "unknown")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (family("x_things", "gauge"), []),
        (family("x_things", "gauge", help=""), ["help"]),
        ("x_things 1\n", ["help"]),
        # Named by a framework, whose words are not the operator's to mend.
        (family("operator_sdk_x_things", "gauge", help=""), []),
        ("# HELP x_things  \n# TYPE x_things gauge\nx_things 1\n", ["help"]),
        (family("x_seconds", "gauge"), []),
        (family("x_milliseconds", "gauge"), ["unit"]),
        (family("x_minutes_total", "counter"), ["unit"]),
        (family("x_gibibytes", "untyped"), ["unit"]),
        (family("x_celsius", "gauge"), []),
        (family("x_requests", "counter"), ["counter-total"]),
        (family("x_requests_total", "counter"), []),
        (family("x_requests_total", "gauge"), ["counter-total"]),
        (family("x_requests_total", "untyped"), []),
        (family("x_count", "gauge"), ["reserved-suffix"]),
        (family("x_sum", "gauge"), ["reserved-suffix"]),
        (family("x_bucket", "gauge"), ["reserved-suffix"]),
        (family("x_count", "untyped"), []),
        (family("x_things", "gauge", '{le="1"}'), ["reserved-suffix"]),
        (family("x_things", "gauge", '{quantile="1"}'), ["reserved-suffix"]),
        (family("x_seconds", "summary", '{quantile="1"}', "x_seconds_sum", "x_seconds_count"), []),
        (
            family("x_seconds", "summary", '{le="1"}', 'x_seconds_sum{le="1"}', 'x_seconds_count{le="1"}'),
            ["reserved-suffix", "inconsistent"],
        ),
        (family("x_last_timestamp_seconds", "gauge"), []),
        (
            family("x_timestamp_seconds", "summary", "x_timestamp_seconds_sum", "x_timestamp_seconds_count"),
            ["reserved-suffix"],
        ),
        (family("up", "gauge"), ["builtin-collision"]),
        (family("scrape_duration_seconds", "gauge"), ["builtin-collision"]),
        (family("x_up", "gauge"), []),
        (family("shop_shop_orders", "gauge"), ["prefix"]),
        (family("shop_shopping_orders", "gauge"), []),
        (family("x_gauge", "gauge"), ["type-in-name"]),
        (family("x_counter_total", "counter"), ["type-in-name"]),
        (family("x_summary_seconds", "gauge"), ["type-in-name"]),
        (family("x_HISTOGRAM", "gauge"), ["type-in-name"]),
        (family("x_gauges", "gauge"), []),
        (family("job:x:sum", "gauge"), ["reserved-character"]),
        ('# HELP "x.things" What it is.\n# TYPE "x.things" gauge\n{"x.things"} 1\n', ["reserved-character"]),
        (family("x_badName", "gauge"), ["camel-case"]),
        (family("x_things", "gauge", '{podName="a"}'), ["camel-case"]),
        (family("x_things", "gauge", '{podClique="a"}', '{podClique="b"}'), ["camel-case"]),
        (family("x_HTTP_things", "gauge"), []),
        (family("x_ms", "gauge"), ["unit-abbreviation"]),
        (family("x_kb_total", "counter"), ["unit-abbreviation"]),
        (family("x_s_things", "gauge"), ["unit-abbreviation"]),
        (family("s_x", "gauge"), []),
        (family("x_things", "gauge") + family("x_things_total", "counter"), ["duplicate"]),
        (family("go_memstats_alloc_bytes", "gauge") + family("go_memstats_alloc_bytes_total", "counter"), []),
        (family("go_new_things_things", "counter", help=""), []),
    ],
)  # fmt: skip
def test_rules_find_what_they_say(text: str, expected: list[str]) -> None:
    assert rules(text) == expected


def test_openmetrics_reports_units_too() -> None:
    def of(name: str, kind: MetricType) -> list[str]:
        described = Family(name=name, type=kind, help="What it is.", unit="seconds")
        return [problem.rule for problem in name_problems([Served(described, [], None)], ())]

    assert of("x_things", "gauge") == ["unit"]
    assert of("x_seconds", "gauge") == []
    assert of("x_seconds_total", "counter") == []


@pytest.mark.parametrize(
    ("name", "kind", "better"),
    [
        ("x_milliseconds", "gauge", "x_seconds"),
        ("x_requests", "counter", "x_requests_total"),
        ("x_requests_total", "gauge", "x_requests"),
        ("x_pod_count", "gauge", "x_pods"),
        ("x_gauge_bytes", "gauge", "x_bytes"),
        ("x_badName", "gauge", "x_bad_name"),
        ("x_latency_ms_total", "counter", "x_latency_seconds_total"),
        ("job:x", "gauge", "job_x"),
        ("x_HugePages_Total", "gauge", "x_huge_pages"),
        ("x_requested_millicores", "gauge", "x_requested_cores"),
        ("x_used_nanocpus", "gauge", "x_used_cores"),
        ("x_clock_mhz", "gauge", "x_clock_hertz"),
        ("x_limit_kbps", "gauge", "x_limit_bytes_per_second"),
    ],
)
def test_fixes_say_what_to_write(name: str, kind: str, better: str, snapshot: SnapshotAssertion) -> None:
    (problem,) = problems(family(name, kind))
    assert re.search(rf" {better}\b", problem.fix)
    assert problem.fix == snapshot


@pytest.mark.parametrize(
    ("name", "kind", "better"),
    [
        ("x_requests_total_by_view_method_total", "counter", "x_requests_total"),
        ("x_wait_seconds_by_view_method", "gauge", "x_wait_seconds"),
    ],
)
def test_a_fix_takes_all_labels_out_of_a_name(name: str, kind: str, better: str) -> None:
    found = problems(family(name, kind, '{method="GET",view="main"}'))
    assert {problem.fix.removeprefix("name it ") for problem in found} == {better}


def test_no_fix_proposes_a_name_that_is_taken_or_was_proposed_already() -> None:
    wrong = family("x_slots_total", "gauge") + family("x_pull_seconds_summary", "gauge")
    found = problems(wrong, family("x_slots", "gauge"), family("x_pull_seconds", "gauge"))
    found = [problem for problem in found if problem.rule != "duplicate"]
    assert len(found) == 2
    assert not any("name it" in problem.fix for problem in found)
    split = [family(f"x_calls_by_{label}_total", "counter", f'{{{label}="a"}}') for label in ("verb", "zone")]
    assert ["name it" in problem.fix for problem in problems(*split)] == [True, False]


def test_an_average_need_not_end_in_its_unit() -> None:
    assert rules(family("x_render_seconds_avg", "gauge")) == ["derived"]


def test_a_counter_of_what_took_a_time_needs_no_unit() -> None:
    assert rules(family("x_unknown_latency_total", "counter", help="Count of requests of unknown latency.")) == []
    assert rules(family("x_latency_total", "counter", help="Time that requests took.")) == ["unit"]


def test_a_time_without_a_unit_is_a_hint_where_its_values_do_not_tell_the_unit() -> None:
    assert rules(family("x_last_backup_timestamp", "gauge")) == []
    assert rules(family("x_cluster_created_at", "gauge")) == []
    created = family("x_cluster_created_at", "gauge").replace(" 1\n", " 1.79e9\n")
    assert rules(created) == ["unit"]
    known = family("x_last_backup_timestamp", "gauge").replace(" 1\n", " 1.79e9\n")
    assert rules(known) == ["unit"]


@pytest.mark.parametrize(
    ("value", "unit"), [("1.79e12", "milliseconds"), ("1.79e15", "microseconds"), ("1.79e18", "nanoseconds")]
)
@pytest.mark.parametrize("name", ["x_last_sync_time", "x_last_sync_timestamp", "x_last_sync_epoch"])
def test_a_time_without_a_unit_may_be_in_a_smaller_one(name: str, value: str, unit: str) -> None:
    text = family(name, "gauge").replace(" 1\n", f" {value}\n")
    (problem,) = problems(text)
    assert (problem.rule, unit in problem.says) == ("unit", True)
    assert "x_last_sync_timestamp_seconds" in problem.fix
    assert rules(text, family(f"{name}_seconds", "gauge").replace(" 1\n", " 1.79e9\n")) == []


def test_what_has_a_unit_without_a_prefix_may_be_a_thing() -> None:
    assert rules(family("x_requested_cores", "gauge"), family("x_used_cpu", "gauge")) == []


BUCKETS = 'x_seconds_bucket{le="1"} 1\nx_seconds_bucket{le="+Inf"} 1\nx_seconds_sum 1\nx_seconds_count 1\n'


def test_a_type_line_of_a_sample_is_one_fault() -> None:
    text = f"# HELP x_seconds What it is.\n# TYPE x_seconds_bucket histogram\n{BUCKETS}"
    assert [(problem.family, problem.rule) for problem in problems(text)] == [("x_seconds_bucket", "type")]


@pytest.mark.parametrize(
    ("kind", "samples", "real"),
    [
        ("counter", BUCKETS, "histogram"),
        ("gauge", BUCKETS, "histogram"),
        ("summary", BUCKETS, "histogram"),
        ("counter", "x_seconds_sum 1\nx_seconds_count 1\n", "summary"),
        ("gauge", 'x_seconds{quantile="0.5"} 1\nx_seconds_sum 1\nx_seconds_count 1\n', "summary"),
    ],
)
def test_a_type_line_that_says_another_type_than_the_samples_is_one_fault(kind: str, samples: str, real: str) -> None:
    (problem,) = problems(f"# HELP x_seconds What it is.\n# TYPE x_seconds {kind}\n{samples}")
    assert (problem.family, problem.rule, problem.fix) == ("x_seconds", "type", f"make its TYPE line say {real}")
    assert problems(f"# HELP x_seconds What it is.\n# TYPE x_seconds {real}\n{samples}") == []


WORDS = st.sampled_from(
    [
        "x",
        "things",
        "total",
        "count",
        "ms",
        "sec",
        "gauge",
        "summary",
        "badName",
        "minutes",
        "kilobytes",
        "bits",
        "sum",
        "s",
    ]
)


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from(TYPES))
def test_following_the_advice_ends_in_a_name_without_that_fault(parts: list[str], kind: MetricType) -> None:
    name = "_".join(["my", *parts])
    for _ in range(12):
        found = [
            problem
            for problem in name_problems([Served(Family(name=name, type=kind, help="H."), [], None)], ())
            if re.search(r"name it [\w:]+|, as [\w:]+", problem.fix)
        ]
        if not found:
            break
        match = re.search(r"(?:name it|, as) ([\w:]+)", found[0].fix)
        assert match is not None
        name = match[1]
    assert found == []


def test_units_are_complete_and_apart() -> None:
    assert not set(BASE) & set(OTHER)
    assert set(OTHER.values()) | set(ABBREVIATIONS.values()) <= {*BASE, *SCALED.values(), "bytes_per_second"}
    assert not set(SCALED) & {*BASE, *OTHER}
    assert all(unit for unit in PREFIXES)


@pytest.mark.parametrize(
    ("name", "kind", "rule"),
    [
        ("x_sync_duration", "gauge", "unit"),
        ("x_seconds_sync_total", "counter", "unit"),
        ("x_used_percent", "gauge", "unit"),
        ("x_requests_per_second", "gauge", "derived"),
        ("x_wait_avg_seconds", "gauge", "derived"),
        ("x_wait_seconds_p99", "gauge", "derived"),
        ("x_last_sync_age_seconds", "gauge", "derived"),
        ("x_things_by_phase", "gauge", "label-in-name"),
    ],
)
def test_names_that_say_what_a_query_says(name: str, kind: str, rule: str) -> None:
    assert rule in rules(family(name, kind, '{phase="a"}'))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x_bytes_per_second_limit", "gauge"),
        ("x_throttle_bytes_per_second", "gauge"),
        ("x_max_requests_per_second", "gauge"),
        ("x_wait_seconds_max", "gauge"),
        ("x_average_total", "counter"),
        ("x_storage_bytes", "gauge"),
        ("x_things_by_zone", "gauge"),
    ],
)
def test_names_that_only_look_so(name: str, kind: str) -> None:
    assert rules(family(name, kind, '{phase="a"}')) == []


def test_a_help_text_that_is_the_name() -> None:
    assert rules(family("x_things", "gauge", help="X things.")) == ["help"]


@pytest.mark.parametrize(
    ("name", "kind", "help", "rule"),
    [
        ("x_disk_usage", "gauge", "Used part of the disks in percent", "unit"),
        ("x_disk_usage", "gauge", "Percentage of the disk that is used.", "unit"),
        ("x_fetch_total", "counter", "Milliseconds that fetches took.", "unit"),
        ("x_lag_seconds", "gauge", "Bytes of the log that were not replayed.", "help"),
        ("x_moves_succeeded_total", "counter", "Moves that failed.", "help"),
        ("x_cache_hits_total", "counter", "Number of misses of the cache.", "help"),
        ("x_reviews_denied_total", "counter", "Reviews that the webhook allowed.", "help"),
        ("x_messages_mirrored", "gauge", "Messages mirrored since the operator started", "type"),
    ],
)
def test_a_help_text_that_says_another_thing(name: str, kind: str, help: str, rule: str) -> None:
    assert rules(family(name, kind, help=help)) == [rule]


@pytest.mark.parametrize(
    ("name", "kind", "help"),
    [
        ("x_disk_usage_ratio", "gauge", "Used part of the disks."),
        ("x_files_total", "counter", "Number of files that were read in bytes mode."),
        ("x_sent_bytes_total", "counter", "Bytes sent."),
        ("x_span_seconds", "gauge", "Seconds of the last run."),
        ("x_moves_failed_total", "counter", "Moves that did not succeed."),
        ("x_moves_failed_total", "counter", "Retries after a success."),
        ("x_messages_received_total", "counter", "Messages that peers sent."),
        ("x_memory_used_bytes", "gauge", "Highest memory used since the process started."),
        ("x_step_completed", "gauge", "Whether the step completed since the start."),
    ],
)
def test_a_help_text_that_says_the_same(name: str, kind: str, help: str) -> None:
    assert rules(family(name, kind, help=help)) == []


def test_numbers_for_words_may_begin_at_one() -> None:
    assert rules(family("x_member_status", "gauge", help="1=Alive, 2=Leaving, 3=Left.")) == ["derived"]


def test_a_fix_moves_total_to_the_end() -> None:
    (problem,) = problems(family("x_total_queries", "counter"))
    assert problem.fix == "name it x_queries_total"


def test_restarts_so_far_are_counted() -> None:
    assert rules(family("x_browser_restarts", "gauge", help="Restarts of the browser so far.")) == ["type"]
    assert rules(family("x_browser_sessions", "gauge", help="Sessions since the start that are open.")) == []


@pytest.mark.parametrize(
    ("name", "kind", "help", "rule"),
    [
        ("x_number_of_failed_requests", "gauge", "Number of failed requests.", "type"),
        ("x_port_link_speed", "gauge", "Speed of the link in Mbps.", "unit"),
        ("x_board_temp_c", "gauge", "Temperature of the board.", "unit-abbreviation"),
        ("x_client_kbytes_total", "counter", "Traffic of clients.", "unit-abbreviation"),
    ],
)
def test_what_reviewers_of_real_programs_wrote(name: str, kind: str, help: str, rule: str) -> None:
    assert rules(family(name, kind, help=help)) == [rule]


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("x_failed_pods", "Number of failed pods."),
        ("x_failed_requests", "Number of failed requests in the last minute."),
        ("x_link_bytes_per_second", "Speed of the link."),
        ("x_lang_c", "Programs in C."),
    ],
)
def test_what_only_sounds_so(name: str, help: str) -> None:
    assert rules(family(name, "gauge", help=help)) == []


def test_a_help_text_without_end_is_read_in_no_time() -> None:
    for text in ("number of ", "0=a 1=b ", "since the "):
        assert rules(family("x_things", "gauge", help=text * 1_000)) == []
