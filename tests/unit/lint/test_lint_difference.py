"""What a change adds and takes away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.metrics.snapshot import Surface, surface_of
from pytest_grovescale.checks.metrics.difference import FamilyDifference, difference
from pytest_grovescale.checks.metrics.lint import LintRules, lint, read
from pytest_grovescale.checks.metrics.one_process import in_one_process
from pytest_grovescale.report.lint import Found, text

from .surfaces import family, surface

OLD = family("a_total", "counter", '{op="x"}', '{op="y"}') + family("b", "gauge") + family("c", "gauge", '{k="1"}')
NEW = (
    family("a_total", "counter", '{op="x",pod="p"}')
    + family("b", "histogram", 'b_bucket{le="+Inf"}')
    + family("d", "gauge")
)


def test_families_series_and_labels() -> None:
    found = difference(surface(OLD), surface(NEW))
    assert (found.series_before, found.series, found.series_added, found.series_removed) == (4, 3, 3, 4)
    assert {one.family: one for one in found.families} == {
        "a_total": FamilyDifference(
            family="a_total",
            change="changed",
            type="counter",
            series=1,
            series_before=2,
            labels_added=("pod",),
            series_added=('a_total{op="x",pod="p"}',),
            series_removed=('a_total{op="x"}', 'a_total{op="y"}'),
        ),
        "b": FamilyDifference(
            family="b",
            change="changed",
            type="histogram",
            type_before="gauge",
            series=1,
            series_before=1,
            labels_added=("le",),
            series_added=('b_bucket{le="+Inf"}',),
            series_removed=("b",),
        ),
        "c": FamilyDifference(family="c", change="removed", type="gauge", series=1, series_removed=('c{k="1"}',)),
        "d": FamilyDifference(family="d", change="added", type="gauge", series=1, series_added=("d",)),
    }


def test_as_many_series_are_not_the_same_series(snapshot: SnapshotAssertion) -> None:
    old, new = (surface(family("a_x", "gauge", f'{{v="{value}"}}')) for value in (1, 2))
    (found,) = difference(old, new).families
    assert (found.change, found.series, found.series_before) == ("changed", 1, 1)
    assert (found.series_added, found.series_removed) == (('a_x{v="2"}',), ('a_x{v="1"}',))
    assert found.values_added == {"v": ("2",)}
    few, many = (
        surface(family("a_x", "gauge", '{v="0"}')),
        surface(family("a_x", "gauge", *(f'{{v="{n}"}}' for n in range(9)))),
    )
    reported = text(Found(lint=lint(many, LintRules()), against=difference(few, many))).splitlines()
    assert reported[0].startswith("against t: +8 -0 series")
    assert reported[2:5] == [f'    + a_x{{v="{n}"}}' for n in (1, 2, 3)]
    assert "\n".join(reported[:6]) == snapshot


def test_another_loopback_port_of_a_host_is_no_new_series() -> None:
    name = "rest_client_requests_total"

    def requests(*hosts: str) -> str:
        return family(name, "counter", *(f'{{code="200",host="{host}"}}' for host in hosts))

    old, new = (surface(requests(f"127.0.0.1:{port}", f"[::1]:{port}")) for port in (43817, 40001))
    assert difference(old, new).families == ()
    # A second server is one series more, whatever its port.
    two = surface(requests("127.0.0.1:40001", "127.0.0.1:40002", "[::1]:40001"))
    (found,) = difference(old, two).families
    assert found.series_added == (f'{name}{{code="200",host="127.0.0.1:*"}}',)
    assert (found.series_removed, found.values_added) == ((), {})
    # Elsewhere a port is part of an address, and in another label it may mean something.
    for before, after in (("10.0.0.1:443", "10.0.0.1:6443"), ("127.0.0.1:80", "10.0.0.1:80")):
        assert difference(surface(requests(before)), surface(requests(after))).families
    named = (surface(family("up", "gauge", f'{{instance="127.0.0.1:{port}"}}')) for port in (8080, 9090))
    assert difference(*named).families


def described(name: str, kind: str, *lines: str) -> str:
    return "\n".join([f"# HELP {name} What it is.", f"# TYPE {name} {kind}", *lines, ""])


def revisions(*numbers: int) -> str:
    return described("a_rollouts_total", "counter", *(f'a_rollouts_total{{part="r{one}"}} 1' for one in numbers))


def last(at: float) -> str:
    name = "a_last_run_timestamp_seconds"
    return described(name, "gauge", f"{name} {at}")


def build(version: str) -> str:
    return described("a_build_info", "gauge", f'a_build_info{{version="{version}"}} 1')


def bucketed(*bounds: str) -> str:
    lines = (f'a_seconds_bucket{{le="{bound}"}} 5' for bound in (*bounds, "+Inf"))
    return described("a_seconds", "histogram", *lines, "a_seconds_sum 5", "a_seconds_count 5")


def outcomes(*results: str) -> str:
    return described("a_total", "counter", *(f'a_total{{result="{one}"}} 1' for one in results))


def errors(*reasons: str, of: Sequence[str] = ("corp", "sales")) -> str:
    lines = (f'a_errors_total{{directory="{one}",reason="{reason}"}} 3' for one in of for reason in reasons)
    return described("a_errors_total", "counter", *lines)


def observed(total: float, count: int) -> str:
    return described("a_seconds", "summary", f"a_seconds_sum {total}", f"a_seconds_count {count}")


def gauge(name: str, *values: int) -> str:
    return described(name, "gauge", *(f'{name}{{part="p{at}"}} {value}' for at, value in enumerate(values)))


def of_objects(name: str, *objects: str) -> str:
    return described(name, "gauge", *(f'{name}{{namespace="shop",name="{one}"}} 1' for one in objects))


def counted(jobs: int, timed: int) -> str:
    counter = described("a_jobs_total", "counter", f"a_jobs_total {jobs}")
    return counter + described("a_job_seconds", "summary", f"a_job_seconds_sum {timed}", f"a_job_seconds_count {timed}")


@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        (
            of_objects("a_ready", "x", "y") + of_objects("a_size", "x", "y"),
            of_objects("a_ready", "x") + of_objects("a_size", "x", "y"),
            ["value"],
        ),
        (
            of_objects("a_ready", "x", "y") + of_objects("a_size", "x", "y"),
            of_objects("a_ready", "x") + of_objects("a_size", "x"),
            [],
        ),
        (counted(10, 10), counted(20, 10), ["inconsistent"]),
        (counted(10, 10), counted(20, 19), []),
        (counted(10, 10), counted(12, 10), []),
        (errors("tls", "timeout"), errors("timeout"), ["value"]),
        (errors("tls", "timeout"), errors("tls", "timeout", of=["corp"]), []),
        (observed(7.5, 3), observed(9.5, 3), ["inconsistent"]),
        (observed(7.5, 3), observed(9.5, 4), []),
        (gauge("a_downloaded_bytes", 5, 7, 9), gauge("a_downloaded_bytes", 6, 8, 9), ["type"]),
        (gauge("a_downloaded_bytes", 5, 7, 9), gauge("a_downloaded_bytes", 6, 6, 9), []),
        (gauge("a_last_downloaded_bytes", 5, 7, 9), gauge("a_last_downloaded_bytes", 6, 8, 9), []),
        (gauge("a_waiting", 5, 7, 9), gauge("a_waiting", 6, 8, 9), []),
        (gauge("a_waiting", 5), gauge("a_waiting", 5).replace("What it is.", "What it is, at 09:14."), ["help"]),
        (described("a_total", "counter", "a_total 5"), described("a_total", "counter", "a_total 4"), ["value"]),
        (described("a_total", "counter", "a_total 5"), described("a_total", "counter", "a_total 6"), []),
        (described("a_things", "gauge", "a_things 5"), described("a_things", "gauge", "a_things 4"), []),
        (described("go_total", "counter", "go_total 5"), described("go_total", "counter", "go_total 4"), []),
        (
            described("a_seconds", "histogram", 'a_seconds_bucket{le="1"} 5', 'a_seconds_bucket{le="+Inf"} 7'),
            described("a_seconds", "histogram", 'a_seconds_bucket{le="1"} 4', 'a_seconds_bucket{le="+Inf"} 9'),
            ["value"],
        ),
        (described("a_total", "counter", "a_total 5"), described("a_total", "gauge", "a_total 5"), ["type"]),
        (
            described("a_run_info", "gauge", 'a_run_info{seen="14:02:11"} 1'),
            described("a_run_info", "gauge", 'a_run_info{seen="14:02:41"} 1'),
            ["unbounded-values"],
        ),
        # Another leader is an event.
        (
            described("a_leader_info", "gauge", 'a_leader_info{replica="first"} 1'),
            described("a_leader_info", "gauge", 'a_leader_info{replica="second"} 1'),
            [],
        ),
        (outcomes("ok", "failed"), outcomes("ok"), ["value"]),
        (last(1e9 - 10), last(1e9 - 20), ["value"]),
        (last(1e9 - 20), last(1e9 - 10), []),
        (last(1e9 - 20), last(0), []),
        (build("1"), build("2"), ["value"]),
        (build("1"), build("1"), []),
        (bucketed("1", "5"), bucketed("2", "5"), ["inconsistent"]),
        (outcomes("ok"), outcomes("ok", "failed"), []),
        (outcomes("ok"), described("b_total", "counter", "b_total 1"), ["value"]),
        (described("a_total", "counter", "a_total 5"), "", ["value"]),
        (described("a_things", "gauge", "a_things 5"), "", []),
        # It went with its object.
        (described("a_total", "counter", 'a_total{database="x"} 1', 'a_total{database="y"} 1'), outcomes("ok"), []),
        (revisions(1, 2, 3), revisions(4, 5, 6), ["unbounded-values"]),
        (revisions(1, 2, 3), revisions(3, 4, 5), []),
    ],
)
def test_two_responses_of_one_process(before: str, after: str, rules: list[str]) -> None:
    started = described("process_start_time_seconds", "gauge", "process_start_time_seconds {}")
    old, new, other = (
        surface(text + started.format(at)) for text, at in ((before, 1e9), (after, 1e9), (after, 1e9 + 60))
    )
    assert [problem.rule for problem in in_one_process(old, new)] == rules
    assert list(in_one_process(old, other)) == []
    assert list(in_one_process(surface(before), surface(after))) == []


@pytest.mark.parametrize(("after", "wrong"), [((4, 7, 9), True), ((0, 7, 9), False)])
def test_the_start_of_a_process_that_went_on_stays(after: Sequence[int], wrong: bool) -> None:
    def served(counts: Sequence[int], start: float) -> Surface:
        lines = (f'a_total{{result="r{at}"}} {count}' for at, count in enumerate(counts))
        started = described("process_start_time_seconds", "gauge", f"process_start_time_seconds {start}")
        return surface(described("a_total", "counter", *lines) + started)

    found = in_one_process(served((3, 7, 8), 1e9), served(after, 1e9 + 30))
    assert [problem.family for problem in found] == ["process_start_time_seconds"] * wrong


@pytest.mark.parametrize(("created", "count", "wrong"), [(31, 6, True), (1, 6, False), (31, 1, False)])
def test_what_counts_on_was_created_once(created: int, count: int, wrong: bool) -> None:
    def served(made: int, counted: int) -> Surface:
        start = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79e9\n"
        lines = f"# TYPE a counter\na_total {counted}\na_created {1790000000 + made}\n{start}# EOF\n"
        return surface_of(read(lines.encode(), "application/openmetrics-text; version=1.0.0")[0], target="t")

    rules = [problem.rule for problem in in_one_process(served(1, 5), served(created, count))]
    assert ("timestamp" in rules) == wrong


TEXTS = st.lists(
    st.sampled_from(
        [
            family("a_total", "counter", '{op="x"}'),
            family("b", "gauge"),
            family("c", "gauge", '{k="1"}', '{k="2"}'),
            family("d", "gauge", '{k="1",l="2"}'),
        ]
    ),
    unique=True,
)


@given(TEXTS, TEXTS)
def test_what_is_added_one_way_is_removed_the_other(old: list[str], new: list[str]) -> None:
    there, back = surface("".join(old)), surface("".join(new))
    added = {one.family for one in difference(there, back).families if one.change == "added"}
    removed = {one.family for one in difference(back, there).families if one.change == "removed"}
    assert added == removed
    assert difference(there, there).families == ()
    onward, backward = difference(there, back), difference(back, there)
    assert (onward.series_added, onward.series_removed) == (backward.series_removed, backward.series_added)
    assert onward.series - onward.series_before == onward.series_added - onward.series_removed
