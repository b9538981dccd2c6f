"""What a page holds beside its text: scripts, styles, and data embedded in it.

``vendor/`` holds published builds of third-party libraries, unchanged; ``VENDORED.md`` there lists them.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
"""Characters that occur only inside strings in JSON, where their escapes mean the same."""


def json_block(data: Any) -> str:
    """Return data as JSON for a ``<script type="application/json">`` element.

    A string that holds ``</script>`` or ``<!--`` ends or opens nothing: neither sign is left (HTML standard, 4.12.1.3).
    """
    text = msgspec.json.encode(data).decode()
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    return text


def csp_hash(script: str) -> str:
    """Return the source expression by which a Content-Security-Policy allows this one inline script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


HERE = Path(__file__).parent
VENDOR = HERE / "vendor"
STATIC = HERE / "static"

D3 = (
    "d3-array",
    "d3-color",
    "d3-dispatch",
    "d3-ease",
    "d3-format",
    "d3-hierarchy",
    "d3-interpolate",
    "d3-selection",
    "d3-time",
    "d3-time-format",
    "d3-timer",
    "d3-scale",
    "d3-transition",
)
"""In dependency order: the modules that d3-flame-graph needs, and their dependencies."""

CHARTS = (VENDOR / "uplot" / "uPlot.iife.min.js",)
FLAMES = (
    *(VENDOR / name / f"{name}.min.js" for name in D3),
    VENDOR / "d3-flame-graph" / "d3-flamegraph.umd.min.js",
)
OWN = tuple(
    STATIC / f"{name}.js"
    for name in ("elements", "words", "theme", "tables", "charts", "scaling", "flames", "functions", "page")
)
"""This project's own script, in parts that share one scope."""

STYLES = (VENDOR / "uplot" / "uPlot.min.css", STATIC / "report.css", STATIC / "scaling.css")


@cache
def scripts(*, charts: bool, flames: bool) -> tuple[str, ...]:
    """Return the scripts of a page in the order in which they run; only those libraries that it uses."""
    libraries = (*(CHARTS if charts else ()), *(FLAMES if flames else ()))
    own = "\n".join(_script(path) for path in OWN)
    return (*(_script(path) for path in libraries), f'"use strict";\n{{\n{own}}}')


@cache
def styles() -> str:
    """Return all styles of a page."""
    return "\n".join(path.read_text(encoding="utf-8") for path in STYLES)


def _script(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    # The browser ends an inline script here, wherever it occurs; no file contains it, which a test checks.
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError(f"{path} cannot stand inside a page")
    return text
