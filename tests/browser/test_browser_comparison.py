"""The page of a comparison, in a browser: the answer, the runs behind it, one of each variant over time."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from . import pages
from .reader import Reader

CHARTS = ("objects", "cores", "rss", "requests")


def _chart(reader: Reader, run: int, name: str) -> str:
    """Scroll a chart of one variant's run into view and wait until it is drawn; return its selector."""
    chart = f"#run{run} [data-chart={name}]"
    reader.go_to(chart)
    reader.wait(lambda: reader.all(f"{chart} canvas"), f"{name} is drawn")
    return chart


def test_it_fetches_nothing(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    assert reader.run("return performance.getEntriesByType('resource').length") == 0
    assert comparison_page.stat().st_size < 3_000_000


def test_it_starts_with_its_verdict(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    assert reader.text("h1 .badge") == "regression"
    assert reader.texts(".answer li")[0].startswith("candidate is slower than baseline")
    assert "slower" in reader.texts(".metrics .badge")


def test_gated_metrics_come_first_and_each_table_has_its_axis(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    headings = reader.texts("section[id^=s] h2")
    assert headings == ["Gated metrics", "Requests and reconciles informational"]
    assert reader.texts("#s0 tbody th") == ["wall time of deploy", "CPU of the operator, deploy"]
    assert len(reader.all("section[id^=s] .axis")) == 2
    assert not [text for text in reader.texts("#s1 tbody .badge") if "slower" in text]


def test_no_link_is_dead(reader: Reader, comparison_page: Path, judged_page: Path) -> None:
    for page in (comparison_page, judged_page):
        reader.open(page)
        reader.show_all()
        links = [str(link.get_attribute("href")) for link in reader.all("a[href]")]
        targets = [unquote(link.removeprefix("file://").partition("#")[0]) for link in links]
        assert [target for target in targets if not Path(target).is_file()] == []
        fragments = {link.partition("#")[2] for link in links if "#" in link}
        assert [name for name in fragments if len(reader.all(f"[id='{name}']")) != 1] == []


def test_everything_is_reached_from_the_contents(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    assert reader.texts(".contents .test-link") == ["Answer", "A run of baseline", "A run of candidate"]
    targets = [str(link.get_attribute("href")).rpartition("#")[2] for link in reader.all(".contents a")]
    assert all(len(reader.all(f"#{target}")) == 1 for target in targets)


@pytest.mark.parametrize("run", [0, 1])
@pytest.mark.parametrize("name", CHARTS)
def test_a_run_of_each_variant_is_shown_over_time(reader: Reader, comparison_page: Path, run: int, name: str) -> None:
    reader.open(comparison_page)
    assert reader.text(f"#run{run} h1").startswith(f"A run of {pages.NAMES[run]}")
    chart = _chart(reader, run, name)
    assert reader.draws(f"{chart} canvas") > 1000
    reader.run("document.querySelector(arguments[0]).focus()", f"{chart} .plot")
    reader.press(Keys.ARROW_RIGHT)
    assert reader.text(f"{chart} .chart-value").count(" s: ") == 1


def test_phases_milestones_processes_and_traffic_of_each_variant(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    for run in ("#run0", "#run1"):
        assert reader.texts(f"{run}-timeline .strip ol:first-child li")
        assert reader.all(f"{run}-timeline .milestones li")
        assert "recorder" in reader.texts(f"{run}-processes tbody th")
        assert reader.all(f"{run}-api tbody tr")


def test_a_filter_holds_for_the_run_that_it_stands_in(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    reader.go_to("#run1-api")
    reader.find("#run1-api input.filter").send_keys("nothing is called so")

    def shown(run: str) -> list[WebElement]:
        return [row for row in reader.all(f"#{run}-api .filterable tbody tr") if row.is_displayed()]

    reader.wait(lambda: not shown("run1"), "none fits")
    assert shown("run0")


def test_each_run_has_a_link_that_leads_to_its_report(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    cells = reader.texts("#runs tbody td:nth-child(n+3)")
    assert cells[:3] == ["report", "report", "without a report"]
    assert "deploy: timeout" in cells[3]
    assert cells[5] == "not run"
    for link in reader.all("#runs a") + reader.all(".head a"):
        assert Path(str(link.get_attribute("href")).removeprefix("file://")).is_file()


def test_what_was_in_force_is_reported_and_what_differs_apart(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    assert reader.texts("#environment .differing tbody tr > *") == ["variant", "baseline", pages.HOSTILE]
    shared = dict(zip(reader.texts("#environment .shared dt"), reader.texts("#environment .shared dd"), strict=True))
    assert shared == {"kubernetes": "1.36.3", "qps": "5000"}
    assert reader.all("main img") == []


def test_a_profile_that_is_not_there_says_why_and_what_to_do(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    (note,) = reader.texts("#profiles .note")
    assert note.startswith("No profile of operator ")
    for part in ("delete", "candidate", pages.WHY):
        assert part in note
    assert note.endswith(f"→ {pages.REMEDY}")


def test_the_profiler_s_cost_is_reported_of_each_variant(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page)
    reader.go_to("#profiles .profiles")
    reader.wait(lambda: reader.text(".profile-facts"), "the profile")
    assert reader.texts(".profile-links a")[0] == "raw (baseline)"
    reported = reader.text(".profile-facts").split(" · ")
    assert reported[1:3] == [f"{name}: 4.00 s CPU without a profiler, 4.60 s with it" for name in pages.NAMES]


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(reader: Reader, comparison_page: Path, dark: bool) -> None:
    reader.open(comparison_page, dark=dark)
    chart = _chart(reader, 1, "cores")
    picture = f"return document.querySelector('{chart} canvas').toDataURL()"
    before = reader.run(picture)
    reader.find("#theme").click()
    reader.wait(lambda: reader.run(picture) != before, "the chart is drawn in the other colours")


@pytest.mark.parametrize("width", [1400, 420])
def test_it_fits_the_window(reader: Reader, comparison_page: Path, width: int) -> None:
    reader.open(comparison_page, width=width)
    _chart(reader, 1, "requests")
    assert reader.run("return document.documentElement.scrollWidth") <= width


def test_it_is_printed_with_the_charts_of_both_runs(reader: Reader, comparison_page: Path) -> None:
    reader.open(comparison_page, dark=True)
    reader.driver.execute_cdp_cmd("Page.printToPDF", {})
    assert len(reader.all(".chart:not([hidden]) canvas")) == 2 * len(CHARTS)
