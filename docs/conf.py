"""Configuration of Sphinx: `make docs` builds the site from the Markdown in this folder and from the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from pytest_grovescale import __version__  # noqa: E402
from tools import reference  # noqa: E402

project = "pytest-grovescale"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
# Headings down to this level can be linked to.
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"{project} {release}"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True


def _link_into_repository(app: Any, name: str, source: list[str]) -> None:
    """Links to files beside this folder are to the repository, which has no known address: their text stays."""
    del app, name
    source[0] = re.sub(r"\[([^\]]*)\]\(\.\./(?!findings|budgets)[^)]*\)", r"\1", source[0])


def setup(app: Any) -> None:
    """Write the reference pages before the build reads its sources."""
    app.connect("config-inited", lambda *_: reference.main(HERE / "reference"))
    app.connect("source-read", _link_into_repository)
