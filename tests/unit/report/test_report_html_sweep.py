"""The page of a sweep as text. Its figures are generated (see `grown`): known laws with noise, not measurements."""

from __future__ import annotations

import json
import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pytest_grovescale.analysis.run_metrics import Unit
from pytest_grovescale.analysis.scaling import ScalingFit, SizedRun, Sweep, sweep
from pytest_grovescale.bench import output
from pytest_grovescale.bench.target_test import Subject
from pytest_grovescale.report.html import files, scaling
from pytest_grovescale.report.html.page import render_sweep
from pytest_grovescale.report.html.templates import csp_hash
from tests.golden import masked

from .grown import LAWS, REPEATS, SIZES, grown, judged

HOSTILE = "</script><script>alert(1)</script><!--"


def body(page: str) -> str:
    """Return what a page shows: without its scripts, styles and tags."""
    return unescape(re.sub(r"<[^>]+>", "", re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)))


def data_of(page: str) -> Any:
    (block,) = re.findall(r'type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    return json.loads(block)


def first_line(page: str) -> str:
    found = re.search(r'<ul class="answer">\s*<li class="(\w+)">(.*?)</li>', page, re.DOTALL)
    assert found is not None
    return unescape(f"{found[1]}: {found[2]}")


def lines_with(page: str, part: str) -> str:
    """Return the lines of what a page shows that have a part in them."""
    return "\n".join(line.strip() for line in body(page).splitlines() if part in line)


def table(page: str, section: str) -> list[list[str]]:
    """Return the texts of the rows of a section's first table."""
    found = re.search(rf'<section id="{section}">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert found is not None
    rows = re.findall(r"<tr>(.*?)</tr>", found[1], re.DOTALL)
    return [
        [unescape(re.sub(r"<[^>]+>", " ", cell)).strip() for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)]
        for row in rows
    ]


def test_the_first_line_is_what_grows_fastest(snapshot: SnapshotAssertion) -> None:
    page = render_sweep(grown())
    assert first_line(page).startswith("plain: Grows fastest with replicas: ")
    assert masked(first_line(page), numbers=True) == snapshot(name="first line")
    steepest = lines_with(page, "Steepest, ")
    assert "CPU of the operator, delete 1.9" in steepest
    assert masked(steepest, numbers=True) == snapshot(name="steepest")


def test_the_first_line_is_what_left_its_bound(snapshot: SnapshotAssertion) -> None:
    found = grown()
    page = render_sweep(found, judged(found))
    assert first_line(page).startswith("bad: requests by the operator, delete ")
    assert " to the power of 1.9" in first_line(page)
    assert masked(first_line(page), numbers=True) == snapshot
    assert [row[0] for row in table(page, "checks")] == ["fail", "inconclusive", "pass", "pass"]
    assert "2 of 4 checks passed." in body(page)


def test_what_can_not_be_reported_is_said(snapshot: SnapshotAssertion) -> None:
    (check,) = (check for check in judged(grown()) if check.verdict == "inconclusive")
    page = render_sweep(grown(), [check])
    assert f">Can&#39;t tell: {check.text}</li>" in page
    assert first_line(page).startswith("warn: Can't tell: delete: pcs-gone ")
    assert masked(first_line(page), numbers=True) == snapshot
    assert first_line(render_sweep(grown())).startswith("plain: Grows fastest")


def test_an_exponent_has_a_row_with_all_that_it_rests_on() -> None:
    found = grown()
    rows = table(render_sweep(found), "exponents")
    assert len(rows) == sum(fit.exponent is not None for fit in found.fits) == len(LAWS) - 1
    (deploy,) = (row for row in rows if row[0] == "CPU of the operator, deploy")
    fit = found.fit("cpu:deploy")
    assert fit is not None
    assert fit.last_exponent is not None
    assert deploy == [
        "CPU of the operator, deploy",
        f"{fit.exponent:.2f}",
        f"{fit.low:.2f} to {fit.high:.2f}",
        "",
        f"{fit.last_exponent:.2f}",
        "6.14 ms",
        str(len(SIZES) * REPEATS - 1),
        "1000: broken",
    ]


def test_what_surely_grows_fastest_is_on_top() -> None:
    lows = [row.fit.low for row in scaling.rows(grown())]
    assert lows == sorted(lows, key=lambda low: -(low or 0.0))


def test_a_curve_that_bends_upwards_is_reported(snapshot: SnapshotAssertion) -> None:
    page = render_sweep(grown())
    steeper = lines_with(page, "Steeper between ")
    assert steeper
    assert masked(steeper, numbers=True) == snapshot
    (gone,) = (row for row in table(page, "exponents") if row[0] == "delete: pcs-gone")
    assert gone[4].endswith("↗")
    straight = ScalingFit(key="cpu:d", unit="s", points=(), low=0.9, high=1.001, last_exponent=1.004)
    assert not scaling.bends(straight)


def test_metrics_without_an_exponent_are_listed_with_why(snapshot: SnapshotAssertion) -> None:
    rows = table(render_sweep(grown()), "without")
    assert "\n".join(" | ".join(row[:2]) for row in rows) == snapshot
    (requests, few, sizes, *_), (writes, zero, *_) = rows
    assert requests.startswith("requests by the operator ")
    assert few.startswith("1 size ")
    assert "125: not measured (3 runs)" in sizes
    assert writes.startswith("object writes by the operator ")
    assert "0 at every size" in zero


def test_why_a_run_is_broken_is_said_and_its_recording_linked(snapshot: SnapshotAssertion) -> None:
    page = render_sweep(grown(), folder="../sweep-1")
    left_out = lines_with(page, "Left out, replicas 1000: ")
    assert left_out == snapshot
    assert "deploy: timeout after 10m00s" in left_out
    rows = table(page, "runs")
    assert len(rows) == len(SIZES) * REPEATS
    assert sum(row[1].startswith("broken") for row in rows) == 1
    linked = {Path(href).parts for href in re.findall(r'href="(\.\./[^"]+)"', page)}
    assert ("..", "sweep-1", "runs", "sweep-00-62", "recordings", "test_pcs.jsonl.gz") in linked


def test_every_point_is_in_exactly_one_chart() -> None:
    found = grown()
    charts = data_of(render_sweep(found))["scaling"]["charts"]
    drawn = [metric for chart in charts.values() for metric in chart["metrics"]]
    assert len(drawn) == sum(bool(fit.points) for fit in found.fits)
    assert sum(len(metric["points"]) for metric in drawn) == sum(len(fit.points) for fit in found.fits)
    assert list(charts) == [name for name, _, _ in scaling.GROUPS]


def test_metrics_of_a_chart_share_its_axis() -> None:
    counts = {"requests", "writes"}
    for _, _, kinds in scaling.GROUPS:
        units = {fit.unit for fit in grown().fits if fit.key.partition(":")[0] in kinds}
        assert len(units) == 1 or units == counts


def test_a_chart_has_a_table_of_runs_and_fit() -> None:
    (cpu, *_) = scaling.charts(grown())
    (deploy,) = (row for row in cpu.table if row.what == "deploy")
    assert [len(measured) for measured, _ in deploy.cells] == [REPEATS] * (len(SIZES) - 1) + [REPEATS - 1]
    assert all(fitted.endswith("s") for _, fitted in deploy.cells)


@pytest.mark.parametrize(
    "runs",
    [
        (),
        (SizedRun(size=62, metrics={"cpu:deploy": 1.0}),),
        (SizedRun(size=62, metrics={"cpu:deploy": 1.0}), SizedRun(size=125, metrics={"cpu:deploy": 2.0})),
        tuple(SizedRun(size=size, metrics={}, broken="deploy: timeout") for size in SIZES),
        tuple(SizedRun(size=size, metrics={"noop_writes": 0.0}) for size in SIZES),
    ],
    ids=["nothing", "one run", "two sizes", "all broken", "never a write"],
)
def test_a_sweep_without_a_fit_has_a_page(runs: tuple[SizedRun, ...], snapshot: SnapshotAssertion) -> None:
    page = render_sweep(sweep("replicas", runs))
    assert first_line(page).startswith("plain: No exponent: ")
    assert first_line(page) == snapshot(name="first line")
    without = lines_with(page, "No metric has ")
    assert without
    assert without == snapshot(name="exponents")
    assert (page.count("<script>") == 2) == any(run.metrics.get("cpu:deploy") for run in runs)


def test_names_are_text_wherever_they_stand() -> None:
    metrics = {f"cpu:{HOSTILE}": 1.0, f"milestone:{HOSTILE}/{HOSTILE}": 1.0, "noop_writes": 0.0}
    runs = [SizedRun(size=size, metrics=metrics, recording=HOSTILE) for size in SIZES]
    runs.append(SizedRun(size=2000, metrics={}, broken=HOSTILE))
    found = sweep(HOSTILE, runs, facts={HOSTILE: HOSTILE})
    page = render_sweep(found, [msgspec.structs.replace(judged(grown())[0], check=HOSTILE, text=HOSTILE)])
    assert "alert(1)</script>" not in page
    assert "<!--" not in page
    assert data_of(page)["scaling"]["parameter"] == HOSTILE


def test_nothing_is_fetched_and_only_its_own_scripts_run() -> None:
    page = render_sweep(grown())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert [csp_hash(script) for script in scripts] == re.findall(r"'sha256-[^']+'", unescape(policy[1]))
    assert not re.search(r"<link[^>]+href=\"(?!data:)|\ssrc=|@import|url\(", re.sub(r"<script.*?</script>", "", page))


def test_thirty_runs_of_twenty_metrics_are_a_small_page() -> None:
    assert len(render_sweep(grown(), judged(grown())).encode()) < 200_000


@given(st.floats(-5, 5), st.floats(0, 5))
def test_an_interval_stays_on_its_axis(exponent: float, reach: float) -> None:
    fit = ScalingFit(
        key="cpu:deploy", unit="s", points=(), exponent=exponent, low=exponent - reach, high=exponent + reach
    )
    low, width, at = scaling.place(fit)
    assert 0 <= low <= at <= 100
    assert at <= low + width + 0.01
    assert width >= 0.5
    if 0 <= exponent <= 2:
        assert math.isclose(at, 50 * exponent, abs_tol=0.01)


@pytest.mark.parametrize(
    ("factor", "unit", "text"),
    [
        (None, "s", "–"),
        (6.1e-3, "s", "6.10 ms"),
        (8.9e-6, "s", "8.9e-06 s"),
        (4.7e7, "bytes", "47.0 MB"),
        (52.0, "bytes", "52 bytes"),
        (9.4, "requests", "9.40"),
        (3.1e-7, "requests", "3.1e-07 requests"),
    ],
)
def test_the_figure_at_size_one_is_never_rounded_away(factor: float | None, unit: Unit, text: str) -> None:
    assert scaling.at_one(factor, unit) == text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cpu:deploy", "deploy"),
        ("wall:deploy", "deploy, whole"),
        ("milestone:deploy/pods-ready", "deploy: pods-ready"),
        ("writes:delete", "object writes, delete"),
        ("noop_cpu", "per no-op trigger"),
    ],
)
def test_a_metric_is_short_under_its_heading(key: str, text: str) -> None:
    assert scaling.short(key) == text


def test_exponents_round_to_no_negative_zero() -> None:
    assert [scaling.decimal(figure) for figure in (None, -1e-9, -0.306, 1.0)] == ["–", "0.00", "−0.31", "1.00"]


def test_a_sweep_leaves_its_page_beside_its_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    found = grown()
    subject = Subject(nodeid="test_pcs.py::test_pcs", path="/tests/test_pcs.py", name="test_pcs", cluster="local")
    written = output.write_sweep(tmp_path, output.SweepFile(subject=subject, sweep=found, checks=judged(found)))
    assert [path.name for path in written] == ["sweep.json", "sweep.md", "sweep.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.html", "sweep.json", "sweep.md"]
    page = (tmp_path / "sweep.html").read_text(encoding="utf-8")
    again = msgspec.json.decode((tmp_path / "sweep.json").read_bytes(), type=output.SweepFile)
    assert page == render_sweep(again.sweep, again.checks)


def test_a_page_that_cannot_be_written(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    with pytest.raises(files.PageError) as caught:
        files.write_sweep(tmp_path, Sweep(parameter="replicas", runs=()), to=tmp_path / "no" / "sweep.html")
    assert masked(str(caught.value), {tmp_path: "folder"}) == snapshot
