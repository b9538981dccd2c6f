"""The document model: any text in any block stands in its place in a terminal, in Markdown and on a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_grovescale.report.document import (
    Answer,
    Block,
    Column,
    File,
    Gap,
    Heading,
    Item,
    Line,
    Table,
    Verbatim,
    cell,
    html,
    markdown,
    text,
)
from pytest_grovescale.report.format import NONE, plain, seconds

WORD = st.text("ab c|`*_<>#[]()-+=.!\\~\n\t1", max_size=12).map(lambda word: f"{word} x")
TONE = st.sampled_from(("", "strong", "good", "bad", "doubt", "quiet"))
TABLE = st.integers(1, 4).flatmap(
    lambda width: st.builds(
        Table,
        st.lists(st.builds(Column, WORD, st.booleans(), st.booleans(), st.just(False)), min_size=width, max_size=width),
        st.lists(st.lists(WORD, min_size=width, max_size=width), min_size=1, max_size=3),
        st.just(()),
    )
)
BLOCK: st.SearchStrategy[Block] = st.one_of(
    st.builds(Answer, WORD, TONE),
    st.builds(Heading, WORD, st.one_of(st.just(""), WORD)),
    st.builds(Line, WORD, TONE),
    st.builds(Gap),
    st.builds(Item, WORD, TONE, st.just(0), st.just("")),
    st.builds(File, st.just("raw"), WORD),
    TABLE,
)
READER = MarkdownIt("commonmark").enable("table")


@given(st.lists(BLOCK, min_size=1, max_size=8))
def test_markdown_has_every_block_and_no_other(blocks: list[Block]) -> None:
    """Whatever a name holds, it makes no table, heading, list or emphasis of its own."""
    tokens = READER.parse(markdown(blocks))
    opened = [token.type for token in tokens]
    assert opened.count("heading_open") == sum(isinstance(block, Heading) for block in blocks)
    assert opened.count("table_open") == sum(isinstance(block, Table) for block in blocks)
    assert opened.count("list_item_open") == sum(isinstance(block, Item | File) for block in blocks)
    rows = [len(block.rows) + 1 for block in blocks if isinstance(block, Table)]
    assert opened.count("tr_open") == sum(rows)
    inline = [child.type for token in tokens for child in token.children or ()]
    assert inline.count("strong_open") == sum(isinstance(block, Answer) for block in blocks)
    assert not {"em_open", "link_open", "html_inline", "image"} & set(inline)
    assert inline.count("code_inline") == 0, "none of the words is the name of something"


@given(st.lists(BLOCK, max_size=8), st.integers(40, 120))
def test_no_line_of_a_terminal_is_wider(blocks: list[Block], width: int) -> None:
    """But for the path of a file, which can be copied from it."""
    shown = text([block for block in blocks if not isinstance(block, File)], width=width)
    assert all(len(line) <= width for line in shown.splitlines())
    assert "\x1b" not in shown


def test_a_row_that_does_not_fit_names_only_the_cells_with_a_figure() -> None:
    columns = [Column("identity"), *(Column(verb, figures=True) for verb in ("get", "list", "create", "p99"))]
    table = Table(columns, [["operator", NONE, "", "2,504", "688 ms"]])
    assert text([table], width=24) == "operator\n  create 2,504, p99 688\n  ms\n"
    assert text([table], width=60).splitlines()[1].split() == ["operator", NONE, "2,504", "688", "ms"]


def test_nothing_is_nothing() -> None:
    assert text([]) == markdown([]) == markdown([Gap()]) == ""


def test_rows_that_decide_have_a_bold_verdict_where_there_are_no_colours() -> None:
    columns = [Column("phase"), Column("verdict", verdict=True), Column("name", code=True)]
    rows = [["deploy", "fail", "a_b"], ["delete", "pass", "c"]]
    lines = markdown([Table(columns, rows, ["bad", ""])]).splitlines()
    assert lines[2:] == ["| deploy | **fail** | `a_b` |", "| delete | pass | `c` |"]


def test_a_log_stands_as_it_is() -> None:
    assert markdown([Verbatim("a *b* | c")]) == "    a *b* | c\n"


class Page(HTMLParser):
    """What a browser finds in a part of a page: its elements, and the text in each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.opened.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "each element ends where it began"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.lists(BLOCK, max_size=8))
def test_a_page_has_every_block_and_no_other(blocks: list[Block]) -> None:
    page = Page(html(blocks, level=4))
    assert not page.open
    tables = [block for block in blocks if isinstance(block, Table)]
    assert page.opened.count("h4") == sum(isinstance(block, Heading) for block in blocks)
    assert page.opened.count("table") == len(tables)
    assert page.opened.count("li") == sum(isinstance(block, Item | File) for block in blocks)
    assert page.opened.count("p") == sum(isinstance(block, Answer | Line) for block in blocks)
    assert page.opened.count("tr") == sum(len(table.rows) + 1 for table in tables)
    assert set(page.opened) <= {"h4", "span", "div", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "p"}
    for block in blocks:
        if isinstance(block, Line | Answer):
            assert plain(block.text) in page.texts


def test_a_page_sorts_figures_by_their_values_and_those_not_measured_first() -> None:
    rows = [["a", cell(61.0, seconds)], ["b", cell(0.2, seconds)], ["c", cell(None, seconds)]]
    page = html([Heading("Times"), Table([Column("what"), Column("took", figures=True)], rows)])
    assert re.findall(r'data-value="([^"]*)">([^<]*)<', page) == [("61.0", "61.0 s"), ("0.2", "200 ms"), ("", "–")]
    assert 'aria-label="Times: took"' in page
