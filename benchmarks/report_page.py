"""Size of the page of a run with 30,000 pods, and the time to render it and to open it in headless Chromium."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from pytest_grovescale.analysis.analyse import analyse_run_over_time
from pytest_grovescale.recording.journal import Writer
from pytest_grovescale.report.html import files
from tests.unit.analysis.simulated import full_run

from .rows import Row, at_most

REPEATS = 7
LIMIT_S = 1.0
LIMIT_BYTES = 1_000_000

_LOADED_S = "const [page] = performance.getEntriesByType('navigation'); return page.loadEventEnd / 1000"


def measure(*, quick: bool) -> list[Row]:
    """Return the page's size, its rendering time from the analysis, and its load time in a browser."""
    pods = 1_000 if quick else 30_000
    with tempfile.TemporaryDirectory() as folder:
        page, rendered = _rendered(Path(folder), pods)
        size = page.stat().st_size
        opened = _opened(page)
    how = f"{pods} pods, median of {REPEATS}"
    return [
        at_most("page_bytes", size, "bytes", LIMIT_BYTES, how=f"{pods} pods"),
        at_most("page_render_s", statistics.median(rendered), "s", LIMIT_S, spread=rendered, how=how),
        at_most(
            "page_open_s",
            statistics.median(opened),
            "s",
            LIMIT_S,
            spread=opened,
            how=f"{how}: from the navigation to the end of the load event, headless Chromium",
        ),
    ]


def _rendered(folder: Path, pods: int) -> tuple[Path, list[float]]:
    (folder / "recordings").mkdir()
    writer = Writer(folder / "recordings" / "large.jsonl")
    for record in full_run(pods).records():
        writer.append(record)
    writer.close()
    result, timelines, _ = analyse_run_over_time(folder)
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        page = files.write_run(folder, result, timelines)
        took.append(time.perf_counter() - began)
    return page, took


def _opened(page: Path) -> list[float]:
    options = ChromeOptions()
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise SystemExit("no chromium and chromedriver on the PATH: make browser")
    options.binary_location = chromium
    with Chrome(options=options, service=Service(driver)) as browser:
        browser.get(page.as_uri())
        return [_load_s(browser, page) for _ in range(REPEATS)]


def _load_s(browser: Chrome, page: Path) -> float:
    browser.get(page.as_uri())
    return float(browser.execute_script(_LOADED_S))
