"""Whole sentences of the program are kept in golden files, not in assertions, so that wording can change."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
WORDS = 6
"""A text of fewer words is a keyword that behaviour can be told by."""
_ONE_WORD = re.compile(r"[A-Za-z']{2,}")


def pinned(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each sentence that an assertion compares with."""
    for node in ast.walk(tree):
        places: list[ast.expr] = []
        if not isinstance(node, ast.Assert | ast.Call):
            continue
        if isinstance(node, ast.Assert):
            for part in ast.walk(node.test):
                if isinstance(part, ast.Compare):
                    places += [part.left, *part.comparators]
        else:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("raises", "warns"):
                places += [keyword.value for keyword in node.keywords if keyword.arg == "match"]
            elif "fnmatch_line" in name or "re_match_lines" in name:
                places += node.args
        for text in {text for place in places for text in _texts(place)}:
            if len(_ONE_WORD.findall(text)) >= WORDS:
                yield node.lineno, text


def _texts(place: ast.expr) -> Iterator[str]:
    """Yield the texts of an operand: constants, lists of them, f-strings; not what a call is given."""
    match place:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield " ".join(str(part.value) for part in values if isinstance(part, ast.Constant))
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _texts(part)
        case ast.Dict(values=parts):
            for part in parts:
                yield from _texts(part)
        case ast.BinOp(left=left, right=right):
            yield from _texts(left)
            yield from _texts(right)


def test_no_assertion_pins_a_sentence() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}: {text!r}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, text in pinned(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)
