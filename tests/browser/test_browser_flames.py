"""Flame graphs in a browser: zoom, search, keyboard, difference colours, and names that try to break out."""

from __future__ import annotations

import re
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from . import pages
from .reader import Reader


def _shown(reader: Reader, page: Path, process: str = "operator") -> None:
    """Open a page at the flame graph of a process."""
    reader.open(page)
    reader.go_to(".profiles")
    reader.wait(lambda: reader.all("g.frame"), "the flame graph")
    choice = reader.find(".profile-choice")
    choice.send_keys(f"all · {process}")
    reader.wait(lambda: reader.all("g.frame"), "the flame graph")


def _width(reader: Reader, name: str) -> float:
    """Return the width of the widest frame of that name as it will be at rest; 0 when it is not there."""
    find = "return Math.max(0, ...[...document.querySelectorAll('g.frame')]"
    find += ".filter((frame) => frame.getAttribute('name') === arguments[0])"
    find += ".map((frame) => frame.querySelector('rect').getBoundingClientRect().width))"
    return float(reader.run(find, name))


def _frame(reader: Reader, name: str) -> str:
    return f'g.frame[name="{name}"]'


def _fills(reader: Reader) -> set[str]:
    fills = "return [...document.querySelectorAll('g.frame rect')].map((rect) => getComputedStyle(rect).fill)"
    return set(reader.run(fills))


def test_a_click_zooms_in(reader: Reader, run_page: Path) -> None:
    _shown(reader, run_page)
    whole = _width(reader, "(all)")
    before = _width(reader, "tick (t.py)")
    assert 0 < before < whole
    reader.go_to(_frame(reader, "tick (t.py)"))
    reader.find(f"{_frame(reader, 'tick (t.py)')} rect").click()
    reader.wait(lambda: _width(reader, "tick (t.py)") == whole, "the frame is as wide as the graph")
    reader.find(".flame-reset").click()
    reader.wait(lambda: _width(reader, "tick (t.py)") == before, "all is shown again")


def test_a_search_is_counted_and_shown(reader: Reader, run_page: Path) -> None:
    _shown(reader, run_page)
    plain = _fills(reader)
    reader.find(".flame-search").send_keys("BURN (t.py)")
    reader.wait(lambda: _fills(reader) - plain, "found frames have a colour of their own")
    found = re.fullmatch(r"(\d+) frames, (\S+) %", reader.text(".flame-found"))
    assert found is not None
    assert int(found[1]) == len(reader.all(_frame(reader, "burn (t.py)")))
    assert 50 < float(found[2]) <= 100
    reader.find(".flame-reset").click()
    reader.wait(lambda: _fills(reader) == plain, "nothing is found any more")
    assert reader.text(".flame-found") == ""


def test_a_search_for_what_is_no_pattern(reader: Reader, run_page: Path) -> None:
    _shown(reader, run_page)
    reader.find(".flame-search").send_keys("(((")
    reader.wait(lambda: reader.text(".flame-found") == "0 frames, 0 %", "nothing is found")


def test_it_is_read_with_the_keyboard(reader: Reader, run_page: Path) -> None:
    _shown(reader, run_page)
    whole = _width(reader, "(all)")
    reader.run("document.querySelector('g.frame[tabindex=\"0\"]').focus()")
    assert reader.text(".flame-detail").startswith("(all): ")
    reader.press(Keys.ARROW_DOWN)
    first = reader.text(".flame-detail")
    reader.press(Keys.ARROW_RIGHT)
    second = reader.text(".flame-detail")
    assert len({"(all)", first, second}) == 3
    name = str(reader.run("return document.activeElement.getAttribute('name')"))
    assert second.startswith(name)
    before = _width(reader, name)
    reader.press(Keys.ENTER)
    reader.wait(lambda: _width(reader, name) == whole, "the frame is as wide as the graph")
    assert reader.run("return document.activeElement.getAttribute('name')") == name
    reader.press(Keys.ESCAPE)
    reader.wait(lambda: _width(reader, name) == before, "all is shown again")
    assert len(reader.all('g.frame[tabindex="0"]')) == 1


