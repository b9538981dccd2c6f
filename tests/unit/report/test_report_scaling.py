"""What a reader of a sweep sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.scaling import SizedRun, Sweep, sweep
from pytest_grovescale.checks import Scales
from pytest_grovescale.report import document
from pytest_grovescale.report.scaling_table import blocks
from tests.golden import masked


def render(*of: Any, width: int = 100, color: bool = False) -> str:
    return document.text(blocks(*of), width=width, color=color)


def render_markdown(*of: Any) -> str:
    return document.markdown(blocks(*of))


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


def test_the_first_line_names_what_grows_fastest(snapshot: SnapshotAssertion) -> None:
    found = render(swept(), width=120).splitlines()
    assert masked(found[0], numbers=True) == snapshot
    assert found[0].startswith("Grows fastest with replicas: ")
    assert found[1] == "nodes 100"


def test_rows_are_ordered_by_exponent_and_hold_the_medians() -> None:
    lines = render(swept(), width=120).splitlines()
    table = [line for line in lines if line.startswith(("CPU of", "requests", "peak"))]
    assert [line.split()[0] for line in table] == ["CPU", "requests", "peak"]
    assert "1.00 (1.00 to 1.00)" in table[1]
    assert table[1].split()[-4:] == ["372", "750", "1,500", "3,000"]
    assert any(line.startswith("metric") and "replicas 62" in line for line in lines)


def test_a_failed_check_is_the_answer(snapshot: SnapshotAssertion) -> None:
    found = swept()
    check = Scales("cpu:deploy").judge_sweep(found)
    text = render(found, [check], width=140)
    assert masked(text.splitlines()[0], numbers=True) == snapshot
    assert text.startswith("CPU of the operator, deploy ")
    assert f"fail: {check.check}" in text
    assert check.check.startswith('scales("cpu:deploy"')
    assert "exponent_max=1.15)" in check.check
    assert "fail: scales" in render_markdown(found, [check])


def test_a_check_that_cannot_be_decided_is_the_answer(snapshot: SnapshotAssertion) -> None:
    found = swept()
    check = Scales("api:delete").judge_sweep(found)
    first = render(found, [check], width=200).splitlines()[0]
    assert first.startswith("Can't tell: ")
    assert first == snapshot


def test_what_is_left_out_is_said(snapshot: SnapshotAssertion) -> None:
    text = render(swept(broken=True), width=140)
    (left_out,) = (line for line in text.splitlines() if "left out, " in line)
    assert left_out == snapshot
    assert "500: deploy: timeout" in left_out
    assert "CPU" not in left_out


def test_too_few_sizes_are_no_law(snapshot: SnapshotAssertion) -> None:
    first = render(swept((62, 125))).splitlines()[0]
    assert first.startswith("No exponent: 2 sizes")
    assert first == snapshot


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
