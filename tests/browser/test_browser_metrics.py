"""The metrics of a run's page, in a browser: which series there were, and what they said over time."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from .reader import Reader

CHARTS = ("series", "families")


def _chart(reader: Reader, kind: str) -> str:
    """Scroll a chart into view and wait until it is drawn; return its selector."""
    chart = f"[data-chart={kind}]"
    reader.go_to(chart)
    reader.wait(lambda: reader.all(f"{chart} canvas"), f"{kind} is drawn")
    return chart


@pytest.mark.parametrize("kind", CHARTS)
@pytest.mark.parametrize("dark", [False, True])
def test_a_chart_is_drawn(reader: Reader, metrics_page: Path, kind: str, dark: bool) -> None:
    reader.open(metrics_page, dark=dark)
    assert reader.draws(f"{_chart(reader, kind)} canvas") > 100


def test_series_are_read_with_arrow_keys(reader: Reader, metrics_page: Path) -> None:
    reader.open(metrics_page)
    chart = _chart(reader, "series")
    reader.run("document.querySelector(arguments[0]).focus()", f"{chart} .plot")
    reader.press(Keys.END)
    assert "operator 12, kube-scheduler 12" in reader.text(f"{chart} .chart-value")
    reader.press(Keys.HOME)
    assert "operator 7, kube-scheduler 7" in reader.text(f"{chart} .chart-value")


def test_a_family_is_chosen_with_the_keyboard(reader: Reader, metrics_page: Path) -> None:
    reader.open(metrics_page)
    chart = _chart(reader, "families")
    offered = reader.texts(f"{chart} option")
    family = "controller_runtime_reconcile_total"
    assert offered[:2] == ["workqueue_depth, by name", f"{family}, by controller"]
    assert offered[-1] == f"kube-scheduler: {family}, by controller"
    choice = Select(reader.find(f"{chart} select"))
    choice.select_by_visible_text(offered[1])
    reader.find(f"{chart} summary").send_keys(Keys.ENTER)
    reader.wait(lambda: reader.texts(f"{chart} .scroll tbody td"), "its table")
    assert reader.texts(f"{chart} .scroll thead th") == ["at", "clique", "set"]
    assert reader.texts(f"{chart} .scroll tbody tr:first-child td")[1:] == ["800/s", "200/s"]


def test_targets_are_sorted(reader: Reader, metrics_page: Path) -> None:
    reader.open(metrics_page)
    table = "#t0-metrics table"
    names = f"{table} tbody th"
    reader.go_to(table)
    assert reader.texts("#t0-metrics .scroll:first-of-type tbody th")[:2] == ["operator", "kube-scheduler"]
    reader.find(f"{table} th:nth-child(2) button").send_keys(Keys.ENTER)
    reader.find(f"{table} th:nth-child(2) button").send_keys(Keys.ENTER)
    assert reader.texts(names)[:2] == ["kube-scheduler", "operator"]


def test_a_failure_is_reported(reader: Reader, metrics_page: Path) -> None:
    reader.open(metrics_page)
    reported = reader.text("#t0-metrics .note")
    assert reported.startswith("kube-scheduler did not answer 17 %")
    assert reported.endswith(": no answer within 5 s")


def test_its_own_families_unfold(reader: Reader, metrics_page: Path) -> None:
    reader.open(metrics_page)
    first, second = reader.all("#t0-metrics details.account")
    assert first.get_attribute("open")
    assert not second.get_attribute("open")
    assert "my_operator_sync_seconds" in str(first.get_attribute("textContent"))


@pytest.mark.parametrize("width", [1400, 420])
def test_it_fits_the_window(reader: Reader, metrics_page: Path, width: int) -> None:
    reader.open(metrics_page, width=width)
    for kind in CHARTS:
        _chart(reader, kind)
    assert reader.run("return document.documentElement.scrollWidth") <= width
