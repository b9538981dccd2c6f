"""What should be one label, one family or one histogram; and what only looks so."""

from __future__ import annotations

import pytest

from .surfaces import family, problems, rules


def gauge(label: str, *values: str, kind: str = "gauge") -> str:
    name = "x_things_total" if kind == "counter" else "x_things"
    return family(name, kind, *(f'{{{label}="{value}"}}' for value in values))


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("percentile", ("p50", "p90", "p99")),
        ("percentile", ("50", "95")),
        ("stat", ("avg", "max")),
        ("aggregation", ("min", "median", "max", "stddev")),
        ("q", ("0.5", "0.99")),
    ],
)
def test_statistics_of_a_gauge_are_a_summary_by_hand(label: str, values: tuple[str, ...]) -> None:
    (problem,) = problems(gauge(label, *values))
    assert (problem.rule, label in problem.says, "histogram" in problem.fix) == ("derived", True, True)


@pytest.mark.parametrize(
    ("label", "values"),
    [("bound", ("min", "max")), ("level", ("p0", "p1", "p2")), ("target", ("p99",)), ("stat", ("avg", "limit"))],
)
def test_ends_priorities_and_a_single_one_are_none(label: str, values: tuple[str, ...]) -> None:
    assert rules(gauge(label, *values)) == []


@pytest.mark.parametrize(
    "values",
    [
        ("0-64KB", "64KB-1MB", ">1MB"),
        ("<1s", "1s-10s", "10s+"),
        ("lt_10", "10_to_100", "gt_100"),
        ("0-10", "10-100", "100+", "unknown"),
    ],
)
@pytest.mark.parametrize("kind", ["counter", "gauge"])
def test_ranges_are_a_histogram_by_hand(values: tuple[str, ...], kind: str) -> None:
    (problem,) = problems(gauge("size", *values, kind=kind))
    assert (problem.rule, values[0] in problem.says) == ("derived", True)


@pytest.mark.parametrize(
    "values", [("0-3", "4-7", "8-11"), ("8000-8999", "9000-9999", "10000-10999"), ("<1s", ">1s"), ("a+", "b+", "c+")]
)
def test_ranges_that_all_end_are_of_cores_or_ports(values: tuple[str, ...]) -> None:
    assert rules(gauge("part", *values)) == []


@pytest.mark.parametrize(
    ("short", "long", "wrong"),
    [
        ("svc", "service", True),
        ("tenant", "tenant_name", True),
        ("tenantId", "tenant_id", True),
        ("env", "environment", True),
        ("kind", "owner", False),
        ("source", "target", False),
    ],
)
def test_one_label_has_one_name(short: str, long: str, wrong: bool) -> None:
    def both(of_other: tuple[str, str]) -> list[str]:
        some = family("x_leases", "gauge", *(f'{{{short}="{value}"}}' for value in ("billing", "core")))
        others = family("x_things", "gauge", *(f'{{{long}="{value}"}}' for value in of_other))
        return [one.rule for one in problems(some, others) if one.rule == "label-variants"]

    assert both(("billing", "core")) == ["label-variants"] * wrong
    assert both(("billing", "else")) == both(("true", "false")) == []


def test_two_labels_of_one_family_are_two() -> None:
    both = family("x_leases", "gauge", '{svc="a",service="b"}', '{svc="b",service="a"}')
    assert rules(both) == []


def reconciles(*words: str, text: str) -> str:
    return "".join(family(f"x_{one}_reconciles_total", "counter", help=text.format(one)) for one in words)


def test_a_family_for_each_controller_is_one_with_a_label() -> None:
    (problem,) = problems(reconciles("backup", "schedule", "restore", text="Reconciles of {}s."))
    assert (problem.rule, problem.family) == ("label-in-name", "x_backup_reconciles_total")
    assert "backup, restore, schedule" in problem.says
    # Two may have their reasons; where the endpoint has them as values of a label, it is beyond doubt.
    two = reconciles("backup", "restore", text="Reconciles, {}.")
    known = family("x_objects", "gauge", '{kind="Backup"}', '{kind="Restore"}')
    assert rules(two) == []
    assert rules(two, known) == ["label-in-name"]


def test_how_reconciles_ended_is_no_controller() -> None:
    assert rules(reconciles("slow", "noop", "full", text="Number of {} reconciles.")) == []
    known = family("x_managed", "gauge", '{kind="Backup"}', '{kind="Restore"}')
    # Numbers of objects may be a family for each kind.
    assert rules(family("x_backups", "gauge"), family("x_restores", "gauge"), known) == []


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("2xx", "5xx"), True),
        (("200", "404"), True),
        (("0", "1", "2"), True),
        (("0", "1"), False),
        (("1", "5", "15"), False),
        (("4", "6"), False),
    ],
)
def test_names_that_differ_in_a_number_are_one_family(words: tuple[str, ...], wrong: bool) -> None:
    every = [family(f"x_part_{word}_answers_total", "counter", help=f"Answers, {word}.") for word in words]
    assert rules(*every) == ["label-in-name"] * wrong
