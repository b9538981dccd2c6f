"""What the documentation says can be typed, loaded and followed: commands, Python, definitions, links.

Nothing is run, and no network is needed. A block that cannot be checked has a comment before it that says why:
``<!-- not checked: it belongs to GitLab -->``.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

import pytest_grovescale
from pytest_grovescale.cli import parser
from pytest_grovescale.cli.check import _kind
from pytest_grovescale.errors import DefinitionError
from pytest_grovescale.options import OPTIONS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("README.md"))
MARK = re.compile(r"<!-- not checked: (?P<reason>\S.*?) -->\s*")
OF_OTHERS = {"cd", "cp", "mkdir", "pip", "kubectl", "curl", "python3", "export", "eval", "tar", "git", "."}
"""Programs whose arguments are theirs to check."""


class Block(NamedTuple):
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Where it begins: ``docs/ci.md:12``."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@functools.cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(language: str) -> Iterator[Block]:
    """Yield the blocks of a language that bear no mark."""
    for page in PAGES:
        before: Token | None = None
        for token in tokens(page):
            if token.type == "fence" and token.info.split(" ")[0] == language and token.map is not None:
                marked = before is not None and before.type == "html_block" and MARK.fullmatch(before.content)
                if not marked:
                    yield Block(page, token.map[0] + 2, language, token.content)
            before = token


def inline(page: Path) -> Iterator[tuple[int, Token]]:
    """Yield a page's inline tokens, each with the line of its block."""
    for token in tokens(page):
        for child in token.children or ():
            yield (token.map[0] + 1 if token.map else 0), child


def cases(language: str) -> list[Any]:
    return [pytest.param(block, id=block.place) for block in blocks(language)]


# ---- commands


def commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the commands of a console block in words, with their lines in it: what follows ``$``, without comments."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("$ "):
            continue
        line = line[2:]
        for more in lines[number + 1 :]:
            if not line.endswith("\\"):
                break
            line = line[:-1] + more
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), "&&"]:
            if word in ("&&", "|"):
                yield number, words
                words = []
            elif word == ">":
                # A file, and the end of the command.
                yield number, words
                words = []
                break
            elif word != "…":
                words.append(word)


@pytest.mark.parametrize("block", cases("console"))
def test_commands_are_understood(block: Block, pytester: pytest.Pytester) -> None:
    for run in ("latest", "before", "after"):
        (pytester.path / "reports" / run).mkdir(parents=True)
    for number, words in commands(block.text):
        if words:
            try:
                understood(words, pytester)
            except (SystemExit, argparse.ArgumentError, pytest.UsageError, ValueError) as error:
                raise AssertionError(f"{block.place} + {number}: {shlex.join(words)}: {error}") from error


def understood(words: list[str], pytester: pytest.Pytester) -> None:
    """Raise for a command that its program would refuse."""
    program, *arguments = words
    if program == "grovescale":
        if arguments:
            parser().parse_args(arguments)
    elif program == "pytest":
        pytester.parseconfig(*arguments)
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        if arguments[0] not in targets:
            raise ValueError(f"no such target: {arguments[0]}")
    elif program.partition("=")[0].isidentifier() and "=" in program:
        pass
    elif program not in OF_OTHERS:
        raise ValueError("no known program; add it to OF_OTHERS, or mark the block")


def test_commands_and_options_in_the_text_exist() -> None:
    """``grovescale show`` and ``--grovescale-nodes`` in a sentence."""
    actions = parser()._subparsers
    assert actions is not None
    known = set(actions._group_actions[0].choices or ())
    flags = {option.flag for option in OPTIONS}
    wrong = []
    for page in PAGES:
        for line, token in inline(page):
            if token.type != "code_inline":
                continue
            named = re.match(r"grovescale ([a-z][a-z-]*)\b(?!\.)", token.content)
            if named and named[1] not in known:
                wrong.append(f"{page.relative_to(ROOT)}:{line}: no command {named[0]!r}")
            for flag in re.findall(r"--grovescale-[a-z][a-z-]*(?![a-z*-])", token.content):
                if flag not in flags:
                    wrong.append(f"{page.relative_to(ROOT)}:{line}: no option {flag!r}")
    assert not wrong, "\n".join(wrong)


# ---- Python

MODULES = ("checks", "conditions", "scenarios")


