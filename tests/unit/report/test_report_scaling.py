"""What a reader of a sweep sees."""

from __future__ import annotations

import numpy as np

from pytest_grovescale.analysis.scaling import SizedRun, Sweep, sweep
from pytest_grovescale.checks import Scales
from pytest_grovescale.report.scaling_table import render, render_markdown


def swept(sizes: tuple[int, ...] = (62, 125, 250, 500), *, broken: bool = False) -> Sweep:
    chance = np.random.default_rng(545)
    runs = [
        SizedRun(
            size=size,
            metrics={
                "cpu:deploy": 1e-5 * size**2 * chance.lognormal(0, 0.02),
                "rss:deploy": 1e8,
                "api:deploy": 6.0 * size,
            },
            broken="deploy: timeout" if broken and size == max(sizes) else "",
        )
        for size in sizes
        for _ in range(2)
    ]
    return sweep("replicas", runs, facts={"nodes": "100"})


def test_the_first_line_names_what_grows_fastest() -> None:
    found = render(swept(), width=120).splitlines()
    assert found[0].startswith("Grows fastest with replicas: CPU of the operator, deploy, to the power of ")
    assert found[1] == "nodes 100"


def test_rows_are_ordered_by_exponent_and_hold_the_medians() -> None:
    lines = render(swept(), width=120).splitlines()
    table = [line for line in lines if line.startswith(("CPU of", "requests", "peak"))]
    assert [line.split()[0] for line in table] == ["CPU", "requests", "peak"]
    assert "1.00 (1.00 to 1.00)" in table[1]
    assert table[1].split()[-4:] == ["372", "750", "1,500", "3,000"]
    assert any(line.startswith("metric") and "replicas 62" in line for line in lines)


def test_a_failed_check_is_the_answer() -> None:
    found = swept()
    check = Scales("cpu:deploy").judge_sweep(found)
    text = render(found, [check], width=140)
    assert text.startswith("CPU of the operator, deploy grows with replicas to the power of")
    assert 'fail: scales("cpu:deploy", exponent_max=1.15)' in text
    assert "fail: scales" in render_markdown(found, [check])


def test_a_check_that_cannot_be_decided_is_the_answer() -> None:
    found = swept()
    check = Scales("api:delete").judge_sweep(found)
    assert render(found, [check], width=200).startswith("Can't tell: requests by the operator, delete: no run of the")


def test_what_is_left_out_is_said() -> None:
    text = render(swept(broken=True), width=140)
    assert "left out, 500: deploy: timeout (CPU of the operator, deploy and" not in text
    assert "left out, 500: deploy: timeout (requests by the operator, deploy and 2 more metrics)" in text


def test_too_few_sizes_are_no_law() -> None:
    assert render(swept((62, 125))).startswith("No exponent: 2 sizes of replicas were run")


def test_markdown_has_a_row_for_each_metric() -> None:
    lines = render_markdown(swept()).splitlines()
    assert lines[0].startswith("**Grows fastest")
    assert [line.count("|") for line in lines if line.startswith("|")] == [7] * 5


def test_what_is_always_zero_is_shown_as_zero() -> None:
    runs = [SizedRun(size=n, metrics={"noop_writes": 0.0, "rss:deploy": 1e8 - n / 1e6}) for n in (62, 125, 250)]
    lines = render(sweep("replicas", runs), width=140).splitlines()
    [writes] = [line for line in lines if line.startswith("object writes")]
    assert writes.split()[-6:] == ["does", "not", "grow", "0", "0", "0"]
    assert "-0.00" not in "\n".join(lines)
    assert not [line for line in lines if line.startswith("- ")]
