"""The page of a sweep, in a browser. Its figures are generated (see `tests.unit.report.grown`), not measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from pytest_grovescale.analysis.scaling import SizedRun, sweep
from pytest_grovescale.report.html import files
from tests.unit.report.grown import grown

from . import pages
from .reader import Reader

CHARTS = ("cpu", "wall", "api", "reconciles", "rss", "series")


def _chart(reader: Reader, name: str) -> str:
    """Scroll a chart into view and wait until it is drawn; return its selector."""
    chart = f"[data-scaling={name}]"
    reader.go_to(chart)
    reader.wait(lambda: reader.all(f"{chart} canvas"), f"{name} is drawn")
    return chart


def _focus(reader: Reader, selector: str) -> None:
    reader.run("document.querySelector(arguments[0]).focus()", selector)


def test_it_fetches_nothing(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    assert reader.run("return performance.getEntriesByType('resource').length") == 0
    assert reader.complaints() == []


def test_first_comes_what_left_its_bound(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    assert reader.text("h1 .badge") == "fail"
    first = reader.texts(".answer li")[0]
    assert first.startswith("requests by the operator, delete ")
    assert "to the power of 1.9" in first


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_drawn_and_shows_values_under_the_pointer(reader: Reader, sweep_page: Path, name: str) -> None:
    reader.open(sweep_page)
    chart = _chart(reader, name)
    assert reader.draws(f"{chart} canvas") > 1000
    assert set(reader.texts(f"{chart} .u-value")) == {"–"}
    reader.point_at(reader.find(f"{chart} .u-over"))
    reader.wait(lambda: "–" not in reader.texts(f"{chart} .u-value")[:2], "values under the pointer")


def test_a_chart_names_its_exponents_the_steepest_first(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    names = reader.texts(f"{_chart(reader, 'cpu')} .u-legend th")
    assert [name.rpartition(", ")[0] for name in names[1:]] == ["delete", "deploy", "per no-op trigger", "steady-state"]
    exponents = [float(name.rpartition(", ")[2]) for name in names[1:]]
    assert exponents == sorted(exponents, reverse=True)


def test_a_chart_is_read_with_arrow_keys(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    chart = _chart(reader, "cpu")
    _focus(reader, f"{chart} .plot")
    reader.press(Keys.END)
    assert re.fullmatch(
        r"replicas 1,000: delete, 1\.9\d: 7\.\d\d s, fit 7\.\d\d s", reader.text(f"{chart} .chart-value")
    )
    reader.press(Keys.ARROW_LEFT, Keys.ARROW_DOWN)
    assert reader.text(f"{chart} .chart-value").startswith("replicas 500: deploy, 1.04: ")
    reader.press(Keys.HOME)
    assert reader.text(f"{chart} .chart-value").startswith("replicas 62: deploy, 1.04: ")


def test_what_was_not_measured_is_said(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    chart = _chart(reader, "api")
    _focus(reader, f"{chart} .plot")
    reader.press(Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    said = reader.text(f"{chart} .chart-value")
    assert said.startswith("replicas 62: requests ")
    assert "no-op trigger" in said
    assert said.endswith(": not measured")
    reader.press(Keys.END)
    assert reader.text(f"{chart} .chart-value").endswith("no exponent: 1.00")


def test_a_line_is_hidden_with_the_keyboard(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    chart = _chart(reader, "rss")
    before = reader.draws(f"{chart} canvas")
    label = f"{chart} .u-series:nth-child(2) th"
    _focus(reader, label)
    reader.press(Keys.ENTER)
    reader.wait(lambda: reader.find(label).get_attribute("aria-pressed") == "false", "the line is off")
    reader.wait(lambda: reader.draws(f"{chart} canvas") != before, "it is drawn without it")


def test_all_lines_may_be_hidden(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    chart = _chart(reader, "series")
    reader.find(f"{chart} .u-series:nth-child(2) th").click()
    reader.find(f"{chart} .u-series:nth-child(2) th").click()
    reader.wait(lambda: reader.draws(f"{chart} canvas") > 1000, "it is drawn again")


def test_a_chart_has_a_table(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    chart = _chart(reader, "reconciles")
    reader.find(f"{chart} summary").click()
    assert reader.texts(f"{chart} .as-table thead th") == ["replicas", "62", "125", "250", "500", "1000"]
    row = f"{chart} .as-table tbody tr:nth-child(2)"
    assert reader.text(f"{row} th") == "per no-op trigger"
    fit = grown().fit("noop_reconciles")
    assert fit is not None
    assert fit.factor is not None
    assert fit.exponent is not None
    fitted = f"fit {fit.factor * 62**fit.exponent:.1f}"
    assert reader.find(f"{row} td:nth-child(2)").text.splitlines() == ["63", "63", "63", fitted]


def test_exponents_are_sorted(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    heading = "#exponents th:nth-child(5)"
    reader.go_to("#exponents")
    reader.find(f"{heading} button").click()
    assert reader.find(heading).get_attribute("aria-sort") == "descending"
    shown = [float(text.split()[0]) for text in reader.texts("#exponents td:nth-child(5)")]
    assert shown == sorted(shown, reverse=True)
    reader.find(f"{heading} button").send_keys(Keys.ENTER)
    assert [float(text.split()[0]) for text in reader.texts("#exponents td:nth-child(5)")] == sorted(shown)


def test_light_and_dark(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page)
    _chart(reader, "cpu")
    picture = "return document.querySelector('[data-scaling=cpu] canvas').toDataURL()"
    light = reader.run(picture)
    reader.find("#theme").click()
    reader.wait(lambda: reader.run(picture) != light, "the chart is drawn in the other colours")


def test_it_is_printed_with_all_its_charts(reader: Reader, sweep_page: Path) -> None:
    reader.open(sweep_page, dark=True)
    reader.driver.execute_cdp_cmd("Page.printToPDF", {})
    assert len(reader.all(".scaling canvas")) == len(CHARTS)


@pytest.mark.parametrize("width", [1400, 420])
def test_it_fits_the_window(reader: Reader, sweep_page: Path, width: int) -> None:
    reader.open(sweep_page, width=width)
    _chart(reader, "series")
    assert reader.run("return document.documentElement.scrollWidth") <= width


def test_two_sizes_are_points_without_a_line(reader: Reader, tmp_path: Path) -> None:
    runs = [SizedRun(size=size, metrics={"cpu:deploy": size / 100}) for size in (62, 125)]
    reader.open(files.write_sweep(tmp_path, sweep("replicas", runs)))
    chart = _chart(reader, "cpu")
    assert reader.draws(f"{chart} canvas") > 1000
    _focus(reader, f"{chart} .plot")
    reader.press(Keys.END)
    assert reader.text(f"{chart} .chart-value") == "replicas 125: deploy, no exponent: 1.25 s"


def test_one_size_has_a_chart(reader: Reader, tmp_path: Path) -> None:
    reader.open(files.write_sweep(tmp_path, sweep("replicas", [SizedRun(size=62, metrics={"rss:deploy": 5e7})])))
    assert reader.draws(f"{_chart(reader, 'rss')} canvas") > 1000


def test_a_name_that_tries_to_break_out(reader: Reader, tmp_path: Path) -> None:
    runs = [SizedRun(size=size, metrics={f"cpu:{pages.HOSTILE}": size / 100}) for size in (62, 125, 250)]
    reader.open(files.write_sweep(tmp_path, sweep(pages.HOSTILE, runs)))
    names = reader.texts(f"{_chart(reader, 'cpu')} .u-legend th")
    assert names[0] == pages.HOSTILE
    assert reader.run("return document.title") == f"Growth with {pages.HOSTILE}"
    assert reader.all("main img") == []
