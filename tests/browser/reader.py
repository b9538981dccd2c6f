"""What a person does with a page: opens it, points, clicks, types, and looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.waiting import wait_until


class Reader:
    """Drives a browser. Elements are named by CSS selectors."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self._seen: list[str] = []

    def resize(self, width: int) -> None:
        """Make the window so wide, px."""
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def show_all(self) -> None:
        """Unfold what is folded, and have drawn what is drawn only when it is about to be seen or printed."""
        self.run(
            "document.querySelectorAll('details').forEach((details) => { details.open = true });"
            "dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))"
        )

    def open(self, page: Path, *, width: int = 1400, dark: bool = False) -> None:
        """Open a page from disk, in a window of that width, with nothing remembered from before."""
        self.resize(width)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})
        self.leave()
        self.driver.get(page.as_uri())

    def leave(self) -> None:
        """Turn to an empty page, and forget what the last one remembers; what it wrote to the console is kept."""
        self._collect()
        if self.driver.current_url.startswith("file:"):
            self.driver.execute_script("localStorage.clear()")
            self.driver.get("about:blank")

    def complaints(self) -> list[str]:
        """Return, once, all that was written to the console."""
        self._collect()
        seen, self._seen = self._seen, []
        return seen

    def _collect(self) -> None:
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        self._seen += [str(entry["message"]) for entry in entries]

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Return an element's text, shown or not."""
        return str(self.find(selector).get_attribute("textContent")).strip()

    def texts(self, selector: str) -> list[str]:
        return [str(element.get_attribute("textContent")).strip() for element in self.all(selector)]

    def go_to(self, selector: str) -> WebElement:
        """Scroll an element into view."""
        element = self.find(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        return element

    def wait(self, holds: Callable[[], object], what: str) -> None:
        wait_until(lambda: bool(holds()), what)

    def point_at(self, element: WebElement) -> None:
        ActionChains(self.driver).move_to_element(element).perform()

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def draws(self, selector: str) -> int:
        """Return how many pixels of a canvas are not empty."""
        return int(
            self.run(
                "const {width, height} = document.querySelector(arguments[0]);"
                "const copy = new OffscreenCanvas(width, height).getContext('2d', {willReadFrequently: true});"
                "copy.drawImage(document.querySelector(arguments[0]), 0, 0);"
                "const {data} = copy.getImageData(0, 0, width, height);"
                "let drawn = 0; for (let at = 3; at < data.length; at += 4) drawn += data[at] > 0; return drawn",
                selector,
            )
        )
