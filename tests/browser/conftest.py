"""One headless Chromium for all tests of a worker, and the pages that they look at."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from pytest_grovescale.report.html import files
from tests.unit.report.grown import grown, judged

from . import pages
from .reader import Reader


@pytest.fixture(scope="session")
def driver() -> Iterator[Chrome]:
    """Chromium, as Debian's packages chromium and chromium-driver install it; nothing is ever downloaded."""
    found = shutil.which("chromedriver")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None or chromium is None:
        missing = "no chromedriver and chromium on the PATH; Debian: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    # Chromium leaves folders behind; a short path, since it makes sockets in them.
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        service = Service(found, env={**os.environ, "TMPDIR": folder})
        driver = Chrome(options=_options(chromium), service=service)
        yield driver
        driver.quit()


def _options(chromium: str) -> ChromeOptions:
    options = ChromeOptions()
    options.binary_location = chromium
    # No sandbox: root, which CI mostly is, cannot have one. No host: a page that fetches anything must fail at it.
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return options


@pytest.fixture
def reader(driver: Chrome) -> Iterator[Reader]:
    """Somebody who looks at a page; afterwards the console must be empty."""
    reader = Reader(driver)
    yield reader
    reader.leave()
    assert reader.complaints() == []


@pytest.fixture(scope="session")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run whose second phase timed out."""
    return pages.run_page(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def judged_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run on a busy machine with checks of every verdict, beside a baseline."""
    return pages.judged_page(tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="session")
def sweep_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sweep in which deletion grows with the square of the size."""
    found = grown()
    return files.write_sweep(tmp_path_factory.mktemp("sweep"), found, judged(found))


@pytest.fixture(scope="session")
def metrics_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with two metrics endpoints, of which one failed."""
    return pages.metrics_page(tmp_path_factory.mktemp("metrics"))


@pytest.fixture(scope="session")
def comparison_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a comparison in which B is slower."""
    return pages.comparison_page(tmp_path_factory.mktemp("comparison"))