@pytest.mark.parametrize("block", cases("python"))
def test_python_uses_what_there_is(block: Block) -> None:
    tree = ast.parse(block.text)
    known: dict[str, Any] = {name: getattr(pytest_grovescale, name) for name in MODULES}
    known["scale"] = pytest_grovescale.Scale
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pytest_grovescale":
            module = importlib.import_module(node.module or "")
            for name in node.names:
                assert hasattr(module, name.name), f"{block.place}: {node.module} has no {name.name}"
                known[name.asname or name.name] = getattr(module, name.name)
        # What `scale` returns is known by the annotations of its methods.
        elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            known[node.optional_vars.id] = returned(node.context_expr, known)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = returned(node.value, known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = resolved(node.value, known)
            assert owner is None or has(owner, node.attr), f"{block.place}: {ast.unparse(node)} does not exist"
        elif isinstance(node, ast.Call) and (called := resolved(node.func, known)) is not None:
            bind(called, node, block)


def resolved(node: ast.expr, known: dict[str, Any]) -> Any:
    """Return what an expression is: a module, a class for its instance, a function; None where that is unknown."""
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=value, attr=name):
            owner = resolved(value, known)
            return getattr(owner, name, None) if owner is not None else None
        case ast.Call():
            return returned(node, known)
        case _:
            return None


def returned(node: ast.expr, known: dict[str, Any]) -> Any:
    """Return the class of this package that a call returns an instance of; None for anything else."""
    called = resolved(node.func, known) if isinstance(node, ast.Call) else None
    if inspect.isfunction(called):
        name = str(called.__annotations__.get("return", ""))
        found = getattr(pytest_grovescale, name, None)
        return found if inspect.isclass(found) else None
    return None


def has(owner: Any, name: str) -> bool:
    return hasattr(owner, name) or name in getattr(owner, "__annotations__", {})


def bind(called: Callable[..., Any], node: ast.Call, block: Block) -> None:
    """Fail for arguments that a call's function does not take."""
    if not inspect.isfunction(called) and not inspect.isclass(called):
        return
    try:
        signature = inspect.signature(called)
    except ValueError:
        return
    method = inspect.isfunction(called) and next(iter(signature.parameters), "") == "self"
    arguments = [None] * (len(node.args) + method)
    named = {keyword.arg: None for keyword in node.keywords if keyword.arg}
    if any(isinstance(one, ast.Starred) for one in node.args):
        return
    try:
        signature.bind_partial(*arguments, **named)
    except TypeError as error:
        raise AssertionError(f"{block.place}: {ast.unparse(node)}: {error}") from error


# ---- definitions

OPERATOR = {"name": "mine", "command": ["mine", "{health_port}", "{metrics_port}", "{webhook_port}", "{cert_dir}"]}
OPERATOR |= {"readiness": {"url": "http://127.0.0.1:{health_port}/readyz"}}  # type: ignore[dict-item]
METRICS = {"metrics": {"url": "http://127.0.0.1:{metrics_port}/metrics"}}


@pytest.mark.parametrize("block", cases("yaml"))
def test_definitions_load(block: Block, tmp_path: Path) -> None:
    """Each by the loader of `grovescale check`, except that the files they name need not exist."""
    shown = yaml.safe_load(block.text)
    if "tests" not in shown and "name" not in shown:
        # A part of one.
        rest = {"name": "mine"} if "backend" in shown else {**OPERATOR, **METRICS}
        block = block._replace(text=block.text + yaml.safe_dump({k: v for k, v in rest.items() if k not in shown}))
    tests = [name for name in shown.get("tests", ()) if name != "*"]
    (tmp_path / "test_shown.py").write_text("\n".join(f"def {name}(scale): ..." for name in tests), encoding="utf-8")
    file = tmp_path / "definition.yaml"
    file.write_text(block.text, encoding="utf-8")
    _, check = _kind(file, {})
    try:
        check(file)
    except DefinitionError as error:
        wrong = [str(one) for one in error.parts if "no such file" not in str(one)]
        assert not wrong, "\n".join([block.place, *wrong])


# ---- links


def test_links_lead_somewhere() -> None:
    wrong = []
    for page in PAGES:
        for line, token in inline(page):
            target = str(token.attrs.get("href") or token.attrs.get("src") or "")
            if not target or urlsplit(target).scheme:
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if page.parent.name == "docs" and file.is_relative_to(ROOT / "docs/reference"):
                continue  # written by Sphinx, which checks it
            if not file.exists():
                wrong.append(f"{page.relative_to(ROOT)}:{line}: {target}: no such file")
            elif anchor and anchor not in anchors(file):
                wrong.append(f"{page.relative_to(ROOT)}:{line}: {target}: no such heading")
    assert not wrong, "\n".join(wrong)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    found = tokens(page)
    headings = [found[number + 1].content for number, token in enumerate(found) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", text.replace("`", "").lower()).replace(" ", "-") for text in headings}


def test_links_to_other_sites_are_well_formed() -> None:
    """Their form only: no test needs a network."""
    wrong = []
    for page in PAGES:
        for line, token in inline(page):
            parts = urlsplit(target := str(token.attrs.get("href") or token.attrs.get("src") or ""))
            host = re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc)
            if parts.scheme and (parts.scheme != "https" or host is None or re.search(r"\s", target)):
                wrong.append(f"{page.relative_to(ROOT)}:{line}: {target}")
    assert not wrong, "\n".join(wrong)
