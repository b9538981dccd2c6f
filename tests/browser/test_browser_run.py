"""The page of a run, in a browser: it opens from disk, tells what happened, and is read with mouse or keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from .reader import Reader

CHARTS = ("objects", "cores", "rss", "requests")


def _chart(reader: Reader, kind: str) -> str:
    """Scroll a chart into view and wait until it is drawn; return its selector."""
    chart = f"[data-chart={kind}]"
    reader.go_to(chart)
    reader.wait(lambda: reader.all(f"{chart} canvas"), f"{kind} is drawn")
    return chart


def test_it_fetches_nothing(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    assert reader.run("return performance.getEntriesByType('resource').length") == 0
    assert reader.complaints() == []


def test_nothing_in_it_could_fetch_anything(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    attempt = "return fetch('https://example.org/').then(() => 'fetched', () => 'refused')"
    assert reader.run(attempt) == "refused"
    (complaint, *_) = reader.complaints()
    assert "Content Security Policy" in complaint


def test_first_comes_how_it_ended(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    assert reader.text("h1 .badge") == "failed"
    assert "timed out" in reader.texts(".answer li")[0]
    assert "two: 0 of 2" in reader.texts(".answer li")[0]


def test_a_timeout_is_accounted_for(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    assert "not met: 0 of 2" in reader.text("#t0-phases")
    assert reader.texts("#t0-phases details[open] td")[:2] == ["two", "configmaps default/"]


def test_a_judged_run_gives_the_answer_first(reader: Reader, judged_page: Path) -> None:
    reader.open(judged_page)
    assert reader.texts("h1 .badge, .contents .dot.bad + *")[0] == "failed"
    failed = reader.text(".answer li.bad")
    assert failed.startswith("creates by operator in deploy ")
    assert failed.endswith(" 240 > 200 tests/scale/budgets.yaml:12")
    assert reader.texts(".tile dt") == [
        "Time to Ready", "Operator CPU", "Requests per pod", "No-op writes", "Peak memory"
    ]  # fmt: skip
    assert reader.texts(".tile .change")[0] == "+25.0 % against main"
    order = [
        reader.find(part).location["y"]
        for part in (".answer", ".tiles", "#t0-strip", "#t0-findings", "#t0-checks", "#t0-bottlenecks")
    ]
    assert order == sorted(order)
    assert [text.split(":")[0] for text in reader.texts("#t0-strip .milestones li")] == ["1–2", "3", "4–5"]


def test_findings_stand_in_the_answer_and_with_their_evidence_in_a_section(reader: Reader, judged_page: Path) -> None:
    reader.open(judged_page)
    assert any("left-behind" in line for line in reader.texts(".answer li.bad"))
    assert not any("metric-names" in line for line in reader.texts(".answer li"))
    assert reader.texts("#t0-findings .badge") == ["defect", "waste", "note"]
    assert "t/svc-0" in reader.text("#t0-findings details[open] li")
    off = reader.text("#t0-findings > ul > li")
    assert off.startswith("gauge ")
    assert off.endswith(": it is a limit")
    assert reader.run("return document.title") != "taken over"


def test_the_command_is_copied_or_selected(reader: Reader, judged_page: Path) -> None:
    reader.open(judged_page)
    reader.go_to("#t0-repeat")
    reader.find(".copy").click()
    reader.wait(lambda: reader.text(".copy") in ("Copied", "Selected"), "the command is at hand")


def test_a_process_has_one_colour_on_the_whole_page(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    reader.show_all()
    colours = reader.run(
        "const seen = {};"
        "for (const kind of ['cores', 'rss', 'requests'])"
        " for (const row of document.querySelectorAll(`[data-chart=${kind}] .u-series:not(:first-child)`))"
        "  (seen[row.querySelector('.u-label').textContent] ??= [])"
        "   .push(getComputedStyle(row.querySelector('.u-marker')).borderTopColor);"
        "return seen"
    )
    assert any(len(of) > 1 for of in colours.values())
    assert {name: of for name, of in colours.items() if len(set(of)) > 1} == {}


@pytest.mark.parametrize("kind", CHARTS)
def test_a_chart_is_drawn_and_shows_values_under_the_pointer(reader: Reader, run_page: Path, kind: str) -> None:
    reader.open(run_page)
    chart = _chart(reader, kind)
    assert reader.draws(f"{chart} canvas") > 100
    assert set(reader.texts(f"{chart} .u-value")) == {"–"}
    reader.point_at(reader.find(f"{chart} .u-over"))
    reader.wait(lambda: "–" not in reader.texts(f"{chart} .u-value")[:2], "values under the pointer")


def test_a_chart_is_read_with_arrow_keys(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    chart = _chart(reader, "objects")
    reader.run("document.querySelector(arguments[0]).focus()", f"{chart} .plot")
    reader.press(Keys.END)
    assert "gone 12" in reader.text(f"{chart} .chart-value")
    reader.press(Keys.HOME, Keys.ARROW_RIGHT)
    assert "gone 0" in reader.text(f"{chart} .chart-value")


def test_a_line_is_hidden_with_the_keyboard(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    label = f"{_chart(reader, 'objects')} .u-series:nth-child(2) th"
    before = reader.draws("[data-chart=objects] canvas")
    reader.run("document.querySelector(arguments[0]).focus()", label)
    reader.press(Keys.ENTER)
    reader.wait(lambda: reader.find(label).get_attribute("aria-pressed") == "false", "the line is off")
    reader.wait(lambda: reader.draws("[data-chart=objects] canvas") < before, "fewer pixels")


def test_a_chart_has_a_table(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    chart = _chart(reader, "objects")
    reader.find(f"{chart} summary").click()
    reader.wait(lambda: reader.texts(f"{chart} .scroll thead th"), "its table")
    assert reader.texts(f"{chart} .scroll thead th") == ["at", "existing", "gone"]
    assert reader.texts(f"{chart} .scroll tbody tr:last-child td")[1:] == ["0", "12"]


def test_traffic_is_sorted_and_filtered(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    table = "#t0-api .filterable"
    counts = f"{table} tbody tr:not([hidden]) td:nth-child(6)"
    reader.go_to(table)
    reader.find(f"{table} th:nth-child(6) button").click()
    assert reader.find(f"{table} th:nth-child(6)").get_attribute("aria-sort") == "descending"
    assert [int(text) for text in reader.texts(counts)] == sorted(map(int, reader.texts(counts)), reverse=True)
    reader.find(f"{table} th:nth-child(6) button").send_keys(Keys.ENTER)
    assert [int(text) for text in reader.texts(counts)] == sorted(map(int, reader.texts(counts)))
    reader.find("#t0-api input").send_keys("delete configmaps")
    assert reader.texts(counts) == ["12"]
    assert reader.text("#t0-api .filter-count") == f"1 of {len(reader.all(f'{table} tbody tr'))} rows"


def test_light_and_dark(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    _chart(reader, "objects")
    shade = "return getComputedStyle(document.body).backgroundColor"
    picture = "return document.querySelector('[data-chart=objects] canvas').toDataURL()"
    light, light_picture = reader.run(shade), reader.run(picture)
    reader.find("#theme").click()
    assert reader.run(shade) != light
    reader.wait(lambda: reader.run(picture) != light_picture, "the chart is drawn in the other colours")
    reader.driver.refresh()
    assert reader.run(shade) != light
    assert reader.find("#theme").get_attribute("aria-label") == "Use light colours"


def test_it_is_dark_where_the_system_is(reader: Reader, run_page: Path) -> None:
    reader.open(run_page, dark=True)
    assert reader.run("return document.documentElement.dataset.theme") == "dark"


def test_it_is_printed_in_light_colours_with_all_its_charts(reader: Reader, run_page: Path) -> None:
    reader.open(run_page, dark=True)
    printed = "addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme })"
    reader.run(printed)
    reader.driver.execute_cdp_cmd("Page.printToPDF", {})
    assert reader.run("return window.printed") == "light"
    assert len(reader.all(".chart canvas")) == len(CHARTS)
    assert reader.all("g.frame")
    reader.wait(lambda: reader.run("return document.documentElement.dataset.theme") == "dark", "dark again")


def test_the_keyboard_starts_at_the_answer(reader: Reader, run_page: Path) -> None:
    reader.open(run_page)
    reader.press(Keys.TAB)
    assert reader.run("return document.activeElement.textContent") == "Skip to the answer"
    reader.press(Keys.ENTER)
    reader.wait(lambda: reader.run("return document.activeElement.id") == "main", "the answer has the focus")


@pytest.mark.parametrize("width", [1400, 420])
def test_it_fits_the_window(reader: Reader, run_page: Path, width: int) -> None:
    reader.open(run_page, width=width)
    _chart(reader, "requests")
    reader.go_to(".profiles")
    reader.wait(lambda: reader.all("g.frame"), "the flame graph")
    assert reader.run("return document.documentElement.scrollWidth") <= width