def test_a_function_is_found_from_its_table(reader: Reader, run_page: Path) -> None:
    _shown(reader, run_page)
    reader.find(".function-filter").send_keys("base_events")
    assert all("base_events" in text for text in reader.texts(".functions tbody td:nth-child(2)"))
    button = reader.find(".functions tbody button")
    button.send_keys(Keys.ENTER)
    assert reader.find(".flame-search").get_attribute("value") == button.text
    reader.wait(lambda: reader.text(".flame-found").startswith("1 frame,"), "it is found")


def test_frames_of_libraries_are_folded_until_they_are_asked_for(reader: Reader, run_page: Path) -> None:
    _shown(reader, run_page)
    assert not reader.all(_frame(reader, "Handle._run (asyncio/events.py)"))
    assert all("asyncio" not in text for text in reader.texts(".functions tbody td"))
    assert "of libraries folded" in reader.text(".function-count")
    whole = _width(reader, "tick (t.py)")
    reader.find(".flame-search").send_keys("Handle._run")
    reader.wait(lambda: reader.text(".flame-found").startswith("1 frame,"), "it is found where it is folded")
    reader.find(".flame-reset").click()
    reader.find(".fold-framework").click()
    reader.wait(lambda: reader.all(_frame(reader, "Handle._run (asyncio/events.py)")), "they are unfolded")
    assert _width(reader, "tick (t.py)") == whole, "folding moves nothing from one function to another"
    assert any("asyncio" in text for text in reader.texts(".functions tbody td"))


def test_what_is_hot_by_itself_comes_first(reader: Reader, run_page: Path) -> None:
    _shown(reader, run_page)
    shares = [float(text.removesuffix(" %")) for text in reader.texts(".functions tbody td:first-child")]
    assert shares == sorted(shares, reverse=True)
    assert reader.texts(".functions thead th")[:2] == ["self", "function"]


def test_each_profile_has_its_graph_and_files(reader: Reader, run_page: Path) -> None:
    _shown(reader, run_page, "kwok")
    reader.wait(lambda: reader.all('g.frame[name="main.main"]'), "the Go program's stacks")
    links = [link.get_attribute("href") for link in reader.all(".profile-links a")]
    assert [str(href).rsplit("/", 2)[1:] for href in links] == [
        ["profiles", name] for name in ("kwok.pb.gz", "kwok.pb.gz.folded", "kwok.pb.gz.speedscope.json")
    ]
    assert all((run_page.parent / "profiles" / str(href).rsplit("/", 1)[1]).exists() for href in links)


def test_a_difference_has_both_colours(reader: Reader, comparison_page: Path) -> None:
    _shown(reader, comparison_page)
    heavier, lighter = (_colour(reader, name) for name in ("worker (t.py)", "tick (t.py)"))
    assert heavier[0] > heavier[2]  # red over blue
    assert lighter[2] > lighter[0]
    reader.point_at(reader.go_to(_frame(reader, "tick (t.py)")))
    assert re.search(r"before .+, after .+ \(−\d+\S* %\)", reader.text(".flame-detail"))


def _colour(reader: Reader, name: str) -> list[float]:
    """Return red, green and blue of a frame."""
    script = (
        "const canvas = document.createElement('canvas').getContext('2d');"
        "canvas.fillStyle = getComputedStyle(document.querySelector(arguments[0])).fill;"
        "canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]"
    )
    return list(reader.run(script, f"{_frame(reader, name)} rect"))


def test_widths_are_those_before_or_after(reader: Reader, comparison_page: Path) -> None:
    _shown(reader, comparison_page)
    after = _width(reader, "tick (t.py)")
    reader.find(".flame-width select").send_keys("before")
    reader.wait(lambda: _width(reader, "tick (t.py)") > after, "it had a larger share before")


def test_a_name_that_tries_to_break_out(reader: Reader, tmp_path: Path) -> None:
    page = pages.run_page(tmp_path, extra=f"{pages.HOSTILE} (<module>.py:1);prüfe\u2028數據 (日本.py:2) 40\n")
    _shown(reader, page)
    assert reader.run("return document.title") == "Scale test r"
    shown = reader.texts("g.frame .d3-flame-graph-label")
    assert any(text.startswith("</script><script>") for text in shown)
    assert any(text.startswith("prüfe") and "數據" in text for text in shown)
    assert reader.all("main img") == []
