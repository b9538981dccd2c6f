"""Every kind of page is readable with any means: axe-core finds nothing serious in it, in both themes, at any width."""

from __future__ import annotations

from pathlib import Path

import pytest

from .reader import Reader

AXE = Path(__file__).with_name("vendor") / "axe-core" / "axe.min.js"
WIDTHS = (420, 1024, 1440)
CONTRAST = "color-contrast"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", ["run_page", "judged_page", "metrics_page", "comparison_page", "sweep_page"])
def test_nothing_serious_is_found(
    reader: Reader, request: pytest.FixtureRequest, page: str, dark: bool, subtests: pytest.Subtests
) -> None:
    opened: Path = request.getfixturevalue(page)
    reader.open(opened, width=WIDTHS[0], dark=dark)
    reader.show_all()
    reader.run(AXE.read_text(encoding="utf-8"))
    # Colours are the same at any width, and all else in both themes.
    for width in WIDTHS[:1] if dark else WIDTHS:
        reader.resize(width)
        with subtests.test(width=width):
            assert serious(reader, colours=width == WIDTHS[0], others=not dark) == []
            assert reader.run("return document.documentElement.scrollWidth") <= width


def serious(reader: Reader, *, colours: bool, others: bool) -> list[str]:
    """Return what is serious or critical: the rule, the element, and what is wrong with it.

    ``colours``: look at the contrast of each element, which takes most of the time; ``others``: at all the rest.
    """
    rules = (
        {"rules": {CONTRAST: {"enabled": colours}}} if others else {"runOnly": {"type": "rule", "values": [CONTRAST]}}
    )
    reader.driver.set_script_timeout(110)  # it looks at every element's colours, which takes a while on a busy machine
    found = reader.run(
        "return axe.run(document, {...arguments[0], resultTypes: ['violations'], preload: false})"
        ".then(({violations}) => violations"
        ".filter(({impact}) => impact === 'serious' || impact === 'critical')"
        ".flatMap(({id, nodes}) => nodes.map(({target, failureSummary}) => `${id}: ${target}: ${failureSummary}`)))",
        rules,
    )
    return [str(one) for one in found]
